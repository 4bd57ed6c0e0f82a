"""``tmc backends --format markdown``: the page ``docs/backends.md``, made from the manifests and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tmlang.plan.capability import Argument, Backend, Method

_HEAD = """\
# Backends: every attack, verifier and corruption, and what each can carry

Made from the manifests (`tmlang/backends/*.toml`) by `make docs`. `tmc backends NAME` shows the same in the terminal,
with [plugins](plugins.md). The conformance suite (`tests/conformance`) runs every row that is built, and every refusal
is there as an expected failure: one that starts to work fails the suite.

* **access**: the least that it can work with, from `nothing` over `decisions` and `scores` to `white_box`.
* **sets**: kinds of `allow:` that it searches; `minimize` names the norms that it can take in `minimize:`.
* **carries**: how faithfully a set is searched. `exact`: that set. `inner`: a part of it (enough for witnesses, never
  for certificates). `outer`: more than it (enough for certificates; a witness is projected and judged again).
* **cannot**: *the library* cannot, it is *not built* here, or it is *impossible* for anybody.
* Whatever a method says of itself is not read: each candidate is decided again, member and failure both.

{count} methods can be run and {described} more can be checked and planned.
"""
_BY = {"not_built": "not built", "library": "the library", "impossible": "impossible"}
_SHARED_LEAST = 3
"""Methods that a backend must have for what they share to be worth a paragraph of its own."""


def page(backends: Sequence[Backend]) -> str:
    """The whole page, for ``backends`` in this order."""
    methods = [m for b in backends for m in b.methods.values()]
    built = sum(m.status == "available" for m in methods)
    sections = [line for b in backends for line in section(b)]
    return "\n".join([_HEAD.format(count=built, described=len(methods) - built), *sections, ""])


def section(backend: Backend) -> Iterator[str]:
    """One backend: a table of its methods, what they share, and each by itself."""
    methods = list(backend.methods.values())
    yield f"## {backend.name}\n"
    yield f"{backend.library} {backend.version} (`{backend.install}`).\n"
    yield "| method | what it does | stands behind | evidence | access | sets | goals |"
    yield "|---|---|---|---|---|---|---|"
    yield from map(_row, methods)
    yield ""
    if backend.not_offered:
        yield "Not offered:\n"
        yield from (f"* `{name}`: {why}" for name, why in backend.not_offered.items())
        yield ""
    shared = _shared(methods) if len(methods) >= _SHARED_LEAST else frozenset()
    if shared:
        yield "All of them:\n"
        yield from sorted(shared, key=_facts(methods[0]).index)
        yield ""
    for method in methods:
        yield from describe(method, shared)


def _row(method: Method) -> str:
    sets = ", ".join(method.norms)
    if method.minimizes:
        sets += f"{'; ' if sets else ''}minimize {', '.join(method.minimizes)}"
    cells = (f"`{method.name}`", method.title, f"`{_clause(method)}:`", method.evidence, method.access, sets)
    return _cells(*cells, ", ".join(method.goals))


def _clause(method: Method) -> str:
    return "apply" if method.role == "corrupt" else method.role


def _shared(methods: Sequence[Method]) -> frozenset[str]:
    """The facts that hold for every method of a backend, as lines."""
    return frozenset.intersection(*(frozenset(_facts(m)) for m in methods))


def _facts(method: Method) -> list[str]:
    """What is to be known of a method beside its row in the table, each fact a line."""
    facts = [
        f"* works on an object that is {' or '.join(method.objects)}",
        f"* needs {method.min_classes} classes or more",
        f"* goes through: {', '.join(method.through) or 'nothing'}",
    ]
    if needs := _needs(method):
        facts.append(f"* needs inputs that are {needs}")
    if method.minimal:
        facts.append("* knows no radius: what it finds counts if it lies within the threat's")
    if method.parts is not None:
        facts.append(f"* of a transform it searches {', '.join(method.parts)}")
    if method.steps is not None:
        facts.append(f"* sees through the steps {', '.join(method.steps) or 'none'}")
    facts += [f"* carries {how}: {', '.join(keys)}" for how, keys in _grouped(method.carries).items()]
    for norm, carries in method.carries_in.items():
        facts += [f"* carries {how} in {norm}: {', '.join(keys)}" for how, keys in _grouped(carries).items()]
    facts += [f"* cannot {key}: {r.because} ({_BY[r.by]})" for key, r in method.refused.items()]
    drawn = {"none": "draws nothing", "seeded": "is given its seed"}.get(method.draws, f"draws from {method.draws}")
    companions = ", and companions in the batch change its result" if method.batch_dependent else ""
    facts.append(f"* {drawn}{companions}")
    if method.budget_arguments:
        facts.append(f"* restates the budget, so refused: {', '.join(f'`{a}`' for a in method.budget_arguments)}")
    facts += [f"* `{name}` is the run's: {why}" for name, why in method.run_arguments.items()]
    facts += [f"* caution: {caution}" for caution in method.cautions]
    return facts


def _needs(method: Method) -> str:
    form = method.input
    needs = [
        word for word, asked in (("bytes", form.bytes), ("pictures", form.picture), ("square", form.square)) if asked
    ]
    needs += [f"of {' or '.join(map(str, form.channels))} channels"] if form.channels else []
    needs += [f"{form.min_side} pixels or more on each side"] if form.min_side else []
    return ", ".join(needs)


def _grouped(carries: Mapping[str, str]) -> dict[str, list[str]]:
    """How -> what, in the order of first appearance."""
    groups: dict[str, list[str]] = {}
    for key, how in carries.items():
        groups.setdefault(how, []).append(key)
    return groups


def describe(method: Method, shared: frozenset[str] = frozenset()) -> Iterator[str]:
    """One method; ``shared`` facts are left out."""
    built = "" if method.status == "available" else " (not built yet)"
    yield f"### {method.path}{built}\n"
    names = f" Also written {', '.join(f'`{a}`' for a in method.aliases)}." if method.aliases else ""
    yield f"{method.source}.{names}\n"
    facts = [fact for fact in _facts(method) if fact not in shared]
    passes = [f"* {way} passes per unit: `{formula}`" for way, formula in method.cost.items()]
    if facts or passes:
        yield from (*facts, *passes)
        yield ""
    if method.arguments:
        yield "| argument | type | default | range | meaning |"
        yield "|---|---|---|---|---|"
        yield from map(_argument, method.arguments.values())
        yield ""


def _argument(argument: Argument) -> str:
    default = argument.default or ("may be absent" if argument.optional else "required")
    kind = " or ".join(f"`{c}`" for c in argument.choices) or argument.type
    ends = [f"{sign} {end}" for sign, end in ((">=", argument.low), ("<=", argument.high)) if end is not None]
    needs = [f"{choice} needs {n} classes" for choice, n in argument.min_classes.items()]
    return _cells(f"`{argument.name}`", kind, default, ", ".join([*ends, *needs]), argument.meaning)


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
