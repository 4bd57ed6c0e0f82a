"""Square attack: random search over square windows from scores alone (Andriushchenko et al., ECCV 2020; its l1 form:
Croce & Hein, ICML 2021).

Pictures (channels, rows, columns) as in the paper; a vector of features is a picture of one row, its squares segments.
The randomness of a unit comes from its own seed, in blocks of iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import sqrt
from typing import TYPE_CHECKING

import torch

from tmlang.backends.contract import Candidates, Job
from tmlang.backends.library import searched_ball
from tmlang.backends.masks import image_axes
from tmlang.backends.native.arguments import number, whole
from tmlang.backends.native.hunt import Hunt
from tmlang.backends.native.losses import Loss, aims, loss_of
from tmlang.backends.native.terrain import Terrain
from tmlang.meaning.spaces import Space

if TYPE_CHECKING:
    from tmlang.plan.capability import Method

Tensor = torch.Tensor

_HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""Iterations of 10,000 behind which the share of the window halves (section 4.1)."""
_BLOCK = 256


def share(p: float, iteration: int, iterations: int) -> float:
    """The share of the picture that a window covers."""
    at = iteration * 10_000 / iterations
    return p / 2.0 ** sum(at > h for h in _HALVINGS)


@dataclass(frozen=True)
class Frame:
    """A space as (channels, rows, columns): the axes of its inputs in that order."""

    order: tuple[int, ...]
    shape: tuple[int, int, int]
    space_shape: tuple[int, ...]

    @classmethod
    def of(cls, space: Space) -> Frame:
        if len(space.shape) == 1:
            return cls((0,), (1, 1, space.size), space.shape)
        rows, columns, channels = image_axes(space)
        order = (rows, columns) if channels is None else (channels, rows, columns)
        sizes = (1,) * (3 - len(order)) + tuple(space.shape[axis] for axis in order)
        return cls(order, (sizes[0], sizes[1], sizes[2]), space.shape)

    def pictures(self, flat: Tensor) -> Tensor:
        """(n, size) to (n, channels, rows, columns)."""
        own = flat.reshape(-1, *self.space_shape).permute(0, *(a + 1 for a in self.order))
        return own.reshape(-1, *self.shape)

    def flat(self, pictures: Tensor) -> Tensor:
        """The inverse of :meth:`pictures`."""
        own = pictures.reshape(-1, *(self.space_shape[a] for a in self.order))
        back = [self.order.index(a) + 1 for a in range(len(self.order))]
        return own.permute(0, *back).reshape(len(pictures), -1)

    def window(self, covered: float) -> tuple[int, int]:
        """Rows and columns of a window over this share of the picture: a square where one fits."""
        _, rows, columns = self.shape
        area = covered * rows * columns
        height = min(max(round(sqrt(area)), 1), rows)
        return height, min(max(round(area / height), 1), columns)


class Square:
    """``native.square``: ``restarts`` runs of ``queries`` rows of scores each in every branch."""

    def __init__(self, row: Method) -> None:
        self.row = row

    def search(self, job: Job) -> Candidates:
        searched_ball(job.threat, self.row.norms)  # refuses what its windows are not for
        hunt, frame = Hunt(job), Frame.of(job.sets.space)
        climbed = aims(job, loss_of(job, "margin"))
        runs = product(range(whole(job.arguments["restarts"])), climbed, range(len(job.sets.branches)))
        for draw, (_, aim, branch) in enumerate(runs):
            units = hunt.open()
            if len(units):
                run = _Run(hunt, frame, hunt.terrain(branch).rows(units), units, draw, aim)
                queries = whole(job.arguments["queries"])
                over = job.arguments.get("schedule")
                run.go(queries, float(number(job.arguments["p_init"])), queries if over is None else whole(over))
        return hunt.result()


class _Draws:
    """Uniform numbers for n units, ``width`` an iteration, each unit's from its own source."""

    def __init__(self, sources: list[torch.Generator], width: int) -> None:
        self.sources, self.width = sources, width
        self.at = _BLOCK
        self.block = torch.empty(0)

    def once(self, count: int) -> Tensor:
        """(n, count) numbers."""
        return torch.stack([torch.rand(count, generator=g) for g in self.sources])

    def next(self) -> Tensor:
        """(n, width) numbers."""
        if self.at == _BLOCK:
            self.block, self.at = self.once(_BLOCK * self.width).reshape(-1, _BLOCK, self.width), 0
        self.at += 1
        return self.block[:, self.at - 1]

    def keep(self, rows: Tensor) -> None:
        self.sources = [self.sources[i] for i in rows.tolist()]
        self.block = self.block[rows] if self.at < _BLOCK else self.block


class _Run:
    """One run over n units; narrowed to those that are left."""

    def __init__(self, hunt: Hunt, frame: Frame, terrain: Terrain, units: Tensor, draw: int, aim: Loss) -> None:
        self.hunt, self.frame, self.terrain, self.units, self.aim = hunt, frame, terrain, units, aim
        self.draws = _Draws(hunt.generators(units, draw), 5 + frame.shape[0])
        self.best = terrain.region.centre
        self.loss = torch.full((len(units),), -torch.inf, dtype=self.best.dtype)
        self.power = 1 if terrain.geometry == "l1" else 2

    def go(self, queries: int, p: float, over: int) -> None:
        """``over``: the iterations that the shares of the windows are spread over."""
        flat = self.terrain.per_coordinate
        self._try(self._stripes() if flat else self._bumps())
        for k in range(1, queries):
            if not len(self.units):
                return
            window = self.frame.window(share(p, k, over))
            change = self.frame.pictures(self.best - self.terrain.region.centre)
            self._try(self._recolour(change, window) if flat else self._move_bump(change, window))

    def _try(self, change: Tensor) -> None:
        """Take the change (n, channels, rows, columns) where it is better, and drop the units that are done."""
        job = self.hunt.job
        trial = self.terrain.project(self.terrain.region.centre + self.frame.flat(change))
        with torch.no_grad():
            seen, going = self.hunt.look(self.terrain.shown(trial), self.units)
        value = self.aim(seen, job.y[self.units], None if job.target is None else job.target[self.units])
        better = value > self.loss
        self.best = torch.where(better[:, None], trial, self.best)
        self.loss = torch.where(better, value, self.loss)
        if not bool(going.all()):
            rows = torch.nonzero(going).flatten()
            self.units, self.best, self.loss = self.units[rows], self.best[rows], self.loss[rows]
            self.terrain = self.terrain.rows(rows)
            self.draws.keep(rows)

    # --- linf: algorithm 2 ------------------------------------------------------------------------------------------

    def _stripes(self) -> Tensor:
        """Columns of one sign per channel, at the radius."""
        channels, rows, columns = self.frame.shape
        signs = _signs(self.draws.once(channels * columns)).reshape(-1, channels, 1, columns)
        return self._radius() * signs.expand(-1, -1, rows, -1)

    def _recolour(self, change: Tensor, window: tuple[int, int]) -> Tensor:
        """A window at a random place gets one sign per channel, at the radius."""
        draws = self.draws.next()
        inside = self._place(draws[:, :2], window)
        colours = _signs(draws[:, 5:])[:, :, None, None] * self._radius()
        return torch.where(inside[:, None], colours, change)

    def _radius(self) -> Tensor:
        return self.frame.pictures(self.terrain.radius.expand(1, self.best.shape[1]))

    def _place(self, draws: Tensor, window: tuple[int, int]) -> Tensor:
        """(n, rows, columns): a window of this size at a uniform place, from two numbers."""
        _, rows, columns = self.frame.shape
        within = []
        for draw, length, size in ((draws[:, 0], window[0], rows), (draws[:, 1], window[1], columns)):
            first = (draw * (size - length + 1)).long()[:, None]
            at = torch.arange(size)
            within.append((at >= first) & (at < first + length))
        return within[0][:, :, None] & within[1][:, None, :]

    # --- l2 and l1: algorithm 3 -------------------------------------------------------------------------------------

    def _bumps(self) -> Tensor:
        """Five by five bumps of random sign per channel, scaled to the radius."""
        channels, rows, columns = self.frame.shape
        tiles = (min(5, rows), min(5, columns))
        size = (rows // tiles[0], columns // tiles[1])
        signs = _signs(self.draws.once(channels * tiles[0] * tiles[1])).reshape(-1, channels, *tiles)
        change = torch.zeros(len(self.units), channels, rows, columns)
        grown = torch.kron(signs, _bump(*size))
        change[:, :, : grown.shape[2], : grown.shape[3]] = grown
        return self._scaled(change.to(self.best.dtype))

    def _move_bump(self, change: Tensor, window: tuple[int, int]) -> Tensor:
        """The energy of one window, and what is left of the budget, goes into a bump in another one."""
        draws, p = self.draws.next(), self.power
        bump = _bump(*window)
        there, gone = self._place(draws[:, :2], window)[:, None], self._place(draws[:, 2:4], window)[:, None]
        inside = change.masked_select(there).reshape(*change.shape[:2], *window)
        per_channel = (change.masked_fill(~(there | gone), 0.0).abs() ** p).sum((2, 3), keepdim=True)
        spent = (change.abs() ** p).sum((1, 2, 3), keepdim=True)
        rest = (self.terrain.radius.reshape(1, 1, 1, 1) ** p - spent).clamp(min=0)
        turned = torch.where(draws[:, 4, None, None] < 0.5, bump, bump.flip(0).flip(1))[:, None]
        fresh = _unit(turned, p) * _signs(draws[:, 5:])[:, :, None, None] + _unit(inside, p)
        fresh = _unit(fresh, p) * (rest / self.frame.shape[0] + per_channel) ** (1 / p)
        moved = change.masked_fill(gone, 0.0).masked_scatter(there, fresh.to(change.dtype))
        return self._scaled(moved)

    def _scaled(self, change: Tensor) -> Tensor:
        length = change.flatten(1).norm(p=self.power, dim=1).clamp(min=1e-12)
        factor = (self.terrain.radius[0, 0] / length)[:, None, None, None]
        return torch.mul(change, factor)


def _signs(draws: Tensor) -> Tensor:
    return (draws < 0.5).to(draws.dtype) * -2 + 1


def _unit(windows: Tensor, power: int) -> Tensor:
    """Each channel's window (n, channels, h, w) scaled to length 1 (zeros stay)."""
    length = torch.linalg.vector_norm(windows, ord=power, dim=(2, 3), keepdim=True)
    return torch.div(windows, length.clamp(min=1e-12))


def _bump(height: int, width: int) -> Tensor:
    """Two peaks of opposite sign, one in each half of the rows: nested rectangles around each middle, the k-th from
    outside adding ``1 / (n + 1 - k)**2`` (equation 2), scaled to l2 length 1."""
    upper = _peak(height // 2, width)
    both = torch.cat([upper, -_peak(height - height // 2, width)])
    return torch.div(both, both.norm().clamp(min=1e-12))


def _peak(height: int, width: int) -> Tensor:
    peak = torch.zeros(height, width)
    layers = max(1, (min(height, width) + 1) // 2)
    for k in range(layers):
        peak[k : height - k, k : width - k] += 1 / (layers - k) ** 2
    return peak
