"""The KKT network of clustered data, exactly (after Frei, Vardi, Bartlett & Srebro 2023).

Networks f(x) = Σ_r v_r σ(⟨w_r, x⟩ + b_r) with fixed v_r = ±v that gradient descent trains to zero loss converge in
direction to a KKT point of

    min ½ Σ_r (‖w_r‖² + b_r²)   such that   y_i f(x_i) ≥ 1 for all i,

that is, w_r = v_r Σ_i λ_i y_i g_ir x_i and b_r = v_r Σ_i λ_i y_i g_ir with λ_i ≥ 0, zero where y_i f(x_i) > 1, and
g_ir a subgradient of σ: 1 where the neuron is active, 0 where it is not, anything between at the kink.

For points that *are* k orthogonal centres of norm √d, K₊ positive and K₋ negative, there is one in closed form.
A positive neuron is active on every positive centre. A negative centre can neither be active (its own term −λd
would switch it off) nor inactive (the bias Σλ > 0 would switch it on): it sits exactly at the kink, where

    λ₋ g₊ (d + K₋) = K₊ λ₊,      λ₊ · (h v²) · (d + K₊ − K₊K₋/(d + K₋)) = 1,      h neurons of each sign,

and likewise with the signs exchanged. So w₊ ∝ Σ_{+} μ_j − γ Σ_{−} μ_l with a small γ: averaged features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.core.errors import InputError
from undertow.core.shown import Shown

__all__ = ["KktNetworkResult", "kkt_network", "universal_direction", "universal_radius"]


@dataclass(frozen=True, eq=False)
class KktNetworkResult(Shown):
    """A KKT point of the margin problem on the centres themselves: one neuron of each sign, repeated ``copies`` times.

    ``weight`` (2, D), ``bias`` (2,) and ``head`` (2,) list the positive neuron first. ``multipliers`` (k,) are
    the λ of the centres, ``subgradients`` (2, k) the g of neuron and centre.
    """

    weight: Tensor
    bias: Tensor
    head: Tensor
    copies: int
    multipliers: Tensor
    subgradients: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """f of every row of x, shape (N,)."""
        return self.copies * torch.relu(x.to(self.weight) @ self.weight.T + self.bias) @ self.head


def kkt_network(centres: Tensor, signs: Tensor, *, copies: int = 1, head: float = 1.0) -> KktNetworkResult:
    """The KKT network of orthogonal centres (k, D), all of one norm, with signs ±1 and v_r = ±``head``.

    >>> net = kkt_network(10.0 * torch.eye(4), torch.tensor([1, 1, -1, -1]))
    >>> net(10.0 * torch.eye(4)).round(decimals=9).tolist()   # every margin is exactly 1
    [1.0, 1.0, -1.0, -1.0]
    >>> (net.multipliers > 0).all().item(), ((net.subgradients >= 0) & (net.subgradients <= 1)).all().item()
    (True, True)
    """
    mu, sign = centres.double(), signs.to(centres.device)
    square = float((mu[0] * mu[0]).sum())
    gram = mu @ mu.T
    if not torch.allclose(gram, square * torch.eye(len(mu)).to(gram), atol=1e-6 * square):
        raise InputError("the centres must be orthogonal and of one norm; see data.cluster_centres.")
    counts = {s: int((sign == s).sum()) for s in (1, -1)}
    if not all(counts.values()):
        raise InputError("the centres all have one sign: a classifier needs both.")
    rates = {}
    for s in (1, -1):
        own, other = counts[s], counts[-s]
        rates[s] = 1 / (copies * head**2 * (square + own - own * other / (square + other)))
    multipliers = torch.full_like(mu[:, 0], rates[1]).masked_fill(sign < 0, rates[-1])
    subgradients = torch.ones(2, len(mu)).to(mu)
    for row, s in enumerate((1, -1)):
        subgradients[row, sign == -s] = counts[s] * rates[s] / (rates[-s] * (square + counts[-s]))
    if float(subgradients.max()) > 1:
        raise InputError(
            "the classes are too unequal for this closed form: a subgradient exceeds 1; raise d."
        )
    sides = mu.new_tensor([head, -head])
    pulls = sides[:, None] * (multipliers * sign)[None, :] * subgradients
    return KktNetworkResult(pulls @ mu, pulls.sum(1), sides, copies, multipliers, subgradients)


def universal_direction(centres: Tensor, signs: Tensor) -> Tensor:
    """Σ_j y_j μ_j, as a unit vector: moving against it (for y = +1) flips every point alike, whatever its cluster.

    >>> universal_direction(torch.eye(2), torch.tensor([1, -1]))
    tensor([ 0.7071, -0.7071])
    """
    direction = (signs.to(centres)[:, None] * centres).sum(0)
    unit: Tensor = direction / direction.norm()
    return unit


def universal_radius(k: int, *, d: float) -> float:
    """√(d/k): how far along the universal direction the boundary of the KKT network lies, to leading order.

    At a positive centre moved by −η Σ_j y_j μ_j the positive neurons fall as d(1 − ηK₊), the negative ones rise
    from their kink as ηdK₋: equal at η = 1/k, a move of length η√(kd).

    >>> round(universal_radius(10, d=3072), 2)
    17.53
    """
    return math.sqrt(d / k)
