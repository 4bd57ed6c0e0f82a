"""The models and data of a plan, loaded once, each behind its reference evaluator."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from tmlang.backends.asserted import Asserted
from tmlang.backends.decision import Decision
from tmlang.backends.deployed import Deployed, Ensemble
from tmlang.diagnostics.stop import stop
from tmlang.execute.evaluator import Evaluator
from tmlang.execute.probes import output_kind
from tmlang.execute.sources.data import LoadedData, load_data
from tmlang.execute.sources.files import LIMIT, Files
from tmlang.execute.sources.models import LoadedNetwork, load_network
from tmlang.meaning.models import Model, Network
from tmlang.meaning.threats import Shift, Threat
from tmlang.meaning.values import Artifact
from tmlang.plan.capability import Capabilities
from tmlang.plan.ir import Plan
from tmlang.plan.lock import artifacts, frozen

T = TypeVar("T")
_TRIED = 32
"""Originals that a model is tried on."""


@dataclass(frozen=True)
class Attacked:
    """A model ready to be attacked. ``straight_through`` is the same object with surrogate gradients."""

    model: Model
    deployed: Deployed | Asserted
    straight_through: Deployed | Asserted
    evaluator: Evaluator
    facts: Mapping[str, Any]

    @property
    def decision(self) -> Decision:
        return self.evaluator.decision


class World:
    """What a plan's evaluations attack and on which data, loaded when it is first asked for."""

    def __init__(self, plan: Plan, *, trust_code: bool, max_bytes: int = LIMIT) -> None:
        self.plan = plan
        self.files = Files(plan.root, limit=max_bytes)
        self.trust_code = trust_code
        self.capabilities = Capabilities()
        self._models: dict[str, Attacked] = {}
        self._made: dict[tuple[str, ...], Any] = {}

    def verify(self) -> None:
        """Hash every file that the plan names before any is opened; from here on the plan says each hash, so what is
        read later must be what was hashed. Raises TM703, TM710, TM711, TM725."""
        for artifact in artifacts(self.plan):
            self.files.verify(artifact)
        self.plan = frozen(self.plan, self.files.hashes)

    def model(self, name: str) -> Attacked:
        """The model ``name``. Raises TM7 diagnostics where it cannot be opened."""
        if name not in self._models:
            self._models[name] = self._load(self.plan.model(name))
        return self._models[name]

    def loaded(self) -> Mapping[str, Attacked]:
        """The models loaded so far, by name."""
        return dict(sorted(self._models.items()))

    def _load(self, model: Model) -> Attacked:
        space = self.plan.space(model.space)
        network, facts = self._network(model)
        deployed = Deployed(model, space, network, self.files.read)
        through = deployed
        if deployed.gradient_stops:
            through = Deployed(model, space, network, self.files.read, straight_through=True)
        rule = model.ensemble[1] if model.ensemble else "mean of logits"
        shares = rule != "mean of logits" or any(s.name == "softmax" for s in model.post_steps)
        decision = Decision(model, probabilities=shares or model.network.output_kind == "probabilities")
        return Attacked(model, deployed, through, Evaluator(deployed, decision), facts)

    def _network(self, model: Model) -> tuple[nn.Module, Mapping[str, Any]]:
        """The network of a model, or its several ones as one module."""
        if model.ensemble is None:
            loaded = self._open(model.network, model)
            return loaded.module, loaded.facts
        names, rule = model.ensemble
        if names:
            members = [self.model(name) for name in names]
            kinds = [m.model.network.output_kind == "probabilities" for m in members]
            return Ensemble([m.deployed for m in members], rule, kinds), {"kind": "ensemble", "members": list(names)}
        networks = (model.network, *model.more_networks)
        opened = [self._open(network, model) for network in networks]
        kinds = [n.output_kind == "probabilities" for n in networks]
        facts = {"kind": "ensemble", "members": [dict(o.facts) for o in opened]}
        return Ensemble([o.module for o in opened], rule, kinds), facts

    def _open(self, network: Network, model: Model) -> LoadedNetwork:
        space = self.plan.space(model.space)
        return load_network(network, model, space, self.files, trust_code=self.trust_code)

    def decide(self, name: str, x: np.ndarray) -> np.ndarray:
        """Decisions of model ``name`` on originals (N, *shape) under its reference evaluator."""
        attacked = self.model(name)
        if attacked.model.decide.rule == "most_likely":
            why = "one draw is not its answer, and how many draws name that is said by a certificate alone"
            raise stop("TM826", f"{name} cannot choose or label data: {why}", attacked.model.origin)
        inputs = torch.from_numpy(x)
        self.settle(attacked, inputs)
        return attacked.evaluator.decide(inputs).numpy()

    def settle(self, attacked: Attacked, x: torch.Tensor) -> None:
        """Run the model on a few originals for the first time, and see whether its outputs are probabilities where the
        spec does not state it. Raises TM736 when it cannot be run on them."""
        model = attacked.model
        try:
            with torch.no_grad():
                raw = attacked.deployed.raw(x[:_TRIED])
            if raw.ndim != 2 or len(raw) != len(x[:_TRIED]):
                raise ValueError(f"{len(x[:_TRIED])} inputs give outputs of shape {tuple(raw.shape)}")
        except Exception as e:
            shape = " x ".join(str(n) for n in x.shape[1:])
            said = (str(e).strip().splitlines() or [""])[0]
            raise stop(
                "TM736",
                f"{model.name} cannot be run on an input of {model.space}",
                model.origin,
                notes=(f"an input is {shape}; {type(e).__name__}: {said}",),
                help="mend the shape of the space, the steps in front, or the network",
            ) from e
        if model.network.output_kind is None and model.ensemble is None:
            attacked.decision.probabilities = output_kind(raw, model) == "probabilities"

    def data(self, subject: Threat | Shift) -> LoadedData:
        """The selected rows that ``subject`` is about, labelled by its model's classes."""
        classes = self.plan.model(subject.model).classes
        return self.once(("data", subject.data, *classes), lambda: self._load_data(subject.data, classes))

    def _load_data(self, name: str, classes: tuple[str, ...]) -> LoadedData:
        data = self.plan.data_set(name)
        extra = frozenset(self._columns(name))
        return load_data(data, self.plan.space(data.space), classes, self.files, self.decide, extra=extra)

    def once(self, key: tuple[str, ...], make: Callable[[], T]) -> T:
        """What ``make`` gives, made once per ``key``."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def _columns(self, data: str) -> Iterator[str]:
        """Columns that the goals of threats over ``data`` name."""
        for subject in self.plan.subjects:
            if isinstance(subject, Threat) and subject.data == data and subject.goal.column:
                yield subject.goal.column

    def mask(self, threat: Threat, rows: np.ndarray, total: int) -> np.ndarray | None:
        """The boolean array of ``mutable: mask("m.npy")``: (*shape), or per selected row (N, *shape)."""
        if threat.mutable.file is None:
            return None
        array = _array(self.files.read(threat.mutable.file), threat.mutable.file)
        if not threat.mutable.per_example:
            return array
        if len(array) == total:
            return np.asarray(array[rows])
        if len(array) != len(rows):
            raise stop(
                "TM727",
                f'"{threat.mutable.file.path}" has {len(array)} masks for {len(rows)} selected rows of {total}',
                threat.mutable.origin,
            )
        return array


def _array(data: bytes, artifact: Artifact) -> np.ndarray:
    """The one array of an npy or npz file, as booleans."""
    try:
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        array = loaded if isinstance(loaded, np.ndarray) else loaded[loaded.files[0]]
    except (ValueError, OSError, IndexError) as e:
        raise stop("TM712", f'"{artifact.path}" is no array: {e}', artifact.origin) from e
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise stop("TM712", f'"{artifact.path}" is no mask: it holds other numbers than 0 and 1', artifact.origin)
    return np.asarray(array, dtype=np.bool_)
