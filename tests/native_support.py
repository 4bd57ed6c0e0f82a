"""Linear models, whose worst case is a formula, and calls of the native methods with a plan's defaults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from backend_support import Case, model, resolved
from torch import nn

from tmlang.backends.loading import load

ADAPTERS = {
    name: load("native", name)
    for name in (
        "apgd",
        "apgd_targeted",
        "pgd",
        "square",
        "fab",
        "fab_targeted",
        "coordinates",
        "random",
        "patch_pgd",
        "decision_search",
        "exhaustive_coordinates",
        "enumerate",
    )
}


def run(name, case, job, **arguments):
    adapter = ADAPTERS[name]
    job = replace(job, arguments=resolved(f"native.{name}", job, case.spec, **arguments))
    return adapter.certify(job) if name == "enumerate" else adapter.search(job)


def linear(weight, bias, space, x):
    """Two or more classes with scores ``W x + b``; labels are its own decisions."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(len(weight[0]), len(weight)))
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor(weight, dtype=torch.float32))
        net[1].bias.copy_(torch.tensor(bias, dtype=torch.float32))
    x = np.asarray(x, np.float32)
    case = Case(net, space, model(len(weight)), x, [0] * len(x))
    case.y = case.decisions(torch.from_numpy(x))
    return case


def worst_margins(case, ball, free):
    """The least score difference of two classes over the ball and [0, 1]: every free coordinate as far as it may go in
    linf, the budget spent on the steepest ones first in l1 (a fractional knapsack)."""
    layer = case.deployed.network[1]
    w = (layer.weight[0] - layer.weight[1]).double().numpy()
    sign = np.where(case.y.numpy() == 0, 1.0, -1.0)
    x = case.x.reshape(len(case.x), -1).astype(float)
    clean = sign * (x @ w + float(layer.bias[0] - layer.bias[1]))
    result = []
    for row, s, start in zip(x, sign, clean, strict=True):
        room = np.where(s * w > 0, row, 1 - row) * free
        left = np.inf if ball.norm == "linf" else float(ball.radius)
        for j in np.argsort(-np.abs(w)):
            step = min(room[j], left, float(ball.radius))
            start, left = start - step * abs(w[j]), left - step
        result.append(start)
    return np.array(result)
