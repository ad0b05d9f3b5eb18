"""Theorem 5.3 of Wang, Min & Ruan (2024): the growth of ϱ = ‖aᵀW‖/‖W‖₂ in a linear network f(x) = aᵀWx."""

from __future__ import annotations

import torch
from torch import Tensor

from undertow.theory.growth_network import GrowthNetwork
from undertow.theory.growth_terms import GrowthResult, HeadAndTop, relative_change, terms
from undertow.theory.top_vectors import tail_norms, top_vectors

__all__ = ["error_weighted_input", "linear_growth"]


def error_weighted_input(net: GrowthNetwork, x: Tensor, y: Tensor) -> Tensor:
    """x̃ = (1/n) Σ_i (y_i − sig(u_i)) x_i with u_i = f(x_i) (Eq. 17): shape (d,).

    >>> from undertow.core.activations import LINEAR
    >>> net = GrowthNetwork(torch.zeros(3, 2), torch.ones(3), LINEAR, linear=True)
    >>> error_weighted_input(net, torch.eye(2), torch.tensor([1.0, 0.0]))
    tensor([ 0.2500, -0.2500])
    """
    return net.errors(x, y) @ x / len(x)


def linear_growth(
    net: GrowthNetwork, x: Tensor, y: Tensor, *, start: Tensor, learning_rate: float
) -> GrowthResult:
    """The rate of ϱ at W (m, d) and the theorem's terms, with W(0) = ``start`` and ‖a‖₂ = 1.

    With c = aᵀv, v the top left singular vector of W, the main term (Eq. 19) is

        (1 − c²) η Σ_τ x̃(τ)ᵀx̃(t) / ‖W‖₂²,   η Σ_τ x̃(τ)ᵀ = aᵀ(W(t) − W(0)),

    and the remaining one (a − cv)ᵀW(0)x̃ / ‖W‖₂². The proof bounds its numerator by (1/n) Σ_i ‖W(0)x_i‖ (Eq. 80), which
    is near m^-q (Lemma B.2); the theorem then prints that without the 1/‖W‖₂², which is of the order of m^(2q).

    >>> from undertow.core.activations import LINEAR
    >>> x, y, a = torch.eye(2).double(), torch.tensor([1.0, 0.0]).double(), torch.tensor([1.0, 0.0]).double()
    >>> net = GrowthNetwork(torch.outer(a, a), a, LINEAR, linear=True)  # aligned, with nowhere to grow
    >>> growth = linear_growth(net, x, y, start=0 * net.weight, learning_rate=0.1)
    >>> growth.co_correlation, growth.main
    (1.0, 0.0)
    """
    weight, head = net.weight, net.head
    error_input = error_weighted_input(net, x, y)
    everywhere = torch.ones_like(head)[None]  # D = 1, whatever the point
    top = top_vectors(weight, everywhere, head)
    vector, towards = top.left[0], top.towards[0]
    whole, tail = head @ weight, vector @ weight
    moved = weight - start
    main = (1 - towards.square()) * (head @ moved @ error_input)
    found = terms(
        energy=HeadAndTop(whole @ whole, tail @ tail),
        moved=HeadAndTop(head @ moved @ error_input, towards * (vector @ moved @ error_input)),
        started=HeadAndTop(head @ start @ error_input, towards * (vector @ start @ error_input)),
        bent=HeadAndTop(torch.zeros_like(main), torch.zeros_like(main)),
        main=main,
        printed=main,
    )
    after = weight + learning_rate * torch.outer(head, error_input)
    stepped = (head @ after).norm() / tail_norms(after, everywhere)[0]
    return GrowthResult(
        **found,
        measured=relative_change(found["co_correlation"], float(stepped), learning_rate),
        remaining_bound=float((x @ start.T).norm(dim=1).mean()) / found["norm"],
        replacement_bound=0.0,
        alignment=float(towards.square()),
    )
