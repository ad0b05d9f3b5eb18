"""Radii against enumeration, and in every unit of the input and of the logits.

Small ReLU networks are solved by enumerating all of their activation patterns, each a convex program in float64 whose
solution is checked by duality. Printed are, for L1, L2 and L∞:

- how many certified radii, before anything is cut off, exceed the enumerated one (none may), for how many points the
  bound still holds at 1 + 10⁻¹¹ times it (none either), how far exact radii are from it, and how many attacked ones are
  below it (none);
- by how much the bracket, relative to the units, changes at input scales 10⁻⁹ … 10⁹, at logits times 10^±9, and where a
  layer adds 10¹² to every logit;
- for how many samples no example was found although one exists.

    python benchmarks/radii.py                       3,600 points, about fifteen minutes on one CPU core
    python benchmarks/radii.py --norms 1 --units 0   1,200 points for the L1 attacker alone
    python benchmarks/radii.py --nets 20             a first look
"""

from __future__ import annotations

import argparse
import copy
import itertools
import math
import time
import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls
from torch import Tensor, nn

from undertow.adversary import Classifier, Robustness, robustness
from undertow.adversary.certificates.certified import certified_radii, gap_bounds
from undertow.adversary.certificates.network_graph import graph_of
from undertow.adversary.exact.branching import exact_distance
from undertow.adversary.exact.two_layer_gaps import two_layer_of

Array = NDArray[np.float64]


def network(seed: int) -> nn.Sequential:
    """Two inputs to four, three to six neurons, one logit to three classes; every third with most neurons off."""
    source = torch.Generator().manual_seed(seed)
    inputs, width, outputs = 2 + seed % 3, 3 + seed % 4, 1 + seed % 3
    net = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs)).double()
    for parameter in net.requires_grad_(False).parameters():
        noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
        parameter.copy_(noise / parameter.shape[-1] ** 0.5)
    if seed % 3 == 0:
        net[0].bias.sub_(0.8)  # type: ignore[operator]
    return net


def samples(net: nn.Sequential, seed: int, count: int) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(10_000 + seed)
    first = net[0]
    assert isinstance(first, nn.Linear)
    x = 2 * torch.rand(count, first.in_features, generator=source, dtype=torch.float64) - 1
    out = net(x)
    return x, (out[:, 0] > 0).long() if out.shape[1] == 1 else out.argmax(1)


def enumerated(net: nn.Sequential, x: Array, label: int, norm: float) -> float:
    """min ‖δ‖ over all patterns and targets."""
    W, b, V, c = (parameter.numpy() for parameter in net.parameters())
    if len(c) == 1:
        V, c = np.vstack([0 * V, V]), np.append(0 * c, c)
    h, best = W @ x + b, math.inf
    for signs in itertools.product([-1.0, 1.0], repeat=len(b)):
        pattern = np.array(signs)
        for target in range(len(c)):
            if target == label:
                continue
            a = np.where(pattern > 0, V[label] - V[target], 0.0)
            rows = np.vstack([-pattern[:, None] * W, a @ W])
            sides = np.append(pattern * h, -(a @ h + c[label] - c[target]))
            best = min(best, closest(rows, sides, norm, best))
    return best


def closest(rows: Array, sides: Array, norm: float, best: float) -> float:
    """min ‖δ‖ with rows·δ ≤ sides; inf without any, or where a single row proves it to be further than ``best``."""
    dual = np.linalg.norm(rows, ord={1.0: math.inf, 2.0: 2, math.inf: 1}[norm], axis=1)
    flat = dual == 0
    if (sides[flat] < 0).any():
        return math.inf
    rows, sides, dual = rows[~flat], sides[~flat], dual[~flat]
    if (-sides / dual).max(initial=0.0) >= best:
        return math.inf
    return _least_squares(rows, sides) if norm == 2 else _linear(rows, sides, norm)


def _least_squares(rows: Array, sides: Array) -> float:
    """Lawson & Hanson's least distance, with its multipliers as a proof: max −λ·sides − ‖rowsᵀλ‖²/4 over λ ≥ 0."""
    aim = np.zeros(rows.shape[1] + 1)
    aim[-1] = 1.0
    weights, residual = nnls(np.vstack([-rows.T, -sides]), aim)
    if residual < 1e-9:
        return math.inf
    rest = np.vstack([-rows.T, -sides]) @ weights - aim
    delta = -rest[:-1] / rest[-1]
    length = float(np.linalg.norm(delta))
    direction = rows.T @ weights
    size = float(np.linalg.norm(direction))
    lower = float(-sides @ weights) / size if size > 0 else 0.0
    assert (rows @ delta - sides).max() <= 1e-9 * (1 + np.abs(sides).max()), "not feasible"
    assert abs(lower - length) <= 1e-7 * (1e-3 + length), (lower, length)
    return length


def _linear(rows: Array, sides: Array, norm: float) -> float:
    """The least t with |δ_i| ≤ t, or Σ t_i with |δ_i| ≤ t_i."""
    d = rows.shape[1]
    sizes = np.ones((d, 1)) if norm == math.inf else np.eye(d)
    ball = np.vstack([np.hstack([np.eye(d), -sizes]), np.hstack([-np.eye(d), -sizes])])
    count = sizes.shape[1]
    result = linprog(
        np.append(np.zeros(d), np.ones(count)),
        A_ub=np.vstack([np.hstack([rows, np.zeros((len(rows), count))]), ball]),
        b_ub=np.append(sides, np.zeros(2 * d)),
        bounds=[(None, None)] * d + [(0, None)] * count,
    )
    return float(result.fun) if result.status == 0 else math.inf


def against_enumeration(nets: int, each: int, norm: float) -> None:
    began, truth, proved, solved, attacked, beyond = time.perf_counter(), [], [], [], [], 0
    for seed in range(nets):
        net = network(seed)
        x, y = samples(net, seed, each)
        graph = graph_of(Classifier(net), net, x)
        assert graph is not None
        two_layer = two_layer_of(graph, x[:1])
        assert two_layer is not None
        proved += certified_radii(graph, x, y, norm).tolist()
        attacked += _radii(net, x, y, norm, None, exact=False).attacked.tolist()
        for point, label in zip(x.numpy(), y.tolist(), strict=True):
            truth.append(enumerated(net, point, label, norm))
            found = exact_distance(two_layer, point, label, norm=norm, upper=math.inf, box=None, seconds=60)
            solved.append(math.inf if found.status == "none-found" else found.upper)
        radius = torch.tensor(truth[-each:], dtype=torch.float64)
        some = radius.isfinite() & (radius > 0)
        if bool(some.any()):
            bounds = gap_bounds(graph, x[some], y[some], radius[some] * (1 + 1e-11), norm)
            beyond += int((bounds > 0).all(1).sum())
    t, c, s, a = (np.array(values) for values in (truth, proved, solved, attacked))
    near = np.isfinite(t) & (t > 0)
    ratio, gap = c[near] / t[near], np.abs(s[near] / t[near] - 1)
    alone = int((np.isfinite(s) != np.isfinite(t)).sum())
    print(f"L{norm:g}: {len(t)} enumerated points of {nets} networks, {time.perf_counter() - began:.0f} s")
    print(f"  certified > truth: {int((c > t).sum())}; bounds that hold at (1 + 1e-11)·truth: {beyond}")
    print(f"  certified/truth: mean {ratio.mean():.3f}; within 10⁻⁶ of 1: {int((ratio > 1 - 1e-6).sum())}")
    print(f"  exact: largest relative difference {gap.max():.1e}; only one of the two infinite: {alone}")
    below, found = int((a < t * (1 - 1e-9)).sum()), near & np.isfinite(a)
    print(f"  attacked < truth: {below}; attacked/truth: mean {(a[found] / t[found]).mean():.3f}")


def other_units(
    net: nn.Sequential, unit: float = 1.0, logits: float = 1.0, offset: float = 0.0
) -> nn.Sequential:
    net = copy.deepcopy(net)
    net[0].weight.div_(unit)  # type: ignore[operator]
    for parameter in net[2].parameters():
        parameter.mul_(logits)
    if not offset:
        return net
    classes = net[2].out_features
    assert isinstance(classes, int)
    last = nn.Linear(classes, classes).double().requires_grad_(False)
    last.weight.copy_(torch.eye(classes))
    last.bias.fill_(offset)
    return nn.Sequential(*net, last)


def in_units(nets: int, norm: float, box: bool) -> None:
    """The largest relative change of each side over networks, beside those at unit 1."""
    print(f"L{norm:g}{' in a box' if box else ''}: largest change relative to the units")
    cases: list[tuple[str, float, float, float]] = [
        *((f"input × {unit:.0e}", unit, 1.0, 0.0) for unit in (1e-9, 1e-6, 1e-3, 1e3, 1e6, 1e7, 1e8, 1e9)),
        ("logits × 1e-09", 1.0, 1e-9, 0.0),
        ("logits × 1e+09", 1.0, 1e9, 0.0),
        ("logits + 1e+12", 1.0, 1.0, 1e12),
    ]
    many = [network(seed) for seed in range(3 * nets) if seed % 3][:nets]  # two classes or three
    data = [samples(net, seed, 4) for seed, net in enumerate(many)]
    before = [
        _radii(net, x, y, norm, (-1.0, 1.0) if box else None) for net, (x, y) in zip(many, data, strict=True)
    ]
    for name, unit, logits, offset in cases:
        change, contradictions, beyond = dict.fromkeys(("certified", "exact", "attacked"), 0.0), 0, 0
        for net, (x, y), old in zip(many, data, before, strict=True):
            bounds = (-unit, unit) if box else None
            new = _radii(
                other_units(net, unit, logits, offset), (unit * x).clamp(-unit, unit), y, norm, bounds
            )
            contradictions += len(new.contradictions)
            for side in change:
                a, b = getattr(new, side) / unit, getattr(old, side)
                same = a.isinf() & b.isinf() | (a.isnan() & b.isnan()) | (a == b)
                change[side] = max(change[side], float(torch.where(same, 0.0, (a / b - 1).abs()).max()))
            moved = (new.attacked / unit - old.attacked).abs()
            beyond += int((moved > 1e-6 * old.attacked + 2 * new.rounding / unit).sum())
        sides = ", ".join(f"{side} {value:.1e}" for side, value in change.items())
        print(f"  {name:15s} {sides}; attacked beyond rounding: {beyond}; contradictions: {contradictions}")


def _radii(
    net: nn.Sequential,
    x: Tensor,
    y: Tensor,
    norm: float,
    box: tuple[float, float] | None,
    *,
    exact: bool = True,
) -> Robustness:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return robustness(net, x, y, norm=norm, bounds=box, exact=exact, seconds=60)


def without_example(nets: int, norm: float) -> None:
    missing = existing = 0
    for seed in range(nets):
        net = network(seed)
        x, y = samples(net, seed, 4)
        found = robustness(net, x, y, norm=norm, exact=False)
        for index in range(4):
            if found.attacked[index].isinf():
                missing += math.isfinite(enumerated(net, x[index].numpy(), int(y[index]), norm))
            existing += 1
    print(f"L{norm:g}: {missing} of {existing} samples without an example although there is one")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nets", type=int, default=200, help="networks enumerated for each norm")
    parser.add_argument("--points", type=int, default=6, help="of each network")
    parser.add_argument("--units", type=int, default=6, help="networks measured in all units")
    parser.add_argument("--norms", nargs="+", type=float, default=[1.0, 2.0, math.inf])
    options = parser.parse_args()
    for norm in options.norms:
        against_enumeration(options.nets, options.points, norm)
    for norm, box in itertools.product(options.norms, (False, True)):
        if options.units:
            in_units(options.units, norm, box)
    for norm in options.norms:
        without_example(min(options.nets, 80), norm)


if __name__ == "__main__":
    main()
