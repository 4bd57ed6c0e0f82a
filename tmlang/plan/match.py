"""One stage against the manifests: does the method exist, take these arguments and carry this subject?

Every refusal explains its chain: what the spec asks, what the method can, why not, and who could.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf

from tmlang.base.frozen import dataclass
from tmlang.diagnostics.model import Diagnostic, Edit, Fix, Label, has_errors
from tmlang.diagnostics.suggest import either, listed, nearest
from tmlang.meaning.evaluations import Curve, Evaluation, Program, StageCall
from tmlang.meaning.models import Model
from tmlang.meaning.threats import Shift, Subject, Threat
from tmlang.meaning.values import Call, Value
from tmlang.plan.arguments import Resolution, path_span
from tmlang.plan.asked import balls, without_gradient
from tmlang.plan.capability import Capabilities, Carried, Method
from tmlang.plan.cost import unit_cost
from tmlang.plan.formula import first_known
from tmlang.plan.smoothing import sigma_of, too_few
from tmlang.plan.support import Obstacle, carries_words, grants, support
from tmlang.plan.written import number

_GRANT_WORDS = {
    "white_box": "gradients",
    "scores": "scores",
    "decisions": "decisions only",
    "transfer": "surrogates",
    "nothing": "nothing",
}
_NEED_WORDS = {"white_box": "gradients", "scores": "scores", "decisions": "decisions", "nothing": "nothing"}
_BY = {"not_built": "not built yet", "library": "the library cannot", "impossible": "nobody can"}
_VERBS = {
    "attack": "search",
    "certify": "certify",
    "decide_exactly": "decide",
    "enumerate": "enumerate",
    "corrupt": "corrupt",
}
_LISTED = 8
"""Names that a message lists at most."""
_ROLE_CLAUSE = {"corrupt": "apply:"}


@dataclass(frozen=True, slots=True)
class Match:
    """A method that carries a stage, how faithfully, and with all its arguments (in the manifest's order).

    ``numbers`` are the arguments that are plain numbers, for the formulas of the manifest.
    """

    method: Method
    arguments: tuple[tuple[str, Value], ...]
    numbers: tuple[tuple[str, Fraction], ...]
    lowering: Carried = "exact"
    reasons: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class Matcher:
    """Matches the stages of one program; ``diagnostics`` collects what was found."""

    def __init__(self, program: Program, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self.models = {m.name: m for m in program.models}
        self.spaces = {s.name: s for s in program.spaces}
        self.data = program.data
        self.diagnostics: list[Diagnostic] = []

    def match(self, stage: StageCall, subject: Subject, earlier: Sequence[str] = ()) -> Match | None:
        """The match of ``stage``, or ``None`` after at least one error. ``earlier``: the attacks that stand before it
        in its evaluation."""
        before = len(self.diagnostics)
        method = self._method(stage.call)
        if method is None:
            return None
        model = self.models[subject.model]
        space = self.spaces[model.space]
        self._role(method, stage.call, "corrupt" if isinstance(subject, Shift) else stage.role)
        resolution = Resolution(method, stage.call, subject, model, space, self.data, earlier)
        arguments = resolution.resolve()
        self.diagnostics += resolution.diagnostics
        carried = support(method, subject, model, space)
        self._obstacles(carried.obstacles, method, stage.call, subject)
        self._classes(method, stage.call, model)
        if isinstance(subject, Threat) and method.role == "attack":
            self._access(method, stage.call, subject)
            self._gradient(method, stage, subject)
        if has_errors(self.diagnostics[before:]):
            return None
        if method.cautions:
            message = f"{method.path} is known to miss failures: {method.cautions[0]}"
            help = "do not let it stand alone: what it misses looks like strength"
            self._say("TM518", message, stage.call, notes=method.cautions[1:], help=help)
        if isinstance(subject, Threat):
            self._reach(method, stage.call, subject, resolution.numbers())
        return Match(
            method, arguments, tuple(resolution.numbers().items()), carried.lowering, carried.reasons, carried.left_out
        )

    def look_at_all(self, matches: Sequence[tuple[StageCall, Match]], subject: Subject, evaluation: Evaluation) -> None:
        """What only the stages of an evaluation together show, or its curves."""
        for call, match in matches:
            if match.method.evidence == "probabilistic" and isinstance(subject, Threat):
                self._draws(call.call, match, subject, evaluation.curves)
        attacks = [(call, match) for call, match in matches if match.method.role == "attack"]
        self._one_perturbation([call for call, _ in attacks], subject, evaluation)
        if not attacks or not isinstance(subject, Threat) or any(m.method.access != "white_box" for _, m in attacks):
            return
        call, match = attacks[0]
        path = match.method.path
        if all(m.method.minimal for _, m in attacks) and subject.minimize is None:
            self._say(
                "TM517",
                f"{path} looks for the nearest failure, and `{subject.name}` asks at a radius",
                call.call,
                notes=("its result does not depend on the radius: what it finds farther away is not counted",),
                help="add an attack that searches at the radius, or ask for distances with `minimize:`",
            )
        if all(_steps(m, subject) <= 1 for _, m in attacks):
            self._say(
                "TM519",
                f"{path} takes one step along one gradient, and no attack beside it searches further",
                call.call,
                notes=(
                    "a model that hides its gradient at the original alone survives this, and falls to the next step",
                ),
                help="add native.apgd(steps: 100) for many steps, and native.square() for none of its gradients",
            )

    def _method(self, call: Call) -> Method | None:
        name = call.path[0] if len(call.path) > 1 else "native"
        backend = self.capabilities.backend(name)
        if backend is None:
            known = [*self.capabilities.names, *self.capabilities.plugins]
            self._unknown("TM501", f"there is no backend `{name}`", call, name, known)
            return None
        wanted = ".".join(call.path[1:]) or call.path[0]
        method = backend.method(wanted)
        if wanted in backend.not_offered:
            self._say("TM502", f"{name}.{wanted} is not offered: {backend.not_offered[wanted]}", call)
        elif method is None:
            known = [*backend.methods, *(a for m in backend.methods.values() for a in m.aliases)]
            self._unknown("TM502", f"{name} has no method `{wanted}`", call, wanted, known)
        return method

    def _unknown(self, code: str, message: str, call: Call, name: str, known: Sequence[str]) -> None:
        """A part of a call's path that is not known: the nearest, or all that there are."""
        close = nearest(name, known)
        fix = None
        if len(close) == 1:
            path = ".".join(close[0] if part == name else part for part in call.path)
            fix = Fix(f"write {path}", (Edit(path_span(call), path),))
        some = listed(known) if len(known) <= _LISTED else f"{', '.join(known[:_LISTED])} …; `tmc backends` shows all"
        help = f"did you mean {either(close)}" if close else f"there are {some}"
        self.diagnostics.append(Diagnostic(code, message, path_span(call), help=help, fix=fix))

    def _role(self, method: Method, call: Call, role: str) -> None:
        if method.role == role:
            return
        right, wrong = (_ROLE_CLAUSE.get(r, f"{r}:") for r in (method.role, role))
        self._say("TM512", f"{method.path} stands behind `{right}`, not `{wrong}`", call, help=f"write `{right}`")

    def _classes(self, method: Method, call: Call, model: Model) -> None:
        have = len(model.classes)
        if have < method.min_classes:
            message = f"{method.path} needs {method.min_classes} classes, `{model.name}` has {have}"
            self._say("TM511", message, call)

    def _obstacles(self, obstacles: tuple[Obstacle, ...], method: Method, call: Call, subject: Subject) -> None:
        """One diagnostic for all that stands in the way, with the chain of reasons and the methods that could."""
        if not obstacles:
            return
        first = obstacles[0]
        others = [] if isinstance(subject, Shift) else self._others(method, subject)
        self._say(
            first.code,
            f"{method.path} cannot {_VERBS[method.role]} this: {first.because}",
            call,
            labels=(Label(first.need.span, "asked here"),) if first.need.span.file else (),
            notes=(*map(_chain, obstacles), *carries_words(method)),
            help=f"these can: {listed(others)}" if others else None,
        )

    def _others(self, method: Method, subject: Subject) -> list[str]:
        """Up to five methods of the same role that carry the subject; those that are not built only where none is."""
        model = self.models[subject.model]
        space = self.spaces[model.space]
        able = [
            m
            for m in self.capabilities.methods()
            if m.role == method.role
            and m is not method
            and not support(m, subject, model, space).obstacles
            and (m.role != "attack" or not isinstance(subject, Threat) or grants(subject, m))
        ]
        built = [m for m in able if m.status == "available"]
        built.sort(key=lambda m: (m.backend != "native", m.path))
        return [m.path for m in built[:5]] or [f"{m.path} (not built yet)" for m in able[:5]]

    def _access(self, method: Method, call: Call, threat: Threat) -> None:
        if grants(threat, method):
            return
        grant, need = _GRANT_WORDS[threat.access.level], _NEED_WORDS[method.access]
        others = self._others(method, threat)
        self._say(
            "TM506",
            f"{method.path} needs {need}, `{threat.name}` grants {grant}",
            call,
            labels=(Label(threat.origin, f"access: {threat.access.level}"),) if threat.origin.file else (),
            help=f"these need no more than is granted: {listed(others)}" if others else None,
        )

    def _gradient(self, method: Method, stage: StageCall, threat: Threat) -> None:
        """A search by gradients needs every step differentiable, or says how it goes through."""
        through = stage.through.path[0] if stage.through else None
        if through is not None and through not in method.through:
            refusal = method.refused.get(through)
            message = f"{method.path} does not go through {through}"
            self._say("TM507", message, stage.call, notes=(refusal.because,) if refusal else ())
        if method.access != "white_box" or through is not None:
            return
        transfer = threat.access.level == "transfer"
        for model in (self.models[n] for n in (threat.access.surrogates if transfer else (threat.model,))):
            blocked = without_gradient(model)
            if blocked:
                steps = listed([f"`{step}`" for step in blocked])
                none = "has none" if len(blocked) == 1 else "have none"
                self._say(
                    "TM507",
                    f"{method.path} needs a gradient, and {steps} of `{model.name}` {none}",
                    stage.call,
                    notes=("a search on a gradient of zero finds nothing, and that would look like a strong model",),
                    help=f"say how the attack goes through: {method.path}(…) through straight_through",
                )

    def _reach(self, method: Method, call: Call, threat: Threat, numbers: dict[str, Fraction]) -> None:
        """Warn when all steps together cannot cross the ball."""
        found = balls(threat.allow)
        if len(found) != 1 or found[0].radius is None or found[0].norm == "l2_rms":
            return
        radius = found[0].radius + found[0].tolerance
        reach = first_known(method.reach, {**numbers, "radius": radius})
        if reach is not None and reach < radius:
            self._say(
                "TM515",
                f"the steps of {method.path} lead {number(reach)} far, the radius is {number(radius)}",
                call,
                notes=(f"{number(reach)} = " + " or ".join(method.reach),),
                help="take more or longer steps: a weak search would pass for a strong model",
            )

    def _one_perturbation(self, attacks: Sequence[StageCall], subject: Subject, evaluation: Evaluation) -> None:
        """A universal threat counts what one perturbation breaks."""
        if not isinstance(subject, Threat) or subject.perturbation != "universal":
            return
        if len(attacks) > 1:
            said = f"{attacks[1].call.name} finds a second perturbation, and `{subject.name}` is about one for all"
        elif attacks and evaluation.repeats > 1:
            said = f"{evaluation.repeats} repeats find as many perturbations, and `{subject.name}` is about one for all"
        elif attacks and len(subject.access.surrogates) > 1:
            many = len(subject.access.surrogates)
            said = f"{many} surrogates give as many perturbations, and `{subject.name}` is about one for all"
        else:
            return
        note = "what either of two perturbations breaks is broken by no single one of them"
        help = "give every search, seed and surrogate an evaluation of its own, and compare these"
        self._say("TM520", said, attacks[-1 if len(attacks) == 1 else 1].call, notes=(note,), help=help)

    def _draws(self, call: Call, match: Match, threat: Threat, curves: Sequence[Curve]) -> None:
        """What a probabilistic certificate can never reach with its draws, and whether it means the model's noise."""
        model, numbers = self.models[threat.model], dict(match.numbers)
        sigma = sigma_of(model)
        assert sigma is not None
        if numbers.get("sigma", sigma) != sigma:
            stated, real = number(numbers["sigma"]), number(sigma)
            message = f"`{model.name}` adds noise of sigma {real}, and {match.method.path} is told {stated}"
            self._say("TM504", message, call, help="leave `sigma` out: the value comes from the step `noise`")
        size = self.spaces[model.space].size
        few = too_few(threat, sigma, size, curves, int(numbers["n"]), numbers["alpha"])
        if few is not None:
            self._say(few.code, few.message, call, notes=few.notes, help=few.help)

    def _say(
        self,
        code: str,
        message: str,
        call: Call,
        *,
        labels: tuple[Label, ...] = (),
        notes: tuple[str, ...] = (),
        help: str | None = None,
    ) -> None:
        self.diagnostics.append(Diagnostic(code, message, path_span(call), labels, notes, help))


def _steps(match: Match, subject: Subject) -> float:
    """Gradients that a unit costs, as far as they are known."""
    backward = unit_cost(match.method, dict(match.numbers), subject).backward
    return inf if backward is None else backward


def _chain(obstacle: Obstacle) -> str:
    """What is asked, who cannot, and why."""
    if obstacle.because == obstacle.need.words:
        return f"{_BY[obstacle.by]}: {obstacle.because}"
    return f"{obstacle.need.words}; {_BY[obstacle.by]}: {obstacle.because}"
