"""What pReLU networks should become on orthogonal subclasses, and how far they are from it (Min & Vidal 2024).

Data x = μ_k + noise around K orthonormal directions, K₁ of them positive, are classified well by two functions:

    F(x)     = √K₁ σ(⟨μ̄₊, x⟩) − √K₂ σ(⟨μ̄₋, x⟩),   μ̄_s = Σ_{k in s} μ_k / √K_s    (averaged features)
    F^(p)(x) = Σ_{k ≤ K₁} σ(⟨μ_k, x⟩)^p − Σ_{k > K₁} σ(⟨μ_k, x⟩)^p                 (one feature each)

Conjecture 1: gradient flow from a small start brings f_p(x) = Σ_j v_j σ(⟨w_j, x⟩)^p/‖w_j‖^(p−1) close to F for
p = 1 and to F^(p) for p ≥ 3, in the distance inf_{c>0} sup_{‖x‖=1} |c f_p(x) − F(x)|.

The supremum is not convex. It is bracketed: any finite set of points gives a lower bound, found by ascent from
many starts; the weights themselves give an upper one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linprog, minimize_scalar
from torch import Tensor, nn

from undertow.core.errors import InputError, ModelError
from undertow.core.layers import ActivationLayer, Layer, LinearLayer
from undertow.core.networks import LayerChain, read_layers
from undertow.models.polynomial_relu import PolynomialReLU

__all__ = ["Target", "TargetDistance", "averaged_target", "decoupled_target", "distance_to"]

_STEPS = (
    0.3,
    0.1,
    0.03,
    0.01,
)  # lengths of the ascent's steps on the unit sphere, each taken ``_REPEATS`` times
_REPEATS = 15


@dataclass(frozen=True, eq=False)
class Target:
    """F(x) = Σ_t a_t σ(⟨u_t, x⟩)^p with orthonormal directions u_t (T, D), weights a_t (T,) and power p."""

    directions: Tensor
    weights: Tensor
    power: float

    def __call__(self, x: Tensor) -> Tensor:
        """F of every row of x, shape (N,)."""
        return torch.relu(x @ self.directions.T).pow(self.power) @ self.weights

    @property
    def largest(self) -> float:
        """sup |F| over the unit sphere: the distance that the zero function has."""
        return max(float(_most(self.weights[self.weights * sign > 0], self.power)) for sign in (1, -1))


def averaged_target(centres: Tensor, signs: Tensor, *, power: float = 1.0) -> Target:
    """F: one ridge for each class, along the mean of its orthonormal centres (K, D); signs are ±1, (K,).

    With a power, the same for pReLU: ±K_s^(p/2) σ(⟨μ̄_s, x⟩)^p, which is ±1 on the centres too.

    >>> F = averaged_target(torch.eye(3), torch.tensor([1, 1, -1]))
    >>> F(torch.eye(3)).round(decimals=4).tolist(), round(F.largest, 4)   # 1 on positive centres, √2 between
    ([1.0, 1.0, -1.0], 1.4142)
    """
    _require_orthonormal(centres)
    means, weights = [], []
    for sign in (1, -1):
        members = centres[signs == sign]
        means.append(members.sum(0) / math.sqrt(len(members)))
        weights.append(sign * len(members) ** (power / 2))
    return Target(torch.stack(means), centres.new_tensor(weights), power)


def decoupled_target(centres: Tensor, signs: Tensor, *, power: float) -> Target:
    """F^(p): one ridge for each of the orthonormal centres (K, D).

    >>> F3 = decoupled_target(torch.eye(3), torch.tensor([1, 1, -1]), power=3)
    >>> F3(torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 1.0]])).tolist()
    [1.0, -0.75]
    """
    _require_orthonormal(centres)
    return Target(centres, signs.to(centres), power)


@dataclass(frozen=True)
class TargetDistance:
    """inf_{c ≥ 0} sup_{‖x‖=1} |c f(x) − F(x)| lies between ``lower`` and ``upper``, at a c near ``scale``.

    ``lower`` is the exact infimum over c for the finite set of points that the search found. ``settled`` says
    whether the last search, at this c, found nothing above it by more than the tolerance; then ``lower`` is
    the distance itself as far as the search can see. ``upper`` is proved from the weights.
    """

    lower: float
    upper: float
    scale: float
    settled: bool
    points: int


def distance_to(
    net: nn.Module,
    target: Target,
    *,
    starts: int = 128,
    rounds: int = 12,
    rtol: float = 0.01,
    generator: torch.Generator | None = None,
) -> TargetDistance:
    """How far a two-layer pReLU network is from c·F on the unit sphere, whatever the scale c.

    ``net`` is a sequence of a linear layer, pReLU of the target's power (ReLU for p = 1) and a linear layer, without
    biases. Each round takes the best c for the points so far, an exact linear program, and ascends |c f − F|
    from the neurons, the target's directions and random points; what it finds joins the points.

    >>> net = nn.Sequential()
    >>> net.hidden, net.activation = nn.Linear(2, 2, bias=False), nn.ReLU()
    >>> net.output = nn.Linear(2, 1, bias=False)
    >>> _ = net.hidden.weight.data.copy_(torch.eye(2)), net.output.weight.data.copy_(torch.tensor([[3.0, -3.0]]))
    >>> found = distance_to(net, averaged_target(torch.eye(2), torch.tensor([1, -1])))     # f = 3 F
    >>> round(found.lower, 6), round(found.upper, 6), round(found.scale, 4)
    (0.0, 0.0, 0.3333)
    """
    weight, mass = _ridges(net, target.power)
    u, a = target.directions.to(weight), target.weights.to(weight)
    reference = Target(u, a, target.power)
    unit = nn.functional.normalize(weight, dim=1)

    def network(x: Tensor) -> Tensor:
        return torch.relu(x @ unit.T).pow(target.power) @ mass

    draw = torch.Generator().manual_seed(0) if generator is None else generator
    points = torch.cat([u, -u, unit[mass.abs().argsort(descending=True)[:starts]]])
    scale, lower, settled = 0.0, 0.0, False
    for _ in range(rounds):
        scale, lower = _best_scale(network(points), reference(points))
        random = torch.randn(starts, u.shape[1], generator=draw, dtype=torch.float64).to(weight)
        mixed = torch.randn(starts, len(u), generator=draw, dtype=torch.float64).to(weight) @ u
        begin = nn.functional.normalize(torch.cat([random, mixed, points]), dim=1)
        found, heights = _ascend(begin, network, reference, scale)
        settled = float(heights.max()) <= lower * (1 + rtol) + 1e-12
        if settled:
            break
        points = torch.cat([points, found[heights.argsort(descending=True)[:starts]]])
    upper = _proved(unit, mass, reference)
    # Not below what some point shows: rounding apart, the two can only meet.
    return TargetDistance(lower, max(upper, lower), scale, settled, len(points))


def _ridges(net: nn.Module, power: float) -> tuple[Tensor, Tensor]:
    """Weights w_j (h, D) and masses v_j‖w_j‖ of f(x) = Σ_j v_j‖w_j‖ σ(⟨ŵ_j, x⟩)^p, in float64."""
    chain = read_layers(net)
    layers: tuple[Layer, ...] = chain.at_work_on_vectors if isinstance(chain, LayerChain) else ()
    if len(layers) != 3 or not (isinstance(layers[0], LinearLayer) and isinstance(layers[2], LinearLayer)):
        raise ModelError(
            "the distance is of a two-layer network: a linear layer, a pReLU and a linear layer."
        )
    hidden, activation, output = layers[0].module, layers[1], layers[2].module
    if output.out_features != 1:
        raise ModelError("the distance is of a two-layer network with one logit.")
    if len([*hidden.parameters(), *output.parameters()]) > 2:
        raise ModelError("the distance is of a network without biases: build it with bias='none'.")
    if _power(activation) != power:
        raise InputError(f"the target has power {power:g}, the network's activation is {activation.module}.")
    weight = hidden.weight.detach().double()
    return weight, output.weight.detach().double()[0] * weight.norm(dim=1)


def _power(layer: Layer) -> float | None:
    """The p of a pReLU; 1 for ReLU."""
    if type(layer.module) is PolynomialReLU:
        return layer.module.power
    return 1.0 if isinstance(layer, ActivationLayer) and layer.activation_name == "relu" else None


def _best_scale(f: Tensor, F: Tensor) -> tuple[float, float]:
    """argmin and min over c ≥ 0 of max_i |c f_i − F_i|: a linear program in (c, t)."""
    ours, theirs = f.cpu().numpy(), F.cpu().numpy()
    unit = max(float(np.abs(ours).max()), 1e-300)  # far-off units of f would cost the solver its accuracy
    rows = np.concatenate([np.stack([ours / unit, -np.ones_like(ours)], 1)] * 2)
    rows[len(ours) :, 0] *= -1
    solved = linprog([0.0, 1.0], rows, np.concatenate([theirs, -theirs]), bounds=[(0, None), (0, None)])
    return float(solved.x[0]) / unit, float(solved.x[1])


def _ascend(
    x: Tensor, network: Callable[[Tensor], Tensor], target: Target, scale: float
) -> tuple[Tensor, Tensor]:
    """Points of the unit sphere where |c f − F| is locally large, from the rows of x, and how large."""
    best, heights = x, (scale * network(x) - target(x)).abs()
    for step in _STEPS:
        x = best
        for _ in range(_REPEATS):
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                (slope,) = torch.autograd.grad((scale * network(x) - target(x)).abs().sum(), x)
            slope = slope - (slope * x).sum(1, keepdim=True) * x  # along the sphere
            length = slope.norm(dim=1, keepdim=True)
            x = nn.functional.normalize(
                x + step * slope / torch.where(length > 0, length, 1.0), dim=1
            ).detach()
            height = (scale * network(x) - target(x)).abs()
            better = height > heights
            best, heights = torch.where(better[:, None], x, best), torch.where(better, height, heights)
    return best, heights


def _proved(unit: Tensor, mass: Tensor, target: Target) -> float:
    """An upper bound of the distance, from σ(·)^p being p-Lipschitz on [−1, 1].

    Every neuron is counted to the direction u_t of its sign that it is nearest to. With M_t the mass there,

        |c f − F| ≤ sup_x Σ_t |c M_t − a_t| σ(⟨u_t, x⟩)^p + c Σ_j |m_j| min(p ‖ŵ_j − u_t(j)‖, 1).
    """
    allowed = torch.sign(mass)[:, None] == torch.sign(target.weights)[None, :]
    gaps = torch.cdist(unit, target.directions).masked_fill(~allowed, math.inf)
    nearest = gaps.min(dim=1)
    masses = torch.zeros_like(target.weights).index_add(0, nearest.indices, mass)
    strays = float((mass.abs() * (target.power * nearest.values).clamp(max=1.0)).sum())

    def bound(c: float) -> float:
        return float(_most(c * masses - target.weights, target.power)) + c * strays

    most = 2 * target.largest / max(float(masses.abs().max()), 1e-300)
    best = minimize_scalar(bound, bounds=(0.0, most), method="bounded", options={"xatol": 1e-9 * most})
    return min(target.largest, float(best.fun))  # c = 0 is a choice too


def _most(weights: Tensor, power: float) -> Tensor:
    """sup over the unit sphere of Σ_t |a_t| σ(⟨u_t, x⟩)^p for orthonormal u_t.

    With z_t = ⟨u_t, x⟩² on the simplex it is sup Σ |a_t| z_t^(p/2): the largest |a_t| for p ≥ 2, where this is
    convex, and by Hölder's inequality the norm of order 2/(2 − p) for p < 2.
    """
    order = math.inf if power >= 2 else 2 / (2 - power)
    most: Tensor = torch.linalg.vector_norm(weights, ord=order)
    return most


def _require_orthonormal(centres: Tensor) -> None:
    gram = centres.double() @ centres.double().T
    if not torch.allclose(gram, torch.eye(len(centres)).to(gram), atol=1e-5):
        raise InputError("the centres are not orthonormal: divide orthogonal ones by their norm.")
