"""What a stage may not touch: the model, its mode, the global random states, the flags of torch."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

import numpy as np
import torch
from torch import nn

from tmlang.diagnostics.stop import stop


def state_hash(model: nn.Module) -> str:
    """SHA-256 over every parameter and buffer: name, dtype, shape, bytes."""
    digest = sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _writes(model: nn.Module) -> list[tuple[int, int]]:
    """Where each tensor lies and how often it was written in place: cheap to compare after every batch."""
    return [(t.data_ptr(), t._version) for t in model.state_dict(keep_vars=True).values()]


def _modes(model: nn.Module) -> list[bool]:
    return [m.training for m in model.modules()]


def random_states() -> tuple[object, ...]:
    """Where the global random numbers of torch, numpy and Python stand, to be compared."""
    state = np.random.get_state(legacy=False)
    generator = state["state"]
    numbers = generator["key"].tobytes(), generator["pos"], state["has_gauss"], state["gauss"]
    return torch.get_rng_state().numpy().tobytes(), numbers, random.getstate()


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of libraries about their own use of torch: nothing in them concerns a spec."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def guarded(model: nn.Module, stage: str) -> Iterator[None]:
    """Run a stage on a batch; afterwards the random states and flags are as before, and so must the model be.

    Raises TM822 when the model's tensors or the mode of a submodule changed: nothing that came out may be recorded.
    """
    writes, modes = _writes(model), _modes(model)
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    flags = torch.is_grad_enabled(), torch.get_deterministic_debug_mode(), torch.get_default_dtype()
    threads = torch.get_num_threads()
    try:
        with quiet():
            yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
        torch.set_grad_enabled(flags[0])
        torch.set_deterministic_debug_mode(flags[1])
        torch.set_default_dtype(flags[2])
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
    if _modes(model) != modes:
        raise _changed(stage, "put a part of the model into training mode")
    if _writes(model) != writes:
        raise _changed(stage, "wrote to the model's parameters or buffers")


def check_state(model: nn.Module, before: str, stage: str) -> None:
    """Raises TM822 unless the model still has the state hash ``before``."""
    if state_hash(model) != before:
        raise _changed(stage, "left the model with other parameters or buffers")


def check_steady(steady: bool, stage: str) -> None:
    """Raises TM822 unless the object still answers as it did before anything ran."""
    if not steady:
        raise stop(
            "TM822",
            f"behind the stage {stage} the model answers the same input otherwise than before",
            notes=("its parameters and buffers are as they were, so it keeps a state elsewhere, or is random",),
            help="take the state out of the model, or write random: per request and a success: rule",
        )


def _changed(stage: str, what: str) -> Exception:
    return stop(
        "TM822",
        f"the stage {stage} {what}",
        notes=("what it found belongs to another object, so nothing of this batch is recorded",),
        help="report the method; leave it out of the spec until it is mended",
    )
