"""What every method must hold to, whoever wrote it: the checks behind ``tmc backends test``.

Each method runs on a small network whose weights are drawn from a fixed seed, on inputs of the form that it asks for. A
check that fails is a defect; that none fails says that the method keeps the rules, not that it finds much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tmlang.backends.contract import BackendRefusal
from tmlang.backends.loading import load
from tmlang.diagnostics.stop import Stop
from tmlang.execute.conform import changing, proving, searching
from tmlang.execute.conform.bench import Bench, Broken, Unfinished, bench, fitting
from tmlang.meaning.values import Value
from tmlang.plan.capability import Capabilities, Method, Role


@dataclass(frozen=True)
class Check:
    """One rule and one method: kept (``True``), broken (``False``), or not looked at (``None``) and why."""

    method: str
    rule: str
    kept: bool | None
    said: str = ""


_Rules = Sequence[tuple[str, Callable[[Bench], str | None]]]
"""A rule in words, and its check, which says why it did not look or raises :class:`Broken`."""
_RULES: Mapping[Role, _Rules] = {
    "attack": searching.RULES,
    "certify": proving.CERTIFIER_RULES,
    "decide_exactly": proving.CERTIFIER_RULES,
    "enumerate": proving.ENUMERATION_RULES,
    "corrupt": changing.RULES,
}


def conform(row: Method, capabilities: Capabilities, given: Mapping[str, Value] | None = None) -> Iterator[Check]:
    """Every check that suits ``row``, one after the other, with the arguments ``given`` in place of its defaults."""
    space = fitting(row)
    if isinstance(space, str):
        yield Check(row.path, "runs", None, space)
        return
    try:
        adapter = load(row.backend, row.name, capabilities)
    except BackendRefusal as refusal:
        yield Check(row.path, "loads", False, str(refusal))
        return
    for rule, check in _RULES[row.role]:
        try:
            told = check(bench(row, adapter, space, given or {}))
            yield Check(row.path, rule, None if told else True, told or "")
        except Unfinished as late:
            yield Check(row.path, rule, None, str(late))
        except Broken as broken:
            yield Check(row.path, rule, False, str(broken))
        except Stop as stopped:
            yield Check(row.path, rule, False, stopped.diagnostics[0].message)
        except Exception as error:  # a method of others may raise whatever it likes, and the checks go on
            yield Check(row.path, rule, False, f"{type(error).__name__}: {error}")
