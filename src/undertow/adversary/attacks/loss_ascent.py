"""Plain PGD on a network's own training loss, judged by whoever asks (Madry et al. 2018).

Attacks in this package seek a wrong *decision*. This one climbs the loss that the network was trained on and stops
at the last step, as experiments in papers do: a network with ten classes is pushed away from its class, whether
or not a read-out of two classes changes with it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from undertow.adversary.attacks.search import generator
from undertow.core.losses import Loss, log_loss_gradient, prepare_labels

__all__ = ["ascend_loss"]


def ascend_loss(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    loss: Loss,
    eps: float,
    steps: int = 40,
    bounds: tuple[float, float] | None = None,
    seed: int = 0,
) -> Tensor:
    """The last point of PGD-L2 on the loss from a random start in the ball of radius ε, in ``bounds`` where given.

    Steps of 2.5 ε/steps along the normalised gradient, which is exact however small the loss is. The labels
    are what the loss wants: 0/1 for "bce", ±1 for "logistic", classes for "cross-entropy".

    >>> net = nn.Linear(2, 1, bias=False)
    >>> _ = nn.init.ones_(net.weight)
    >>> moved = ascend_loss(net, torch.ones(1, 2), torch.tensor([1.0]), loss="bce", eps=2**0.5)
    >>> moved.round(decimals=1).abs().tolist()
    [[0.0, 0.0]]
    """
    rows = x.detach()
    noise = torch.randn(rows.shape, generator=generator(seed, "ascent"), dtype=torch.float64).to(rows)
    share = torch.rand(len(rows), generator=generator(seed, "length"), dtype=torch.float64).to(rows)
    moved = _inside(rows, rows + eps * share.view(-1, *[1] * (rows.ndim - 1)) * _unit(noise), eps, bounds)
    labels = None
    for _ in range(steps):
        point = moved.detach().requires_grad_()
        with torch.enable_grad():
            logits = net(point)
            if labels is None:
                labels = prepare_labels(y, loss=loss, outputs=logits.shape[-1], dtype=logits.dtype)
            # Each sample by itself: the gradient of the log of its loss has the same direction and never vanishes.
            slopes = log_loss_gradient(logits.detach().unsqueeze(-2), labels.unsqueeze(-1), loss).squeeze(-2)
            (uphill,) = torch.autograd.grad(logits, point, slopes.to(logits))
        moved = _inside(rows, moved + 2.5 * eps / steps * _unit(uphill), eps, bounds)
    return moved.detach()


def _unit(vectors: Tensor) -> Tensor:
    return vectors / _lengths(vectors).clamp(min=1e-30)


def _lengths(vectors: Tensor) -> Tensor:
    sizes: Tensor = torch.linalg.vector_norm(vectors.flatten(1), dim=1)
    return sizes.view(-1, *[1] * (vectors.ndim - 1))


def _inside(x: Tensor, moved: Tensor, eps: float, bounds: tuple[float, float] | None) -> Tensor:
    """Back into the ball, then into the box: moving toward the box's points never leaves a ball around one of them."""
    delta = moved - x
    moved = x + delta * (eps / _lengths(delta).clamp(min=eps))
    return moved if bounds is None else moved.clamp(*bounds)
