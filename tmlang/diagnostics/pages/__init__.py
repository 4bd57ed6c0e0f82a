"""The pages of the codes as documentation: ``python -m tmlang.diagnostics.pages`` writes ``docs/diagnostics/``."""

from __future__ import annotations

from pathlib import Path

from tmlang.diagnostics.registry import FAMILIES, Rule, all_rules, page_source

_NOTE = "Snippets stand in [this spec](base.md): what they declare takes the place of what it declares.\n"
_NOTE_FILES = _NOTE.replace("base.md", "artifacts.md")


def rendered() -> dict[str, str]:
    """File name -> text, for every code, the index and the base spec."""
    made = {f"{r.code}.md": _page(r) for r in all_rules()}
    for name, what in (("base", "spec of the snippets"), ("artifacts", "spec of the snippets with files")):
        base = (Path(__file__).parent / f"{name}.tm").read_text(encoding="utf-8")
        made[f"{name}.md"] = f"# The {what}\n\n```tm\n{base}```\n"
    made["index.md"] = _index()
    return made


def _page(rule: Rule) -> str:
    head = f"# {rule.code}: {rule.title}\n\n{rule.severity.capitalize()}, family {rule.family}.\n\n"
    body = page_source(rule.code)
    if "```tm" not in body:
        return head + body
    return head + body + f"\n{_NOTE_FILES if ' with files' in body else _NOTE}"


def _index() -> str:
    lines = ["# Diagnostics", "", "Every code once. `tmc explain CODE` prints the same page.", ""]
    for prefix, family in FAMILIES.items():
        lines += [f"## {prefix}: {family}", ""]
        for rule in all_rules():
            if rule.code.startswith(prefix):
                warning = " (warning)" if rule.severity == "warning" else ""
                lines.append(f"* [{rule.code}]({rule.code}.md): {rule.title}{warning}")
        lines.append("")
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write all pages to ``folder``, and take away those of codes that are no more."""
    folder.mkdir(parents=True, exist_ok=True)
    made = rendered()
    for stale in {p.name for p in folder.glob("*.md")} - set(made):
        (folder / stale).unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
