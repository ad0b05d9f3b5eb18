"""The feature-averaging paper's attack: a straight line against one class's centres and towards the other's."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from undertow.adversary.attacks.line import first_crossing
from undertow.core.errors import ModelError
from undertow.measures.feature_steps import two_layer_parts
from undertow.theory.feature_averaging import averaged_direction

__all__ = ["AveragedLine", "along_average", "averaged_radii"]


@dataclass(frozen=True, eq=False)
class AveragedLine:
    """A two-layer network along the attack on each point: Σ_r a_r ReLU(⟨w_r, x_i⟩ + t g_ir + b_r) after a length t.

    ``hidden`` ⟨w_r, x_i⟩ and ``slopes`` g are (N, m), ``head`` a and ``bias`` b (m,), ``sign`` (N,) is ±1.
    """

    hidden: Tensor
    slopes: Tensor
    head: Tensor
    bias: Tensor
    sign: Tensor


def along_average(net: nn.Module, x: Tensor, y: Tensor, centres: Tensor, signs: Tensor) -> AveragedLine:
    """The network along −y (Σ_{J₊} μ_j − Σ_{J₋} μ_j), normalised; y is 0 or 1, of the two classes.

    A network with one output for each cluster is read out as Σ_{J₊} f_j − Σ_{J₋} f_j.
    """
    parts = two_layer_parts(net)
    centres, signs = centres.to(parts.weight), signs.to(parts.weight)
    if len(parts.head) not in (1, len(signs)):
        raise ModelError(
            f"the network has {len(parts.head)} outputs: the averaged direction is about one logit, or one output for "
            f"each of the {len(signs)} clusters."
        )
    head = parts.head[0] if len(parts.head) == 1 else signs @ parts.head
    sign = (2 * y - 1).to(parts.weight)
    slopes = -sign[:, None] * (parts.weight @ averaged_direction(centres, signs))[None]
    return AveragedLine(x.flatten(1).to(parts.weight) @ parts.weight.T, slopes, head, parts.bias, sign)


def averaged_radii(net: nn.Module, x: Tensor, y: Tensor, centres: Tensor, signs: Tensor) -> Tensor:
    """How far each point's decision survives along the averaged direction, (N,): exact, inf where for ever.

    >>> import torch
    >>> from undertow.theory.feature_averaging import grouped_network
    >>> mu, signs = 2 * torch.eye(4), torch.tensor([1, 1, -1, -1])       # d = k = 4
    >>> averaged = grouped_network(mu, signs, group=2, threshold=0.0)
    >>> averaged_radii(averaged, mu, torch.tensor([1, 1, 0, 0]), mu, signs).tolist()        # √(d/k)
    [1.0, 1.0, 1.0, 1.0]
    """
    line = along_average(net, x, y, centres, signs)
    return first_crossing(line.hidden + line.bias, line.slopes, line.head * line.sign[:, None])
