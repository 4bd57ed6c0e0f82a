"""What every backend method can carry: the rows of the manifests (``tmlang/backends/*.toml``), never its code.

Only the manifests of the backends that a spec names are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal, get_args

from tmlang.base.frozen import dataclass

Role = Literal["attack", "certify", "decide_exactly", "enumerate", "corrupt"]
Carried = Literal["exact", "inner", "outer"]
ArgumentType = Literal["int", "number", "bool", "symbol", "distance", "duration", "file", "text", "data", "stage"]
RECEIVED: tuple[ArgumentType, ...] = ("data", "stage")
"""Arguments that name what a stage is handed: the examples of a data set, or the failures that an earlier stage
found."""

_FAITHFUL: tuple[Carried, ...] = ("exact", "outer", "inner")
"""From the most to the least: ``inner`` outweighs ``outer``, since a set that is cut anywhere certifies nothing."""

ROLES = get_args(Role)
EVIDENCE = ("witness", "bound", "complete", "trusted", "probabilistic", "estimate")
ACCESS = ("nothing", "decisions", "scores", "white_box")
"""From the least to the most."""
NORMS = ("linf", "l2", "l2_rms", "l1", "l0", "pixels_changed", "metric", "patch", "transform", "anything")
GOALS = ("untargeted", "targeted")
OBJECTS = ("fixed", "random", "smoothed")
THROUGH = ("straight_through", "expectation")
NETWORKS = ("torch", "torchscript", "exported", "onnx", "sklearn", "linear", "remote")
FEATURES = (
    "domain",
    "mask",
    "one_way",
    "radii",
    "tolerance",
    "lattice",
    "relations",
    "delivery",
    "union",
    "intersection",
    "rejection",
    "universal",
    "nature",
    "property",
    "minimize",
)
"""What a set, a goal or an object may ask for beside its norm."""


def worst(*carried: Carried) -> Carried:
    """The least faithful of several."""
    return max(carried, key=_FAITHFUL.index)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not: ``not_built`` (we have not), ``library`` (it cannot) or ``impossible`` (nobody could)."""

    by: Literal["not_built", "library", "impossible"]
    because: str


@dataclass(frozen=True, slots=True)
class InputForm:
    """What inputs must look like beyond numbers. An empty ``channels`` and ``min_side`` 0 ask for nothing."""

    bytes: bool = False
    numbers: bool = False
    picture: bool = False
    square: bool = False
    channels: tuple[int, ...] = ()
    min_side: int = 0


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a method.

    ``default`` is as it would be written; that of a distance is a formula over the arguments before it, in widths of
    the domain or, when it names ``radius``, in radii of the ball.
    """

    name: str
    type: ArgumentType
    meaning: str
    default: str | None = None
    optional: bool = False
    low: Fraction | None = None
    high: Fraction | None = None
    choices: tuple[str, ...] = ()
    not_built: tuple[str, ...] = ()
    """The choices among them that can be checked and planned, not run."""
    min_classes: Mapping[str, int] = field(default_factory=dict)
    """Choice (or ``"<choice> targeted"``) -> the fewest classes that it is defined for."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of a manifest; the keys are those of the file, ``class`` being ``implementation``."""

    backend: str
    name: str
    title: str
    source: str
    role: Role
    evidence: Literal["witness", "bound", "complete", "trusted", "probabilistic", "estimate"]
    access: Literal["nothing", "decisions", "scores", "white_box"]
    status: Literal["available", "described"] = "available"
    implementation: str = ""
    symbol: str = ""
    aliases: tuple[str, ...] = ()
    norms: tuple[str, ...] = ()
    minimizes: tuple[str, ...] = ()
    minimal: bool = False
    goals: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    min_classes: int = 2
    networks: tuple[str, ...] = NETWORKS
    steps: tuple[str, ...] | None = None
    """The steps of the model that it sees through; ``None`` where it only asks the object as a whole."""
    parts: tuple[str, ...] | None = None
    """The parts of a transform that it searches; ``None``: all."""
    input: InputForm = InputForm()
    cautions: tuple[str, ...] = ()
    """Known weaknesses that make it find less than it could: each is warned of (TM518)."""
    rows: Literal["whole", "subset", "expanded", "single"] = "whole"
    batch_dependent: bool = False
    draws: Literal["none", "torch", "numpy", "seeded"] = "none"
    seed_argument: str | None = None
    radius_argument: str | None = None
    norm_argument: str | None = None
    norm_names: Mapping[str, str] = field(default_factory=dict)
    budget_arguments: tuple[str, ...] = ()
    run_arguments: Mapping[str, str] = field(default_factory=dict)
    carries: Mapping[str, Carried] = field(default_factory=dict)
    carries_in: Mapping[str, Mapping[str, Carried]] = field(default_factory=dict)
    """Norm -> what it carries otherwise in balls of that norm."""
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    cost: Mapping[str, str] = field(default_factory=dict)
    reach: tuple[str, ...] = ()
    """How far its steps lead together, over the arguments and ``radius``; the first with all its arguments counts."""
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"{self.backend}.{self.name}"

    def carried(self, feature: str, norms: Iterable[str]) -> Carried | None:
        """How faithfully a set with balls of ``norms`` is searched as to ``feature``: as in the worst of them."""
        by_norm = [self.carries_in.get(norm, {}).get(feature, self.carries.get(feature)) for norm in norms]
        known = [how for how in by_norm if how is not None]
        return worst(*known) if known else self.carries.get(feature)


@dataclass(frozen=True, slots=True)
class Backend:
    """One manifest. ``module`` is what must be importable for it to run, ``extra`` the extra of tmlang that brings it,
    ``install`` the command that does."""

    name: str
    library: str
    version: str
    module: str
    extra: str
    install: str
    methods: Mapping[str, Method]
    not_offered: Mapping[str, str] = field(default_factory=dict)
    """What the library has beside them, and why no method stands for it."""

    def method(self, name: str) -> Method | None:
        """The method of this name or alias."""
        return self.methods.get(name) or next((m for m in self.methods.values() if name in m.aliases), None)


_MANIFESTS = Path(__file__).resolve().parent.parent / "backends"


class Capabilities:
    """The manifests that come with tmlang and those of plugins (or of one ``folder`` alone), each read when it is first
    asked for. Plugins are looked for when a backend is asked for that tmlang does not bring, and cannot replace one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._alone = folder is not None
        self._files = {path.stem: path for path in sorted((folder or _MANIFESTS).glob("*.toml"))}
        self._read: dict[str, Backend] = {}

    def manifest(self, name: str) -> Path:
        """The file of a backend that there is."""
        return self._files[name] if name in self._files else self._beside()[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The backends of tmlang itself (or of the folder)."""
        return tuple(self._files)

    @property
    def plugins(self) -> tuple[str, ...]:
        """The backends of installed plugins."""
        return tuple(name for name in self._beside() if name not in self._files)

    def backend(self, name: str) -> Backend | None:
        """The backend, or ``None`` when there is no such manifest. Raises ``ManifestError``, and a ``Stop`` with TM521
        where the manifest is a plugin's."""
        if name not in self._read:
            path = self._files.get(name)
            found = self._plugin(name) if path is None else _read(path)
            if found is None:
                return None
            self._read[name] = found
        return self._read[name]

    def carries(self, backend: str, method: str, norm: str) -> bool:
        """Whether a method searches sets of this norm."""
        found = self.backend(backend)
        row = found.method(method) if found else None
        return row is not None and norm in row.norms

    def _beside(self) -> Mapping[str, Path]:
        if self._alone:
            return {}
        from tmlang.plan.plugins import plugin_manifests

        return plugin_manifests()

    def _plugin(self, name: str) -> Backend | None:
        path = self._beside().get(name)
        if path is None:
            return None
        try:
            found = _read(path)
            found = replace(found, methods={name: _distrusted(row) for name, row in found.methods.items()})
        except (OSError, ValueError) as error:
            from tmlang.diagnostics.stop import stop

            raise stop(
                "TM521", f"the manifest of the plugin {name} cannot be used: {error}", help="report it to its author"
            ) from error
        return found

    def methods(self) -> Iterator[Method]:
        """Every method of every backend of tmlang (reads all their manifests)."""
        for name in self.names:
            backend = self.backend(name)
            assert backend is not None
            yield from backend.methods.values()


def _distrusted(row: Method) -> Method:
    """A plugin's complete method hands out no proof that tmlang has checked: its word is taken, and said to be."""
    return replace(row, evidence="trusted") if row.evidence == "complete" else row


def _read(path: Path) -> Backend:
    from tmlang.plan.manifest import read_manifest

    return read_manifest(path.read_text(encoding="utf-8"), path.name)
