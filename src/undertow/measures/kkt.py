"""How nearly a network is a KKT point of the margin problem (Lyu & Li 2020; Frei et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from undertow.core.errors import InputError, ModelError
from undertow.core.losses import Loss, labels_of_classes, log_loss_gradient, prepare_labels

__all__ = ["Kkt", "kkt"]


@dataclass(frozen=True, eq=False)
class Kkt:
    """Residuals of the KKT conditions of min ½‖θ‖² such that q_i(θ) ≥ 1, all unchanged when θ is scaled.

    ``margin_gap`` > 0 says that every point is classified; without that the rest means nothing.
    """

    residual: float
    """‖θ − Σ_i λ_i ∇q_i‖/‖θ‖ for the best λ ≥ 0: 0 at a KKT point, 1 where no multipliers help."""
    slackness: float
    """Σ λ_i (q_i − q_min)/Σ λ_i q_i for the same λ: 0 when only the smallest margins carry weight."""
    misalignment: float
    """1 − cos(θ, −∇L), the part of stationarity that gradient descent's own multipliers give."""
    multipliers: Tensor
    """λ (N,), for θ scaled to norm 1."""
    margins: Tensor
    """q_i (N,), in the log domain's float64."""

    @property
    def margin_gap(self) -> float:
        return float(self.margins.min())


def kkt(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    loss: Loss = "logistic",
    parameters: Sequence[str] = (),
) -> Kkt:
    """Residuals of the KKT conditions at the network's parameters, or at those whose names begin as given.

    q_i = y_i f(x_i) for one logit, s_y − max_{j≠y} s_j otherwise, with gradients as autograd takes them at
    kinks. The λ minimise the sum of squares of both residuals, stationarity and Σ λ_i (q_i − q_min)/‖θ‖: a
    non-negative least squares problem. (With more points than parameters, stationarity alone does not determine
    them.) The misalignment uses ∇ log L, which exists however small the loss is. Everything in float64.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 1.0]]))
    >>> x, y = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([1, 1])
    >>> found = kkt(net, x, y)                                  # the hard-margin SVM: w = x₁ + x₂
    >>> round(found.residual, 6), round(found.slackness, 6), [round(v, 4) for v in found.multipliers.tolist()]
    (0.0, 0.0, [0.7071, 0.7071])
    >>> _ = net.weight.data.copy_(torch.tensor([[2.0, 1.0]]))
    >>> found = kkt(net, x, y)                                  # 2x₁ + x₂, but the margin of x₁ is not the smallest
    >>> round(found.residual, 3), round(found.slackness, 3)
    (0.149, 0.385)
    """
    net, x = deepcopy(net).double().eval(), x.double()
    named = dict(net.named_parameters())
    chosen = {n: p for n, p in named.items() if not parameters or n.startswith(tuple(parameters))}
    if not chosen:
        raise InputError(f"no parameter begins with {' or '.join(parameters)}: they are {', '.join(named)}.")
    theta = torch.cat([p.detach().flatten() for p in chosen.values()])
    size = theta.norm()
    if not size > 0:
        raise ModelError("every parameter is zero: there is no direction to test.")
    with torch.enable_grad():
        logits = net(x)
        outputs = logits.shape[-1]
        labels = prepare_labels(labels_of_classes(y, loss=loss), loss=loss, outputs=outputs, dtype=x.dtype)
        slopes = log_loss_gradient(logits.detach(), labels, loss)
        descent = torch.autograd.grad(logits, list(chosen.values()), -slopes)
    descent_flat = torch.cat([g.flatten() for g in descent])
    cosine = float(descent_flat @ theta / (descent_flat.norm() * size).clamp(min=1e-300))
    fixed = {name: p.detach() for name, p in named.items()}
    signs = labels if loss in ("logistic", "exponential") else 2 * labels - 1

    def margin(weights: dict[str, Tensor], sample: Tensor, label: Tensor) -> Tensor:
        scores: Tensor = functional_call(net, {**fixed, **weights}, (sample[None],))[0]
        if outputs == 1:
            return scores[0] * label
        own = torch.arange(outputs, device=scores.device) == label
        return (scores * own).sum() - scores.masked_fill(own, -torch.inf).amax()

    target = signs if outputs == 1 else labels
    weights = {name: p.detach() for name, p in chosen.items()}
    with torch.no_grad():
        margins = vmap(lambda s, t: margin(weights, s, t))(x, target)
    parts = zip(torch.split(x, 64), torch.split(target, 64), strict=True)
    gradients = torch.cat([_gradients(margin, weights, samples, labels) for samples, labels in parts])
    multipliers, residual = _nonnegative(gradients, theta / size, (margins - margins.min()) / size)
    weighed = float((multipliers * margins).sum())
    excess = float((multipliers * (margins - margins.min())).sum())
    slackness = excess / weighed if weighed > 0 else 1.0
    return Kkt(residual, slackness, 1 - cosine, multipliers, margins)


def _gradients(
    margin: Callable[[dict[str, Tensor], Tensor, Tensor], Tensor],
    weights: dict[str, Tensor],
    samples: Tensor,
    labels: Tensor,
) -> Tensor:
    """∇q_i of every sample, (N, P), each with its own copy of the weights (``torch.func.grad`` loads a compiler)."""
    copies = {name: p.expand(len(samples), *p.shape).clone().requires_grad_() for name, p in weights.items()}
    with torch.enable_grad():
        margins = vmap(margin)(copies, samples, labels)
        found = torch.autograd.grad(margins.sum(), list(copies.values()))
    return torch.cat([each.flatten(1) for each in found], dim=1)


def _nonnegative(gradients: Tensor, theta: Tensor, excess: Tensor) -> tuple[Tensor, float]:
    """argmin over λ ≥ 0 of ‖θ − Gᵀλ‖² + ⟨excess, λ⟩², and the first of both norms there; G is (N, P)."""
    from scipy.optimize import nnls

    # Columns of Gᵀ = Q R: ‖θ − Gᵀλ‖² = ‖Qᵀθ − Rλ‖² + what of θ is outside the span.
    Q, R = torch.linalg.qr(gradients.T)
    inside = Q.T @ theta
    rows = torch.cat([R, excess[None]]).cpu().numpy()
    goal = torch.cat([inside, inside.new_zeros(1)]).cpu().numpy()
    solved, _ = nnls(rows, goal, maxiter=30 * len(gradients))
    multipliers = torch.from_numpy(solved).to(theta)
    return multipliers, float((theta - multipliers @ gradients).norm())
