"""Theorem 5.5 of Wang, Min & Ruan (2024): the growth of ϱ in a two-layer network f(x) = aᵀσ(Wx), a_r = ±1/√m.

Gradient descent moves row r of W along a_r x̃_r. For a point x the paper averages the x̃_r over the neurons (Eq. 21):

    x̃*(t,x) = (1/n) Σ_i α_i(t,x)(y_i − sig(u_i)) x_i,   α_i(t,x) = E[σ′(wᵀx)σ′(wᵀx_i)].

One network has m draws of w to estimate that mean from, α̂_i = (1/m) Σ_r σ′(w_rᵀx)σ′(w_rᵀx_i). With it, and with
a_r² = 1/m, x̃*(t,x) is aᵀD(t,x)G(t), which is how it is computed here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.theory.growth_network import GrowthNetwork
from undertow.theory.growth_terms import GrowthResult, HeadAndTop, relative_change, terms
from undertow.theory.top_vectors import TopVectors, tail_norms, top_vectors

__all__ = ["RunningSums", "activation_overlap", "mlp_growth", "point_inputs"]

_RISK = 0.05  # δ: the proof's bounds hold with probability 1 − δ


@dataclass(frozen=True, eq=False)
class RunningSums:
    """What the main term remembers of the steps made so far, at the points x: (P, d) each.

    ``plain`` is η Σ_τ x̃*(τ,x), ``aligned`` η Σ_τ aᵀv(τ,x) x̃*(τ,x), and ``printed`` the latter with v of WWᵀ.
    """

    plain: Tensor
    aligned: Tensor
    printed: Tensor


def point_inputs(point_slopes: Tensor, head: Tensor, direction: Tensor) -> Tensor:
    """x̃*(t,x) = aᵀD(t,x)G(t), (P, d), from the slopes σ′(Wx) of every point, (P, m), and G (m, d).

    >>> point_inputs(torch.tensor([[1.0, 0.0]]), torch.tensor([0.5, 0.5]), torch.tensor([[2.0], [4.0]]))
    tensor([[1.]])
    """
    return (point_slopes * head) @ direction


def activation_overlap(point_slopes: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """α̂_i(x) = (1/m) Σ_r σ′(w_rᵀx)σ′(w_rᵀx_i) and its standard error over the m neurons: (P, n) each.

    ``point_slopes`` is (P, m), ``slopes`` (n, m). The neurons are independent draws at the start only; later the error
    is that of a mean over m numbers, no more.

    >>> activation_overlap(torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
    (tensor([[0.5000, 1.0000]]), tensor([[0.5000, 0.0000]]))
    """
    width = slopes.shape[1]
    alpha = point_slopes @ slopes.T / width
    squares = point_slopes.square() @ slopes.square().T / width
    return alpha, ((squares - alpha.square()).clamp_min(0) / max(width - 1, 1)).sqrt()


def mlp_growth(
    net: GrowthNetwork,
    x: Tensor,
    y: Tensor,
    *,
    points: Tensor,
    start: Tensor,
    sums: RunningSums,
    flow_time: float,
    learning_rate: float,
    direction: Tensor | None = None,
    top: TopVectors | None = None,
) -> GrowthResult:
    """The rate of ϱ, its expectations taken over ``points`` (P, d), and the theorem's terms; W(0) = ``start``.

    x and y are what is trained on; ``flow_time`` is Σ η over the steps made; ``direction`` (G) and ``top`` (v at
    the points) are for callers who have them already. The main term is

        E⟨x̃*(t,x), η Σ_τ (1 − aᵀv(τ,x)·aᵀv(t,x)) x̃*(τ,x)⟩ / E‖DW‖₂².

    What ``replacement`` then holds: in ① the proof turns D(t) into D(τ) (Eq. 106); in ①′ it does so too, turns
    v(t) into v(τ), and takes Σ_r v_r a_r σ′(w_rᵀx)σ′(w_rᵀx_i) for aᵀv·α_i (Eq. 126), as if v did not depend on
    the slopes. But for ReLU v_r = 0 wherever σ′(w_rᵀx) = 0, and this sum is near 2·aᵀv·α_i at every width.
    """
    weight, head, slopes = net.weight, net.head, net.slopes_at(points)
    direction = net.direction(x, y) if direction is None else direction
    top = top or top_vectors(weight, slopes, head)
    everywhere = top_vectors(weight, torch.ones_like(head)[None], head).towards
    inputs = point_inputs(slopes, head, direction)
    bend = net.activation.second(points @ weight.T) * (points @ direction.T)
    moved = weight - start
    seen, steered = slopes * head, slopes * top.left  # aᵀD and vᵀD at every point

    def both(left: Tensor, right: Tensor) -> HeadAndTop:
        return HeadAndTop(
            _mean_product(seen @ left, seen @ right), _mean_product(steered @ left, steered @ right)
        )

    found = terms(
        energy=both(weight, weight),
        moved=both(direction, moved),
        started=both(direction, start),
        bent=HeadAndTop(
            _mean_product((bend * head) @ weight, seen @ weight),
            _mean_product((bend * top.left) @ weight, steered @ weight),
        ),
        main=_mean_product(inputs, sums.plain - top.towards[:, None] * sums.aligned),
        printed=_mean_product(inputs, sums.plain - everywhere[:, None] * sums.printed),
    )
    return GrowthResult(
        **found,
        measured=relative_change(
            found["co_correlation"],
            _co_correlation(net, weight + learning_rate * direction, points),
            learning_rate,
        ),
        remaining_bound=_remaining_bound(net, x, start) / found["norm"],
        replacement_bound=_replacement_bound(net, flow_time) / found["norm"],
        alignment=float(top.towards.square().mean()),
    )


def _mean_product(left: Tensor, right: Tensor) -> Tensor:
    return (left * right).sum(1).mean()


def _co_correlation(net: GrowthNetwork, weight: Tensor, points: Tensor) -> float:
    slopes = net.activation.slope(points @ weight.T)
    whole = ((slopes * net.head) @ weight).square().sum(1).mean()
    return float((whole / tail_norms(weight, slopes).square().mean()).sqrt())


def _remaining_bound(net: GrowthNetwork, x: Tensor, start: Tensor) -> float:
    """Eq. 135–150: |②| and |②′| are at most M³ √((1/n) Σ_i ‖W(0)x_i‖²) each."""
    return 2 * net.activation.steepness**3 * float((x @ start.T).square().sum(1).mean().sqrt())


def _replacement_bound(net: GrowthNetwork, flow_time: float) -> float:
    """Eq. 112–134: every α_i is off by at most ε = M²√(2 log(2/δ)/m), the norms of x̃* and x̃ are at most M² and 1."""
    steep = net.activation.steepness**2
    off = steep * math.sqrt(2 * math.log(2 / _RISK) / len(net.head))
    return 2 * flow_time * (2 * off * steep + off**2)
