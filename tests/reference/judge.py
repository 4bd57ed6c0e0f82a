"""A world through the real path, and every verdict and number of it against the truth.

Parse, check, plan, run in this process, bundle, tally, claims, audit; of some also the whole audit with the reports,
the queries in DuckDB, and the layout. The answers are sentences; none means that all agree.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction as F
from pathlib import Path

import duckdb
import numpy as np

from reference import draw, write
from reference.truth import Shown, Truth, columns, joined, transforms
from reference.world import NOTHING, Evaluation, World
from tmlang.api import auditing, reading, running
from tmlang.api.reading import Front
from tmlang.audit import sql, verify
from tmlang.audit.bundle import Bundle
from tmlang.audit.claims import Judgement
from tmlang.audit.columns import Columns
from tmlang.audit.record import Record
from tmlang.base.source import Source
from tmlang.diagnostics.stop import Stop
from tmlang.execute import output, runner
from tmlang.plan.text import plan_hash
from tmlang.syntax import parse
from tmlang.syntax.printer import format_tree

OTHERWISE = frozenset({"TM201", "TM202", "TM222", "TM225"})
"""Radii that move nothing, or forbid nothing: such a world is drawn again."""
STAGE = frozenset({"TM508", "TM509", "TM513"})
"""What a method cannot carry: the stage is left out. Of ``native.enumerate`` this is never so."""
LATE = (
    "is not folded", "native.decision_search searches linf and l2 sets", "`rounding: assumed` takes a measured gap",
)  # fmt: skip
"""What a method refuses when it is called only: the unit is unfinished then, as every number says."""
MEMORY = Path("/dev/shm")
EVERY = 20
"""One world in so many is looked at from all sides."""


class Wrong(Exception):
    """What makes all further looking useless."""


def check(seed: int) -> tuple[list[str], Counter[str]]:
    """What is wrong with the world of a seed, and what was counted."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="reference-", dir=MEMORY if MEMORY.is_dir() else None) as name:
        try:
            return list(_World(seed, Path(name), counts).wrong()), counts
        except Wrong as wrong:
            return [str(wrong)], counts


def prepared(seed: int, folder: Path) -> tuple[World, dict[str, Truth], Front]:
    """The first world of a seed that means something, written to ``folder`` with the stages that can carry it."""
    for world, truths in draw.worlds(seed):
        shutil.rmtree(folder, ignore_errors=True)
        write.files(world, folder)
        world, front = _carried(_claimed(world, truths), truths, folder / "spec.tm")
        codes = {d.code for d in front.diagnostics if d.is_error}
        if not codes:
            return world, truths, front
        if not codes & OTHERWISE:
            told = "; ".join(f"{d.code}: {d.message}" for d in front.diagnostics if d.is_error)
            raise Wrong(f"refused: {told}")
    raise Wrong("nothing that means something")


def _carried(world: World, truths: dict[str, Truth], path: Path) -> tuple[World, Front]:
    """Without the stages that are refused, and what is checked then."""
    while True:
        text = write.spec(world)
        path.write_text(text, encoding="utf-8")
        front = running.at_hand(reading.check(str(path)))
        refused = [d for d in front.diagnostics if d.is_error and d.code in STAGE]
        if not refused:
            return world, front
        lines = {text[: d.span.start].count("\n") for d in refused}
        told = {text.splitlines()[at].strip() for at in lines}
        left = _without(world.evaluations, text, lines)
        if left == world.evaluations or any("native.enumerate" in line for line in told):
            raise Wrong(f"refused: {'; '.join(d.message for d in refused)} at {told}")
        world = _claimed(replace(world, evaluations=left), truths)


def _without(evaluations: Sequence[Evaluation], text: str, lines: set[int]) -> tuple[Evaluation, ...]:
    """Without the stages on these lines; an evaluation of nothing, or of a proof alone, goes with them."""
    within, found = "", []
    gone: set[tuple[str, str]] = set()
    for at, line in enumerate(text.splitlines()):
        if line.startswith("evaluate "):
            within = line.split()[1]
        if at in lines:
            gone.add((within, line.split(":")[1].split("=")[0].strip()))
    for e in evaluations:
        stages = tuple(s for s in e.stages if (e.name, s[1]) not in gone)
        if stages:
            found.append(replace(e, stages=stages))
    return tuple(found)


def _claimed(world: World, truths: dict[str, Truth]) -> World:
    """With claims whose status the truth tells: what is enumerated is known to the unit."""
    claims = []
    for e in world.evaluations:
        truth = truths[e.threat.name]
        found = exact_columns(truth)
        rate = "robust_accuracy" if "robust_accuracy" in found else "robust_rate"
        low, high, base = found[rate]
        if not base:
            continue
        number = F(low, base)
        if low != high:
            continue
        if _enumerates(e):
            claims.append((f"{e.name} is", f"{rate}({e.name}) == {number}", "supported"))
            if number < 1:
                claims.append((f"{e.name} is more", f"{rate}({e.name}) > {number}", "refuted"))
            if number > 0:
                claims.append((f"{e.name} certified", f"certified({e.name}) >= {number}", "supported"))
        elif number > 0 and any(role == "attack" for role, _, _ in e.stages):
            claims.append((f"{e.name} survives", f"survival({e.name}) >= {number}", "supported"))
    return replace(world, claims=tuple(claims))


def _enumerates(e: Evaluation) -> bool:
    return any(call.startswith("native.enumerate") for _, _, call in e.stages)


def exact_columns(truth: Truth) -> dict[str, tuple[int, int, int]]:
    """The columns of an evaluation that enumerates and does nothing else."""
    shown = [
        Shown(
            u.clean,
            broken=u.clean == "cc" and bool(u.fails),
            open=u.clean == "cc" and u.unknown and not u.fails,
            certified=u.clean == "cc" and u.robust,
            failed=u.clean == "cc" and u.unknown and not u.fails,
        )
        for u in truth.units
    ]
    return columns(truth.threat, truth.units, shown, proofs=True)


class _World:
    def __init__(self, seed: int, folder: Path, counts: Counter[str]) -> None:
        self.seed, self.folder, self.counts = seed, folder, counts
        self.whole = random.Random(f"whole {seed}").randrange(EVERY) == 0

    def wrong(self) -> Iterator[str]:
        self.world, self.truths, front = prepared(self.seed, self.folder / "spec")
        self.counts.update(specs=1, evaluations=len(self.world.evaluations))
        bundle, result = self._run(front)
        self.bundle, self.records = bundle, bundle.records()
        for evaluation in self.world.evaluations:
            told = result.columns[evaluation.name]
            yield from (f"{evaluation.name}: {w}" for w in self._evaluation(evaluation, told))
        yield from self._claims(result.judgements)
        open_ = self.counts["refused_late"] or any(map(_gives_none, self.truths.values()))
        if result.exit_code in (4, 5) and not open_:
            yield f"exit code {result.exit_code}"
        yield from (f"audit: {fault.text}" for fault in verify.audit(bundle.path).faults)
        if self.whole:
            yield from self._from_all_sides(front)

    def _run(self, front: Front) -> tuple[Bundle, runner.RunResult]:
        out = self.folder / "out"
        try:
            plan, options = running.prepared(front, locked=False)
            with _unreported(not self.whole):
                result = runner.run(plan, replace(options, out=out, trust_code=True))
        except Stop as stopped:
            told = "; ".join(f"{d.code}: {d.message}" for d in stopped.diagnostics)
            raise Wrong(f"stopped: {told}") from stopped
        return Bundle.open(out), result

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _evaluation(self, e: Evaluation, told: Columns) -> Iterator[str]:
        truth = self.truths[e.threat.name]
        rows = [r for r in self.records if r.evaluation == e.name]
        clean = [r for r in rows if r.stage == "clean"]
        units = truth.units
        self.counts.update(units=len(units), inputs=sum(u.size for u in units))
        if [r.unit for r in clean] != [u.id for u in units]:
            yield f"units {[r.unit for r in clean]}, not {[u.id for u in units]}"
            return
        for u, row in zip(units, clean, strict=True):
            decision = None if u.decision == NOTHING else u.decision
            own = (u.clean, decision, -1 if u.label is None else u.label, u.target)
            if (row.clean, row.clean_decision, row.label, row.target) != own:
                yield f"{u.id}: the original is {row.clean}, {row.clean_decision}, not {own}"
        of = {u.id: [r for r in rows if r.unit == u.id and r.stage != "clean"] for u in units}
        for u in units:
            for row in of[u.id]:
                yield from (f"{u.id}, {row.stage}: {w}" for w in self._row(e, truth, u, row))
        shown = [self._shown(e, u, of[u.id]) for u in units]
        yield from self._columns(e, truth, shown, told)

    def _row(self, e: Evaluation, truth: Truth, u, row: Record) -> Iterator[str]:
        if not (u.applicable and u.clean == "cc"):
            yield f"a row of a unit that is {u.clean} or not applicable"
            return
        call = next(call for _, label, call in e.stages if row.stage in (label, f"{e.name}/{label}"))
        if row.verdict is not None:
            yield from self._verdict(truth, u, row, call)
        elif row.status not in ("none", "valid", "invalid") and not (u.unknown or self._late(row)):
            yield f"is {row.status}: {row.message}"
        if row.status in ("valid", "invalid") and row.candidate is not None:
            yield from self._candidate(truth, u, row)
        if row.status == "valid" and row.candidate is None:
            yield "a candidate that counts was not kept"

    def _verdict(self, truth: Truth, u, row: Record, call: str) -> Iterator[str]:
        self.counts.update(verdicts=1, certified=row.verdict == "certified")
        if row.verdict == "certified" and u.fails:
            yield f"certified by {call}, and {len(u.fails)} of {u.size} inputs fail"
        if row.verdict == "broken" and not u.fails:
            yield f"broken by {call}, and none of {u.size} inputs fails"
        if row.verdict == "error" and not u.unknown and not self._late(row):
            yield f"error by {call}: {row.message}"
        exact = call.startswith("native.enumerate") or (".enumerate" in call and not transforms(truth.threat.allow))
        if exact and not self._late(row):
            wanted = "certified" if u.robust else "broken" if u.fails else "error"
            if row.verdict != wanted and not ("auto_lirpa" in call and u.unknown):
                yield f"{row.verdict} by {call}, not {wanted}: {len(u.fails)} of {u.size} inputs fail; {row.message}"
        if call.startswith("native.enumerate") and f"{u.size} inputs in the set" not in (row.message or ""):
            yield f"{row.message}, not {u.size}"

    def _late(self, row: Record) -> bool:
        late = any(text in (row.message or "") for text in LATE)
        self.counts.update(refused_late=late)
        return late

    def _candidate(self, truth: Truth, u, row: Record) -> Iterator[str]:
        """The kept input against the list of all."""
        x, _, _ = self.bundle.candidate(row.candidate)
        v = _numbers(self.world, x)
        key = None if v is None else v.tobytes()
        inside = key is not None and key in truth.sets[u.example]
        self.counts.update(candidates=1)
        if inside != (row.within_scope is True) or inside != (row.status == "valid"):
            yield f"a candidate is {row.status}, {row.within_scope}, and it is {'' if inside else 'not '}in the set"
        if not inside:
            return
        z, fails = truth.decided[u.example][key], key in u.fails
        told = (row.decision, row.observed_failure, row.rejected)
        if told != ((None if z == NOTHING else z), fails, z == -1):
            yield f"a candidate is decided {told}, not {(z, fails, z == -1)}"
        d = [abs(F(int(a) - int(b), self.world.over)) for a, b in zip(v, self.world.x[u.example], strict=True)]
        l0 = sum(q > 0 for q in d)
        own = (float(max(d)), float(sum(q * q for q in d)) ** 0.5, float(sum(d)))
        told = (row.linf, row.l2, row.l1)
        words = any(self.world.space.cell(j).words for j in range(len(d)))
        if row.l0 != l0 or (None in told and not words) or not (words or np.allclose(told, own, rtol=1e-6, atol=0)):
            yield f"distances {(row.linf, row.l2, row.l1, row.l0)}, not {(*own, l0)}"

    # --- numbers ------------------------------------------------------------------------------------------------------

    def _shown(self, e: Evaluation, u, rows: Sequence[Record]) -> Shown:
        """What the stages came to, read from the kept inputs and the verdicts alone."""
        if u.clean != "cc" or not u.applicable:
            return Shown(u.clean)
        met = {r.candidate for r in rows if r.status == "valid" and r.candidate is not None}
        keys = [_numbers(self.world, self.bundle.candidate(c)[0]) for c in met]
        seen = {k.tobytes() for k in keys if k is not None}
        broken, denied = bool(seen & u.fails), bool(seen & u.denies)
        certified = any(r.verdict == "certified" and (r.margin is None or r.margin > (r.gap or 0)) for r in rows)
        proving = [label for role, label, _ in e.stages if role != "attack"]
        asked = {r.stage.split("/")[-1] for r in rows if r.verdict is not None}
        failed = any(r.verdict in ("error", "timeout") for r in rows) or (not broken and set(proving) - asked != set())
        searches = any(role == "attack" for role, _, _ in e.stages)
        stuck = [r for r in rows if (r.verdict is None) == searches and _unfinished(r, searches)]
        return Shown("cc", broken, not broken and bool(stuck), certified, failed and not certified, denied)

    def _columns(self, e: Evaluation, truth: Truth, shown: Sequence[Shown], told: Columns) -> Iterator[str]:
        roles = {role for role, _, _ in e.stages}
        own = columns(e.threat, truth.units, shown, proofs=bool(roles - {"attack"}))
        if not roles & {"attack", "enumerate"}:
            own = {k: v for k, v in own.items() if k not in ("survival", "survival_completed", "attack_coverage")}
        if roles == {"enumerate"} and _enumerates(e) and own != exact_columns(truth):
            yield f"the rows say {own}, the truth is {exact_columns(truth)}"
        for name, (low, high, base) in own.items():
            found = told.get(name)
            if found is None:
                yield f"no column {name}"
                continue
            ends = (F(low, base), F(high, base)) if base else (None, None)
            if (found.low, found.high, found.denominator) != (*ends, base):
                yield f"{name} is [{found.low}, {found.high}] of {found.denominator}, not {ends} of {base}"
        yield from self._bounds(truth, told)
        if e.threat.rejected == "denied":
            yield from self._denied(e, truth, shown, told)
        broken = [c for c in told.contradictions if not c.within_gap]
        if broken:
            yield f"contradictions: {broken}"

    def _bounds(self, truth: Truth, told: Columns) -> Iterator[str]:
        """Certified at most, and survival at least, what is robust."""
        exact = exact_columns(truth)
        rate = "robust_accuracy" if "robust_accuracy" in exact else "robust_rate"
        low, high, base = exact[rate]
        if not base:
            return
        certified, survival = told.get("certified"), told.get("survival")
        if certified is not None and certified.low > F(high, base):
            yield f"{certified.low} are certified, and {F(high, base)} robust"
        if survival is not None and survival.high < F(low, base):
            yield f"{survival.high} survive, and {F(low, base)} are robust"

    def _denied(self, e: Evaluation, truth: Truth, shown: Sequence[Shown], told: Columns) -> Iterator[str]:
        counted = joined(e.threat, truth.units, shown)
        met, cc = sum(s.denied for s in counted), sum(s.clean in ("cc", "cu") for s in counted)
        found = told.get("denied")
        if found is None or (found.numerator, found.denominator) != (met, cc):
            yield f"denied is {found}, not {met} of {cc}"

    def _claims(self, judged: Sequence[Judgement]) -> Iterator[str]:
        for (name, formula, status), found in zip(self.world.claims, judged, strict=True):
            self.counts.update(claims=1)
            if found.status != status and not self.counts["refused_late"]:
                yield f"claim {name!r}: {formula} is {found.status}, not {status}"

    # --- from all sides -----------------------------------------------------------------------------------------------

    def _from_all_sides(self, front: Front) -> Iterator[str]:
        self.counts.update(audited_whole=1)
        yield from (f"whole audit: {fault.text}" for fault in auditing.audit(self.bundle.path).faults)
        yield from self._queries()
        path = self.folder / "spec" / "spec.tm"
        parsed = parse(Source(str(path), path.read_text(encoding="utf-8")))
        path.write_text(format_tree(parsed.tree), encoding="utf-8")
        laid_out = running.at_hand(reading.check(str(path))).plan
        meant = [None if plan is None else plan_hash(replace(plan, modules=())) for plan in (front.plan, laid_out)]
        if meant[0] != meant[1]:
            yield "the layout changes the meaning"

    def _queries(self) -> Iterator[str]:
        """Every number and judgement by DuckDB, from the records alone."""
        told, found = self.bundle.json("columns.json"), {}
        script = sql.script(self.bundle.json("plan.json"), str(self.bundle.path))
        with duckdb.connect(config={"threads": 1}) as connection:
            for statement in connection.extract_statements(script):
                connection.execute(statement)
            for e in self.world.evaluations:
                for name, low, high, base in connection.execute(f'FROM "{e.name}: table"').fetchall():
                    ends = [str(F(int(end), base)) for end in (low, high)] if base else [None, None]
                    found[e.name, name] = [low, base, *ends]
            judged = connection.execute("SELECT claim, status FROM claims").fetchall()
        own = {
            (e, c): [v["numerator"], v["denominator"], v["low"], v["high"]]
            for e, of in told["evaluations"].items()
            for kind, word in (("columns", ""), ("attacks", "attack_success:"), ("alone", "found_alone:"))
            for c, v in ((word + c, v) for c, v in of[kind].items())
        }
        yield from (f"SQL: {k} is {found.get(k)}, not {v}" for k, v in own.items() if found.get(k) != v)
        yield from (f"SQL: {k} is {v}, and columns.json has none" for k, v in found.items() if k not in own)
        claims = [(c["text"], c["status"]) for c in told["claims"]]
        if [tuple(row) for row in judged] != claims:
            yield f"SQL: claims {judged}, not {claims}"


def _unfinished(row: Record, searches: bool) -> bool:
    if row.status in ("error", "timeout", "crashed", "oom", "unstable"):
        return True
    return not searches and row.verdict in ("error", "timeout", "unknown")


def _gives_none(truth: Truth) -> bool:
    return any(NOTHING in z.values() for z in truth.decided)


def _numbers(world: World, x: np.ndarray) -> np.ndarray | None:
    """What a stored input stands for, times ``over``: its lattice indices, or its own real numbers."""
    space, row = world.space, []
    for j, stored in enumerate(x.reshape(-1)):
        cell = space.cell(j)
        value = cell.low + int(stored) * cell.step if cell.step else F(float(stored))
        if (value * world.over).denominator != 1:
            return None
        row.append(int(value * world.over))
    return np.array(row, np.int64)


@contextmanager
def _unreported(on: bool) -> Iterator[None]:
    """Without pages, which cost as much as the rest."""
    kept = output.write_into, output.write_descriptions
    if on:
        output.write_into, output.write_descriptions = (lambda _: ()), (lambda _: None)
    try:
        yield
    finally:
        output.write_into, output.write_descriptions = kept
