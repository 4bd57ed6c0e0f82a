"""What an audit adds with the model at hand: its decisions again, and the run itself again, whole or in part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from secrets import randbits

from tmlang.audit import verify
from tmlang.audit.bundle import STATEMENT, Bundle
from tmlang.audit.forging import Drawn, chances, draw
from tmlang.audit.identity import checked_run
from tmlang.audit.show import percent
from tmlang.audit.verify import Audit, Fault
from tmlang.audit.void import void_methods
from tmlang.diagnostics.stop import stop
from tmlang.execute.memo import Memo
from tmlang.execute.progress import Progress, Silent
from tmlang.execute.replay import replay_all, world_of
from tmlang.execute.rerun import Chosen, Reran, rerun
from tmlang.execute.workers import Limits
from tmlang.execute.world import World

_SHOWN = 12
"""Examples that are named one by one."""


@dataclass(frozen=True)
class Part:
    """Which examples are run again: ``count`` of them or a ``share`` in (0, 1], drawn from ``seed`` (``None``: one that
    nobody knows before); all without either. ``proofs``: only the stages that prove."""

    count: int | None = None
    share: Fraction | None = None
    seed: int | None = None
    proofs: bool = False

    @property
    def whole(self) -> bool:
        return self.count is None and self.share is None


@dataclass(frozen=True)
class Again:
    """How a run is made again. ``memory``: the folder in which an interrupted rerun is remembered."""

    model: Path
    trust_code: bool = False
    part: Part = Part()
    limits: Limits = field(default_factory=Limits)
    progress: Progress = field(default_factory=Silent)
    memory: Path | None = None


def replay(found: Audit, path: str | Path, model: Path, *, trust_code: bool) -> World:
    """Add to ``found`` what the model itself says of originals and saved inputs."""
    bundle = Bundle.open(path, sealed=False)
    world = world_of(bundle, model, trust_code=trust_code)
    again = replay_all(bundle, world)
    found.faults += [Fault("TM848", text) for text in again.faults]
    found.checked.append(f"{again.clean} originals and {again.inputs} saved inputs, decided again by the model")
    found.unchecked = [t for t in found.unchecked if t not in (verify.MODEL, verify.DATA)] + again.unchecked
    return world


def run_again(found: Audit, path: str | Path, how: Again) -> None:
    """Add to ``found`` what the model says, and what the run gives when it is made again.

    Raises ``Stop`` where that cannot begin (TM7, TM859), ``KeyboardInterrupt`` when stopped: the same call goes on.
    """
    world = replay(found, path, how.model, trust_code=how.trust_code)
    if found.faults:
        found.unchecked.append("the rerun: the rows that it starts from do not hold")
        return
    bundle = Bundle.open(path, sealed=False)
    given = checked_run(bundle.json("run.json"))["examples"]
    names = list(dict.fromkeys(example for ids in given.values() for example in ids))
    seed, chosen = _chosen(names, how.part)
    memo = _memo(bundle, chosen, how.memory)
    made = rerun(bundle, world, chosen, how.limits, how.progress, memo)
    memo.forget()
    found.faults += [Fault("TM857", text) for text in made.faults]
    found.unreproduced += [Fault("TM858", text) for text in made.unreproduced]
    found.reran += _told(made, given, chosen, seed)
    _unsaid(found, made, how.part)
    if not how.part.proofs:
        found.reran += _chances(bundle, made, given, chosen)


def _chosen(names: list[str], part: Part) -> tuple[int | None, Chosen]:
    """The seed, and the examples that are drawn from it."""
    if part.whole:
        return None, Chosen(None, part.proofs)
    count = part.count if part.count is not None else -(-len(names) * (part.share or 0) // 1)
    if not 0 < count <= len(names):
        raise stop("TM859", f"{count} examples are to be run again, and the bundle has {len(names)}")
    seed = randbits(32) if part.seed is None else part.seed
    return seed, Chosen(draw(names, int(count), seed), part.proofs)


def _memo(bundle: Bundle, chosen: Chosen, folder: Path | None) -> Memo:
    about = [
        sha256(bundle.read_bytes(STATEMENT)).hexdigest(),
        None if chosen.examples is None else sorted(chosen.examples),
        chosen.proofs,
    ]
    name = sha256(json.dumps(about).encode()).hexdigest()
    return Memo(None if folder is None else folder / f"audit-{name[:10]}.json", name)


def _told(made: Reran, given: Mapping[str, list[str]], chosen: Chosen, seed: int | None) -> list[str]:
    """What was made again."""
    wanted = chosen.examples
    lines = []
    if wanted is not None:
        named = sorted(wanted)
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        lines.append(f"drawn from the seed {seed} (--seed {seed} draws them again): {', '.join(named[:_SHOWN])}{more}")
    what = "proofs of" if chosen.proofs else "searches and proofs of"
    for name, ids in given.items():
        again = len(made.examples.get(name, ()))
        own = f", {len(wanted & set(ids))} drawn and those that share a call with them" if wanted is not None else ""
        lines.append(f"{name}: {what} {again} of {len(ids)} examples{own}")
    if made.elsewhere:
        lines.append(f"compared by verdict, and not to the bit: {'; '.join(made.elsewhere)}")
    return [*lines, f"{made.rows} rows compared, {made.certificates} certificates among them"]


def _unsaid(found: Audit, made: Reran, part: Part) -> None:
    """Take away what is no longer left to believe."""
    if made.unreproduced or made.faults:
        return
    found.checked.append(
        f"{made.rows} rows, made again{' by their proofs' if part.proofs else ''}"
        + (": each with the same verdict" if made.elsewhere else ": the same to the bit")
    )
    done = [verify.PROOFS] if part.proofs else [verify.PROOFS, verify.SEARCHES]
    if not made.left:
        found.unchecked = [text for text in found.unchecked if text not in done]
    rest = " (of the examples that were not run again)"
    found.unchecked = [text + rest if text in done else text for text in found.unchecked]


def _chances(bundle: Bundle, made: Reran, given: Mapping[str, list[str]], chosen: Chosen) -> list[str]:
    """Of every claim, what somebody would have had to forge, and how likely this rerun missed it."""
    raw, rows, wanted = bundle.json("plan.json"), bundle.records(), chosen.examples
    drawn = {
        name: Drawn(len(ids) if wanted is None else len(wanted & set(ids)), made.together[name])
        for name, ids in given.items()
    }
    lines = []
    for text, least, chance in chances(raw, rows, void_methods(raw, rows), drawn):
        if least is None:
            lines.append(f"“{text}”: no forged rows turn it")
        elif chance is not None:
            of = f"of at least {least} example{'s' if least > 1 else ''}"
            lines.append(f"“{text}”: rows {of} must be forged to turn it; with a chance of {percent(chance, 4)} none")
            lines[-1] += " of them is run again"
    return lines
