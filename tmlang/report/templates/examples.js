"use strict";
/* The table of examples: filters, sorts, pages through, and opens one; dark or light. Texts reach the page as text nodes only. */
(() => {
  const PAGE = 25;
  const all = JSON.parse(document.getElementById("examples-data").textContent);
  const word = (i) => all.words[i];
  const make = (tag, text, into) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (into) into.append(made);
    return made;
  };
  const short = (x) => (x === null ? "—" : String(Number(x.toPrecision(4))));
  const natural = new Intl.Collator("en", { numeric: true });
  const tables = new Map();
  /* In the frame of a notebook an address is that of the notebook: it is neither followed nor changed. */
  const framed = location.protocol === "about:";
  const address = (hash) => { if (!framed) history.replaceState(null, "", hash || location.pathname + location.search); };

  class Examples {
    constructor(section) {
      this.section = section;
      this.key = section.dataset.evaluation;
      const data = all.evaluations[Number(this.key)];
      this.rows = data.rows.map((r, at) => ({
        at, unit: word(r[0]), label: word(r[1]), clean: word(r[2]), fate: word(r[3]), decision: word(r[4]),
        by: word(r[5]), distance: r[6], queries: r[7], seconds: r[8], steps: r[9],
        text: (word(r[0]) + "\n" + word(r[1]) + "\n" + word(r[4])).toLowerCase(),
      }));
      this.shown = data.shown;
      this.body = section.querySelector("tbody");
      this.status = section.querySelector("[role=status]");
      this.find = section.querySelector("input[type=search]");
      this.fate = section.querySelector("select.fate");
      this.by = section.querySelector("select.by");
      this.fates = null;
      this.order = null;
      this.falling = false;
      this.page = 0;
      this.present = new Set(this.rows.map((r) => r.fate));
      this.options(this.fate, "fate", all.fates);
      this.options(this.by, "by");
      this.find.addEventListener("input", () => this.filter());
      this.fate.addEventListener("change", () => { this.fates = this.fate.value ? [this.fate.value] : null; this.filter(); });
      this.by.addEventListener("change", () => this.filter());
      section.querySelector(".back").addEventListener("click", () => this.turn(-1));
      section.querySelector(".on").addEventListener("click", () => this.turn(1));
      for (const button of section.querySelectorAll("thead button"))
        button.addEventListener("click", () => this.sort(button));
      section.hidden = false;
      this.filter();
    }
    options(select, field, names) {
      const counts = new Map();
      for (const row of this.rows) counts.set(row[field], (counts.get(row[field]) || 0) + 1);
      for (const [value, count] of counts)
        if (value) make("option", `${names ? names[value] : value} (${count})`, select).value = value;
    }
    filter() {
      const text = this.find.value.toLowerCase(), by = this.by.value, fates = this.fates && new Set(this.fates);
      this.kept = this.rows.filter(
        (r) => (!fates || fates.has(r.fate)) && (!by || r.by === by) && (!text || r.text.includes(text)));
      this.page = 0;
      this.arrange();
    }
    choose(fates) {
      this.fates = fates;
      this.find.value = this.by.value = "";
      this.fate.value = fates && fates.length === 1 ? fates[0] : "";
      this.filter();
    }
    sort(button) {
      this.falling = this.order === button.value && !this.falling;
      this.order = button.value;
      for (const head of this.section.querySelectorAll("thead th")) head.removeAttribute("aria-sort");
      button.closest("th").setAttribute("aria-sort", this.falling ? "descending" : "ascending");
      this.page = 0;
      this.arrange();
    }
    arrange() {
      const key = this.order, sign = this.falling ? -1 : 1;
      /* What was not measured stands last, whichever way. */
      const compare = (a, b) => {
        const x = a[key], y = b[key];
        if (x === y) return a.at - b.at;
        if (x === null || x === "") return 1;
        if (y === null || y === "") return -1;
        return (typeof x === "string" ? natural.compare(x, y) : x - y) * sign;
      };
      if (key) this.kept.sort(compare); else this.kept.sort((a, b) => a.at - b.at);
      this.draw();
    }
    turn(by) { this.page += by; this.draw(); }
    draw() {
      const from = this.page * PAGE, rows = this.kept.slice(from, from + PAGE), body = document.createDocumentFragment();
      rows.forEach((row, i) => {
        const line = make("tr", undefined, body), head = make("th", undefined, line);
        head.scope = "row";
        const open = make("button", row.unit, head);
        open.className = "link";
        open.type = "button";
        open.addEventListener("click", () => this.open(from + i));
        make("td", row.label, line);
        const fate = make("td", all.fates[row.fate], line);
        fate.className = "fate-" + row.fate;
        make("td", row.decision || "—", line);
        make("td", row.by || "—", line);
        for (const value of [short(row.distance), String(row.queries), row.seconds.toFixed(3)])
          make("td", value, line).className = "number";
      });
      this.body.replaceChildren(body);
      const last = Math.max(0, Math.ceil(this.kept.length / PAGE) - 1);
      this.section.querySelector(".back").disabled = this.page <= 0;
      this.section.querySelector(".on").disabled = this.page >= last;
      const which = this.kept.length > PAGE ? `, ${from + 1} to ${from + rows.length} shown` : "";
      const chosen = this.fates && this.fates.length > 1 ? `: ${this.fates.map((f) => all.fates[f]).join(", ")}` : "";
      this.status.textContent = `${this.kept.length} of ${this.rows.length}${which}${chosen}`;
    }
    open(at) {
      this.opened = at;
      show(this, this.kept[at]);
    }
  }

  const dialog = document.getElementById("incident"), inside = dialog.querySelector(".inside");
  let current = null;
  const table = (heads, rows, into, numbers) => {
    const box = make("div", undefined, into), made = make("table", undefined, box);
    box.className = "scroll";
    box.tabIndex = 0;
    const top = make("tr", undefined, make("thead", undefined, made)), body = make("tbody", undefined, made);
    for (const head of heads) make("th", head, top).scope = "col";
    for (const row of rows) {
      const line = make("tr", undefined, body);
      row.forEach((text, i) => { if (make("td", text, line) && numbers.includes(i)) line.lastChild.className = "number"; });
    }
  };
  function show(owner, row) {
    current = owner;
    inside.replaceChildren();
    const title = dialog.querySelector("h2");
    title.textContent = row.unit;
    const facts = make("p", undefined, inside);
    facts.textContent = `Label ${row.label}; decided as ${row.clean} before any change. Fate: ${all.fates[row.fate]}` +
      (row.by ? `, found by ${row.by}: decided as ${row.decision} at a distance of ${short(row.distance)}.` : ".");
    const shown = owner.shown[row.unit];
    if (shown && shown.pictures) {
      const line = make("div", undefined, inside);
      line.className = "row";
      ["original", "changed", `change, ±${shown.reach}`].forEach((what, i) => {
        const box = make("div", undefined, line), image = make("img", undefined, box);
        image.src = shown.pictures[i];
        image.alt = `${what} of ${row.unit}`;
        make("span", what, box).className = "what";
      });
    }
    if (shown && shown.changes.length) {
      make("h3", "What changed", inside);
      table(["feature", "before", "after", "change"], shown.changes, inside, [1, 2, 3]);
    }
    make("h3", "Its records", inside);
    table(["stage", "outcome", "decided", "distance", "margin", "queries", "seconds", "row of the bundle"],
      row.steps.map((s) => [word(s[0]), word(s[1]), word(s[2]) || "—", word(s[3]) || "—", word(s[4]) || "—",
        String(s[5]), s[6].toFixed(3), word(s[7]) + "#" + s[8]]), inside, [3, 4, 5, 6]);
    dialog.querySelector(".previous").disabled = owner.opened <= 0;
    dialog.querySelector(".next").disabled = owner.opened >= owner.kept.length - 1;
    if (!dialog.open) dialog.showModal();
    address(`#example/${owner.key}/${encodeURIComponent(row.unit)}`);
  }
  dialog.querySelector(".previous").addEventListener("click", () => current.open(current.opened - 1));
  dialog.querySelector(".next").addEventListener("click", () => current.open(current.opened + 1));
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => address(""));
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && current.kept[current.opened + step]) current.open(current.opened + step);
  });

  for (const section of document.querySelectorAll("section.examples"))
    tables.set(section.dataset.evaluation, new Examples(section));
  for (const link of document.querySelectorAll("a[data-fates]"))
    link.addEventListener("click", () => {
      const owner = tables.get(link.dataset.evaluation);
      owner.choose(link.dataset.fates ? link.dataset.fates.split(" ").filter((f) => owner.present.has(f)) : null);
    });
  for (const link of document.querySelectorAll("a[href^='#']"))
    link.addEventListener("click", (event) => {
      const target = document.getElementById(link.hash.slice(1)), details = target?.closest("details");
      if (details) details.open = true;
      if (framed) {
        event.preventDefault();
        target?.scrollIntoView();
      }
    });
  const reveal = (key, unit) => {
    const owner = tables.get(key), place = () => owner.kept.findIndex((r) => r.unit === unit);
    if (!owner) return;
    if (place() < 0) owner.choose(null);
    if (place() >= 0) owner.open(place());
  };
  for (const link of document.querySelectorAll("a[data-unit]"))
    link.addEventListener("click", (event) => {
      event.preventDefault();
      reveal(link.dataset.evaluation, link.dataset.unit);
    });
  const theme = document.querySelector("button.theme"), dark = document.getElementById("dark");
  const isDark = () => matchMedia(dark.media).matches;
  const name = () => { theme.textContent = isDark() ? "light" : "dark"; };
  theme.addEventListener("click", () => {
    dark.media = isDark() ? "not all" : "screen";
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  theme.hidden = false;
  name();
  const asked = location.hash.match(/^#example\/(\d+)\/(.+)$/);
  if (asked) reveal(asked[1], decodeURIComponent(asked[2]));
})();
