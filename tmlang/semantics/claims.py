"""Claims: which quantity of which evaluation, and whether its evidence can point that way (LANGUAGE.md section 7)."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from tmlang.diagnostics.model import Edit, Fix, Label
from tmlang.diagnostics.suggest import did_you_mean, either, nearest
from tmlang.meaning.evaluations import Claim, Measured, RoundsTo
from tmlang.meaning.threats import Shift, Threat
from tmlang.meaning.values import Quantity, Symbol, Value
from tmlang.semantics import corruptions, distances, evaluations, mutable, values
from tmlang.semantics.builtins import QUANTITIES, QuantityRow, Subject
from tmlang.semantics.evaluations import KnownEvaluation
from tmlang.semantics.evidence import Op, Side, differs, mirrored, of_draws, sampled, supported
from tmlang.semantics.scope import Env, World
from tmlang.semantics.values import show
from tmlang.syntax import ast

_AVERAGES = ("mean", "average", "avg", "sum", "median", "min", "max")


def claim(world: World, env: Env, node: ast.Claim) -> Claim | None:
    """A checked claim, or ``None`` after a report."""
    left = _measured(world, env, node.left)
    population = values.share(world, env, node.population, "a confidence") if node.population else None
    if left is None or (node.population and population is None):
        return None
    if left.meaning.quantity == "holds" or node.op is None:
        return _verdict(world, node, left)
    right = _right(world, env, node, left)
    if right is None or not supported(world, left, cast(Op, node.op)):
        return None
    if node.population and not sampled(world, node, left):
        return None
    return Claim(node.text.value, left.meaning, node.op, right[0], right[1], population, node.span)


def _verdict(world: World, node: ast.Claim, left: Side) -> Claim | None:
    """``holds(e)`` stands alone, every other quantity is compared."""
    if left.meaning.quantity != "holds":
        name = left.meaning.quantity
        world.report("TM609", f"{name} is a number: say what it is compared with", node.left, help=f"{name}(…) >= 45 %")
        return None
    if node.op is not None:
        world.report("TM607", "holds is a verdict and is not compared", left.node.path, help="write holds(e) alone")
        return None
    return Claim(node.text.value, left.meaning, "holds", origin=node.span)


# --- quantities -------------------------------------------------------------------------------------------------


def _measured(world: World, env: Env, node: ast.Value) -> Side | None:
    """``survival(aa, part: flat)``."""
    if not isinstance(node, ast.Call):
        world.report("TM609", "a claim begins with a quantity of an evaluation, such as survival(aa)", node)
        return None
    name = node.path.text
    row = QUANTITIES.get(name)
    if row is None:
        _no_quantity(world, node)
        return None
    known = _of_evaluation(world, env, node)
    if known is None or not _of_subject(world, node, row, known):
        return None
    args = _arguments(world, env, node, row, known)
    if args is None:
        return None
    return Side(Measured(name, known.meaning.name, args, node.span), row, known, node)


def _no_quantity(world: World, node: ast.Call) -> None:
    name = node.path.text
    if name in _AVERAGES:
        help = "claim attack_success of each attack, or the survival of all of them together"
        world.report("TM604", f"a {name} over attacks is no property of the model", node.path, help=help)
        return
    close = nearest(name, QUANTITIES)
    tail = did_you_mean(name, QUANTITIES) or f"there are {', '.join(QUANTITIES)}"
    fix = Fix(f"write {close[0]}", (Edit(node.path.span, close[0]),)) if len(close) == 1 else None
    world.report("TM609", f"there is no quantity {name}; {tail}", node.path, fix=fix)


def _of_evaluation(world: World, env: Env, node: ast.Call) -> KnownEvaluation | None:
    first = node.args[0] if node.args else None
    if first is None or first.name is not None or not isinstance(first.value, ast.Name):
        world.report("TM606", f"{node.path.text} is of an evaluation: {node.path.text}(…)", first or node)
        return None
    name = first.value
    found = env.file.table.get(name.text)
    if found is not None and name.text not in env.file.unclear and found.kind != "evaluation":
        of = [n for n, e in env.file.table.items() if e.kind == "evaluation" and e.node.subject.text == name.text]
        tail = f"; {either(of)} evaluates it" if of else ""
        fix = Fix(f"write {of[0]}", (Edit(name.span, of[0]),)) if len(of) == 1 else None
        labels = (Label(found.name_span, "declared here"),)
        message = f"a claim binds an evaluation, and {name.text} is a {found.kind}{tail}"
        world.report("TM606", message, name, labels=labels, fix=fix)
        return None
    entry = world.find(env, name, "evaluation")
    return evaluations.evaluation_of(world, entry) if entry else None


def _kind(known: KnownEvaluation) -> Subject:
    subject = known.subject.meaning
    return "threat" if isinstance(subject, Threat) else "shift" if isinstance(subject, Shift) else "property"


def _of_subject(world: World, node: ast.Call, row: QuantityRow, known: KnownEvaluation) -> bool:
    """Whether this kind of subject has this quantity, and this threat."""
    kind, subject, name = _kind(known), known.subject.meaning, node.path.text
    if kind not in row.of:
        have = [q for q, r in QUANTITIES.items() if kind in r.of]
        verdict = "a property holds, is violated or undecided: " if kind == "property" else ""
        there = f"there {'are' if len(have) > 1 else 'is'} {either(have)}"
        message = f"{subject.name} is a {kind} and has no {name}; {verdict}{there}"
        world.report("TM607", message, node.path)
        return False
    if not isinstance(subject, Threat):
        return corruptions.before_any(world, node, known)
    if name == "denied" and (subject.rejected is None or subject.rejected.kind != "denied"):
        message = f"{subject.name} does not count rejections apart"
        world.report("TM607", message, node.path, help="rejected: denied gives them a column")
        return False
    if name == "median_distance" and subject.minimize is None:
        message = f"{subject.name} has a radius, so nobody looks for the nearest failure"
        world.report("TM607", message, node.path, help="minimize: l2 in … instead of allow:")
        return False
    if name in ("robust_accuracy", "robust_rate", "certified") and (why := _estimated(subject)):
        help = "claim the survival or the success of an attack; they are estimates here, too"
        world.report("TM622", f"{why}, so the evaluation estimates and proves nothing of {name}", node.path, help=help)
        return False
    return name != "robust_accuracy" or _may_be_called(world, node, known, subject)


def _estimated(threat: Threat) -> str | None:
    """Why the outcome of a threat is an estimate, which says nothing about R (EVIDENCE.md section 5)."""
    if threat.nature is not None:
        return "nature draws with the attacker"
    single = threat.success is not None and threat.success.kind == "single_draw"
    return "a single failing draw counts" if single else None


def _may_be_called(world: World, node: ast.Call, known: KnownEvaluation, threat: Threat) -> bool:
    """``robust_accuracy`` is the untargeted, deterministic rate over all examples; every other is a ``robust_rate``."""
    why = None
    if threat.goal.kind != "untargeted":
        why = "the goal is targeted"
    elif threat.clean_errors != "fail":
        why = "inputs that were wrong before are excluded"
    elif known.subject.model.is_random or threat.nature is not None:
        why = "the outcome is random"
    if why is None:
        return True
    fix = Fix("write robust_rate", (Edit(node.path.span, "robust_rate"),))
    message = f"{why}, so this is a robust_rate and not the accuracy under attack that others report"
    world.report("TM611", message, node.path, fix=fix)
    return False


# --- arguments --------------------------------------------------------------------------------------------------


def _arguments(
    world: World, env: Env, node: ast.Call, row: QuantityRow, known: KnownEvaluation
) -> tuple[tuple[str, Value], ...] | None:
    curves = {c.parameter: c for c in known.meaning.curves}
    allowed = [*row.arguments, *([] if row.everywhere else curves)]
    made: dict[str, Value] = {}
    for arg in node.args[1:]:
        name = arg.name.text if arg.name else ""
        if name not in allowed:
            tail = did_you_mean(name, allowed) or (f"it takes {', '.join(allowed)}" if allowed else "it takes none")
            what = f"no argument {name}" if name else "no second argument without a name"
            code = "TM608" if name in ("radius", "queries") else "TM108"
            world.report(code, f"{node.path.text} has {what}; {tail}", arg.name or arg)
            return None
        if name in made:
            world.report("TM114", f"{name}: is given twice", arg.name or arg)
            return None
        got = _argument(world, env, name, arg.value, known, node)
        if got is None:
            return None
        made[name] = got
    return tuple(made.items()) if _all_said(world, node, row, known, made) else None


def _all_said(world: World, node: ast.Call, row: QuantityRow, known: KnownEvaluation, made: dict[str, Value]) -> bool:
    """Every curve has a value, a share of one attack its attack, a relative error its baseline."""
    name = node.path.text
    for curve in known.meaning.curves if not row.everywhere else ():
        if curve.parameter not in made:
            shown = either([show(v) for v in curve.values])
            help = f"{name}({known.meaning.name}, {curve.parameter}: {show(curve.values[-1])})"
            message = f"{known.meaning.name} has {len(curve.values)} values of {curve.parameter} ({shown}); name one"
            world.report("TM608", message, node.path, help=help)
            return False
    if name == "attack_success":
        return _of_one_attack(world, node, known, made)
    if "baseline" in row.arguments and "baseline" not in made:
        help = f"{name}({known.meaning.name}, baseline: alexnet)"
        world.report("TM617", "a corruption error is relative to a baseline, and none is named", node.path, help=help)
        return False
    return True


def _of_one_attack(world: World, node: ast.Call, known: KnownEvaluation, made: dict[str, Value]) -> bool:
    attacks = [s.label for s in known.meaning.stages if s.role == "attack"]
    if "attack" not in made:
        help = f"attack_success({known.meaning.name}, attack: {attacks[0]})" if attacks else None
        world.report("TM608", f"attack_success is of one attack: {either(attacks)}", node.path, help=help)
        return False
    if len(attacks) > 1 and known.meaning.attribution != "full":
        message = f"{known.meaning.name} gives each failure to the first attack that finds it, so the others look weak"
        world.report("TM613", message, node.path, help="attribution: full runs every attack on every example")
        return False
    return True


def _argument(world: World, env: Env, name: str, node: ast.Value, known: KnownEvaluation, call: ast.Call) -> Value:
    if name in ("attack", "part", "baseline") and not isinstance(node, ast.Name):
        world.report("TM221", f"{name}: is a name", node)
        return None
    if isinstance(node, ast.Name) and name == "attack":
        labels = [s.label for s in known.meaning.stages if s.role == "attack"]
        if node.text not in labels:
            world.unknown("TM101", node, "attack", labels, known.meaning.name)
            return None
        return Symbol(node.text)
    if isinstance(node, ast.Name) and name == "part":
        if node.text not in known.subject.branches:
            world.unknown("TM111", node, "branch", list(known.subject.branches), known.subject.meaning.name)
            return None
        return Symbol(node.text)
    if isinstance(node, ast.Name) and name == "baseline":
        entry = world.find(env, node, "evaluation")
        other = evaluations.evaluation_of(world, entry) if entry else None
        fits = other is not None and corruptions.comparable(world, call, known, other, node)
        return Symbol(world.names.of(entry)) if entry and fits else None
    return _on_curve(world, env, name, node, known, call)


def _on_curve(
    world: World, env: Env, name: str, node: ast.Value, known: KnownEvaluation, call: ast.Call
) -> Fraction | None:
    curve = next(c for c in known.meaning.curves if c.parameter == name)
    got = evaluations.length(world, known.subject, distances.amount(world, env, node), node)
    if got is None:
        return None
    if got not in curve.values:
        shown = ", ".join(show(v) for v in curve.values)
        message = f"{show(got)} is no value of the curve over {name}, which has {shown}"
        world.report("TM608", message, node, labels=(Label(call.path.span, "of this quantity"),))
        return None
    return got


# --- the other side ---------------------------------------------------------------------------------------------


def _right(
    world: World, env: Env, node: ast.Claim, left: Side
) -> tuple[Fraction | RoundsTo | Measured, str | None] | None:
    """The number (in the space's own units), the rounded number or the second quantity, and the written unit."""
    right = node.right
    if isinstance(right, ast.Call):
        return _compared(world, env, node, left, right)
    written = right.value if isinstance(right, ast.RoundsTo) else right
    assert written is not None
    got = distances.amount(world, env, written)
    if got is None:
        return None
    value, unit = _in_unit_of(world, left, got, written)
    if value is None or not _says_something(world, node, left, value, written):
        return None
    if not isinstance(right, ast.RoundsTo):
        return value, unit
    digits = _digits(written)
    if digits is None:
        help = "rounds to 45.3 %"
        world.report("TM221", "the digits of a rounded number carry meaning: write it as a decimal", written, help=help)
        return None
    percent = isinstance(written, ast.Quantity) and written.unit.text == "%"
    return RoundsTo(value, digits, percent), unit


def _digits(node: ast.Value) -> int | None:
    """Digits behind the point of a decimal as written."""
    if isinstance(node, ast.Quantity):
        return _digits(node.value)
    return node.decimals if isinstance(node, ast.Number) else None


def _in_unit_of(
    world: World, left: Side, got: Fraction | Quantity, node: ast.Value
) -> tuple[Fraction | None, str | None]:
    """A share is a plain number; a distance is in the unit of the space."""
    unit = got.unit if isinstance(got, Quantity) else None
    if left.row.share or "baseline" in left.row.arguments:
        if unit is not None:
            place = node.unit if isinstance(node, ast.Quantity) else node
            world.report("TM616", f"{left.meaning.quantity} is a share, and has no '{unit}'", place, help="write 45 %")
            return None, None
        return cast(Fraction, got), None
    threat, space = left.known.subject.meaning, left.known.subject.model.space
    moved = mutable.moved(space, getattr(threat, "mutable", None))
    return distances.common(world, space, moved, got, node, node), unit


def _says_something(world: World, node: ast.Claim, left: Side, value: Fraction, at: ast.Value) -> bool:
    """A share lies between 0 and 1; ``>= 45`` without ``%`` would be refuted whatever is measured."""
    if not left.row.share:
        return True
    empty = {">=": Fraction(0), "<": Fraction(0), "<=": Fraction(1), ">": Fraction(1)}.get(node.op or "")
    if 0 <= value <= 1 and value != empty:
        return True
    fix = None
    if 1 < value <= 100 and isinstance(at, ast.Number):
        fix = Fix("add the %", (Edit(distances.behind(at.span), " %"),))
        message = f"a share lies between 0 and 1, and {show(value)} does not; did you mean {show(value)} %"
    else:
        message = f"{left.meaning.quantity} lies between 0 and 100 %, so this is decided before anything is measured"
    world.report("TM615", message, at, fix=fix)
    return False


def _compared(world: World, env: Env, node: ast.Claim, left: Side, call: ast.Call) -> tuple[Measured, None] | None:
    """Two quantities of the same kind over the same examples and the same allowed set."""
    right = _measured(world, env, call)
    if right is None:
        return None
    if right.meaning.quantity == "holds" or right.row.share != left.row.share:
        message = f"{left.meaning.quantity} and {right.meaning.quantity} are numbers of different kinds"
        world.report("TM605", message, call)
        return None
    why = differs(left, right)
    if why is not None:
        message = f"{why}: numbers from different sets do not compare"
        world.report("TM605", message, call, labels=(Label(left.node.span, "compared with this"),))
        return None
    if not supported(world, right, mirrored(node.op)):
        return None
    if of_draws(left):
        message = f"{left.meaning.quantity} is a share of draws on both sides, and what they differ by has no interval"
        help = f"claim each against a number: {left.meaning.quantity}({left.meaning.evaluation}) >= 90 %"
        world.report("TM627", message, call, help=help)
        return None
    return right.meaning, None
