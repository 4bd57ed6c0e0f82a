"""Whether a method can search the set, goal and object of a subject, and how faithfully.

``exact``: it searches this set. ``inner``: a subset (enough for witnesses, never for certificates). ``outer``: a
superset (enough for certificates; a witness is projected and judged again). Anything else is refused with its reason.
"""

from __future__ import annotations

from typing import Literal

from tmlang.base.frozen import dataclass
from tmlang.diagnostics.suggest import either, listed
from tmlang.meaning.models import Model
from tmlang.meaning.spaces import Space
from tmlang.meaning.threats import Allowed, Both, Either, Shift, Subject, Threat, Transform, branch_names, transforms
from tmlang.plan.asked import OBJECT_WORDS, Need, balls, features, goal, leaf, misfits, object_kind
from tmlang.plan.capability import ACCESS, Carried, Method, worst
from tmlang.plan.smoothing import misfit

VERIFIERS = ("certify", "decide_exactly", "enumerate")

_OUTER_SEARCH = "the search may leave it; candidates are projected back and judged again"
_OUTER_PROOF = "the proof covers more than this; a counterexample is replayed"
_INNER = "only a part of it is searched"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One need that a method does not meet. ``code`` is the diagnostic's."""

    code: str
    need: Need
    by: Literal["not_built", "library", "impossible"]
    because: str


@dataclass(frozen=True, slots=True)
class Support:
    """How a method carries a subject; refused iff there are obstacles. ``left_out``: branches that a search passes
    over."""

    lowering: Carried
    reasons: tuple[str, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    left_out: tuple[str, ...] = ()


def support(method: Method, subject: Subject, model: Model, space: Space) -> Support:
    """What ``method`` makes of ``subject``: a lowering with its reasons, or the obstacles."""
    judge = _Judge(method, subject)
    for words in misfits(method.input, space):
        judge.obstacles.append(Obstacle("TM516", Need("input", words, space.origin), "library", words))
    if isinstance(subject, Shift):
        judge.the_object(model)
        return Support("exact", (), tuple(judge.obstacles))
    if isinstance(subject, Threat):
        judge.the_goal(subject)
        judge.the_set(subject)
    judge.the_object(model)
    for need in features(subject, model, space):
        judge.feature(need)
    return Support(judge.lowering, tuple(dict.fromkeys(judge.reasons)), tuple(judge.obstacles), judge.left_out)


class _Judge:
    def __init__(self, method: Method, subject: Subject) -> None:
        self.method = method
        self.norms = [b.norm for b in balls(subject.allow)] if isinstance(subject, Threat) else []
        self.proves = method.role in VERIFIERS
        self.lowering: Carried = "exact"
        self.reasons: list[str] = []
        self.obstacles: list[Obstacle] = []
        self.left_out: tuple[str, ...] = ()

    def the_goal(self, threat: Threat) -> None:
        wanted = goal(threat.goal)
        if wanted not in self.method.goals:
            self.refuse("TM509", Need(wanted, f"the goal of `{threat.name}` is {wanted}", threat.origin))

    def the_object(self, model: Model) -> None:
        kind = object_kind(model)
        if kind not in self.method.objects:
            need = Need(kind, f"`{model.name}` {OBJECT_WORDS[kind]}", model.origin)
            self.refuse("TM603" if self.proves else "TM508", need)
        elif kind == "smoothed" and (why := misfit(model)) is not None:
            need = Need(kind, f"`{model.name}` {OBJECT_WORDS[kind]}", model.origin)
            self.obstacles.append(Obstacle("TM603", need, "impossible", why))
        elif self.method.steps is not None:
            self._steps(model, self.method.steps)
        network = model.network.kind
        if network not in self.method.networks:
            self.refuse("TM514", Need(network, f"the network of `{model.name}` is {network}", model.origin))

    def _steps(self, model: Model, seen_through: tuple[str, ...]) -> None:
        """What works on the network itself must see through all that stands around it."""
        for step in (*model.steps, *model.post_steps):
            if step.name not in seen_through:
                need = Need(step.name, f"`{step.name}` is a step of `{model.name}`", step.origin)
                self.refuse("TM514", need, f"it sees through {listed(seen_through)} alone")

    def the_set(self, threat: Threat) -> None:
        if threat.minimize is not None:
            norm, space = threat.minimize
            if norm not in self.method.minimizes:
                need = Need("minimize", f"`{threat.name}` minimizes {norm} in {space}", threat.origin)
                self.refuse("TM508", need, "it searches at one radius, not for the nearest failure")
            return
        assert threat.allow is not None
        carried, obstacles = self._part(threat.allow, threat)
        self.obstacles += obstacles
        if carried is not None:
            self._lower(carried)
        if self.method.minimal:
            self._lower("outer")
            self.reasons.append("it looks for the nearest failure; one that lies beyond the radius does not count")

    def feature(self, need: Need) -> None:
        carried = self.method.carried(need.key, self.norms)
        if carried is None:
            self.refuse("TM508", need)
        elif carried == "inner" and self.proves:
            self.refuse("TM508", need, f"{_INNER}, and a part proves nothing about the whole")
        else:
            self._accept(need, carried)

    def _part(self, part: Allowed, threat: Threat, *, whole: bool = True) -> tuple[Carried | None, list[Obstacle]]:
        """How one part of the allowed set is carried; ``None`` with the obstacles when it is not. Only branches of the
        ``whole`` are proved one by one: of a union within an intersection the hull is."""
        if not isinstance(part, (Both, Either)):
            need = leaf(part, threat)
            if need.key in self.method.norms:
                strange = self._strange(part)
                return ("exact", []) if strange is None else (None, [Obstacle("TM508", need, "library", strange)])
            pictures = "it searches the pictures of a transform" if self.method.norms == ("transform",) else None
            return None, [self._obstacle("TM508", need, pictures)]
        key = "intersection" if isinstance(part, Both) else "union"
        need = Need(
            key, f"`{threat.name}` allows {'an' if key == 'intersection' else 'a'} {key} of balls", threat.origin
        )
        inner = [self._part(p, threat, whole=False) for p in part.parts]
        missing = [obstacle for carried, obstacles in inner if carried is None for obstacle in obstacles]
        if isinstance(part, Both) and not self.proves:
            made = [carried for p, (carried, _) in zip(part.parts, inner, strict=True) if transforms(p)]
            if None in made:  # what makes a picture is a part of it: who leaves that out finds none
                return None, missing
            if made and "transform" in self.method.norms:
                missing = []  # of every picture it is asked whether the balls beside the transform hold it
        # One part is enough to certify an intersection or to search a union; the other way round needs them all.
        enough = isinstance(part, Both) or not self.proves
        if missing and not (enough and any(carried is not None for carried, _ in inner)):
            return None, missing
        carried = self.method.carries.get(key)
        if carried is None:
            return None, [self._obstacle("TM508", need)]
        if isinstance(part, Either) and not whole and self.method.role in ("certify", "decide_exactly"):
            carried = worst(carried, "outer")
        if missing:
            carried = "outer" if isinstance(part, Both) else "inner"
            if part is threat.allow:
                named = zip(branch_names(part), inner, strict=False)
                self.left_out = tuple(name for name, (looks, _) in named if looks is None)
            self.reasons += [f"{o.need.words.split(' allows ')[-1]} is left out: {o.because}" for o in missing]
        self._reason(need, carried)
        return worst(carried, *(c for c, _ in inner if c is not None)), []

    def _strange(self, part: Allowed) -> str | None:
        """What of a transform the method does not know; ``None`` of other sets."""
        known = self.method.parts
        if known is None or not isinstance(part, Transform):
            return None
        strange = [name for name, _ in part.parts if name not in known]
        return f"of a transform it knows {listed(known)}, and no {either(strange)}" if strange else None

    def _accept(self, need: Need, carried: Carried) -> None:
        self._lower(carried)
        self._reason(need, carried)

    def _reason(self, need: Need, carried: Carried) -> None:
        if carried != "exact":
            how = _INNER if carried == "inner" else _OUTER_PROOF if self.proves else _OUTER_SEARCH
            self.reasons.append(f"{need.words}: {how}")

    def _lower(self, carried: Carried) -> None:
        self.lowering = worst(self.lowering, carried)

    def refuse(self, code: str, need: Need, because: str | None = None) -> None:
        self.obstacles.append(self._obstacle(code, need, because))

    def _obstacle(self, code: str, need: Need, because: str | None = None) -> Obstacle:
        refusal = self.method.refused.get(need.key)
        if refusal is not None:
            return Obstacle(code, need, refusal.by, refusal.because)
        return Obstacle(code, need, "not_built", because or f"nobody has built this for {self.method.path}")


def grants(threat: Threat, method: Method) -> bool:
    """Whether the threat's access is enough for the method (surrogates are at hand in full)."""
    granted = threat.access.level
    return granted == "transfer" or ACCESS.index(granted) >= ACCESS.index(method.access)


def carries_words(method: Method) -> tuple[str, ...]:
    """What the method does carry, for the chain of reasons; nothing to say of a corruption."""
    if method.role == "corrupt":
        return ()
    return (f"{method.path} carries {listed(method.norms)}; {listed(method.goals)}",)
