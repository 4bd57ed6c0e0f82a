"""Corruption errors in claims: relative to which baseline, over which corruptions (EVIDENCE.md section 2)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tmlang.diagnostics.model import Label
from tmlang.meaning.models import Model
from tmlang.meaning.threats import Shift
from tmlang.semantics.scope import World
from tmlang.syntax import ast

if TYPE_CHECKING:
    from tmlang.semantics.evaluations import KnownEvaluation


def comparable(world: World, call: ast.Call, known: KnownEvaluation, baseline: KnownEvaluation, at: ast.Name) -> bool:
    """Whether ``call`` of ``known`` can be relative to ``baseline``: another model, on the same corruptions, each of
    which is known; reported if not."""
    own, other = known.subject.meaning, baseline.subject.meaning
    assert isinstance(own, Shift)
    name, called = call.path.text, baseline.meaning.name
    if not isinstance(other, Shift):
        world.report("TM607", f"{called} is of no shift, so it has no corrupted inputs to be a baseline on", at)
        return False
    if (own.data, own.apply) != (other.data, other.apply):
        what = "have different examples" if own.data != other.data else "have different corruptions"
        message = f"{known.meaning.name} and {called} {what}: numbers from different sets do not compare"
        world.report("TM605", message, at, labels=(Label(call.path.span, "relative to this"),))
        return False
    if _bare(known.subject.model.meaning) == _bare(baseline.subject.model.meaning):
        message = f"{called} is of the same model on the same corruptions, so {name} is 1 whatever is measured"
        world.report("TM630", message, at, help="name the evaluation of the model that is the baseline")
        return False
    return _known(world, call, known)


def _bare(model: Model) -> Model:
    return replace(model, name="", doc="")


def _known(world: World, call: ast.Call, known: KnownEvaluation) -> bool:
    """Whether every changed input has a corruption and a severity, and a relative error its clean one."""
    shift, name = known.subject.meaning, call.path.text
    assert isinstance(shift, Shift)
    assert known.subject.data is not None
    examples = known.subject.data.meaning
    published = _published(shift)
    if published and not any(arg == "corruption" for arg, _ in examples.read.args):
        message = f"nothing says which corruption {examples.name} shows where, and {name} is a mean over corruptions"
        help = 'read: as_published("…", …, corruption: "c", severity: "s")'
        world.report("TM631", message, call.path, help=help)
        return False
    unknown = [c for c in shift.apply if not published and not any(arg == "severity" for arg, _ in c.args)]
    if unknown:
        change = ".".join(unknown[0].path)
        message = f"{change} has no severity, and {name} adds up the errors of a corruption over its severities"
        help = "imagecorruptions.fog(severity: 3), or claim corrupted_accuracy"
        world.report("TM631", message, call.path, help=help)
        return False
    return True


_CLEAN = ("clean_accuracy", "clean_answered", "relative_mce")
"""What is read from decisions before any change."""


def before_any(world: World, call: ast.Call, known: KnownEvaluation) -> bool:
    """Whether a quantity that needs the inputs before any change has them; reported if not."""
    shift, name = known.subject.meaning, call.path.text
    if name not in _CLEAN or not isinstance(shift, Shift) or not _published(shift):
        return True
    message = f"{shift.data} holds corrupted inputs alone, and {name} is worked out from inputs before any change"
    help = "claim mce or corrupted_accuracy, or corrupt the clean examples in a shift"
    world.report("TM632", message, call.path, help=help)
    return False


def _published(shift: Shift) -> bool:
    return any(change.path[-1] == "as_published" for change in shift.apply)
