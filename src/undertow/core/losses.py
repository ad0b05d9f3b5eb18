"""Losses of logits, in the ordinary and in the log domain.

Every loss here but one is a function of one number per sample, the gap Q: how far the right answer leads.

============================  =====================================  =========================
``logistic``, ``exponential``  Q = y f(x), y in {-1, +1}              ℓ = log(1 + e^-Q), e^-Q
``bce``                        Q = (2y - 1) f(x), y in {0, 1}         ℓ = log(1 + e^-Q)
``cross-entropy``              Q = -log Σ_{j≠y} e^(s_j - s_y)         ℓ = log(1 + e^-Q)
============================  =====================================  =========================

For cross-entropy this is -log softmax_y, written so that nothing is lost when the loss is small. In terms of
Q in float64, log ℓ is exact to rounding however small ℓ is: a mean loss of 10^-881 is the number -2028.6.

``square`` has no gap: ℓ = ½‖f(x) - y‖², summed over the outputs, and averaged over the samples as the others are
(Cohen et al. 2021).

Shapes: logits (…, N, k), with k = 1 for the three one-logit losses; labels (N,) or (…, N), floating ±1 or 0/1
for one logit and int64 classes for cross-entropy, as ``prepare_labels`` gives them. For ``square`` labels are
one number per sample where k = 1, and otherwise targets (N, k) or int64 classes, which stand for their one-hot rows.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from undertow.core.errors import InputError, nearest

__all__ = [
    "Loss",
    "each_log_loss",
    "each_loss",
    "gaps",
    "labels_of_classes",
    "log_loss_gradient",
    "log_loss_of_ignorance",
    "log_loss_with_gradient",
    "log_mean_loss",
    "loss_gradient",
    "loss_with_gradient",
    "mean_loss",
    "prepare_labels",
]

Loss = Literal["logistic", "exponential", "bce", "cross-entropy", "square"]


def mean_loss(logits: Tensor, y: Tensor, loss: Loss) -> Tensor:
    """Mean loss over the samples, shape (…), in the logits' precision: what a training step lowers.

    >>> mean_loss(torch.tensor([[0.0], [0.0]]), torch.tensor([1.0, -1.0]), "logistic").item()
    0.6931471824645996
    """
    return each_loss(logits, y, loss).mean(dim=-1)


def each_loss(logits: Tensor, y: Tensor, loss: Loss) -> Tensor:
    """The loss of every sample, shape (…, N), in the logits' precision.

    >>> each_loss(torch.tensor([[0.0], [3.0]]), torch.tensor([1.0, 1.0]), "square").tolist()
    [0.5, 2.0]
    """
    if loss == "square":
        return _misses(logits, y).square().sum(dim=-1) / 2
    q = gaps(logits, y, loss)
    return torch.exp(-q) if loss == "exponential" else -functional.logsigmoid(q)


def loss_gradient(logits: Tensor, y: Tensor, loss: Loss) -> Tensor:
    """∂(mean loss)/∂logits, the shape of the logits; relatively accurate down to the smallest float.

    Entries that belong to the right class are sums of the small ones, not differences of numbers near one
    (softmax - 1 would round to 0 at Q = 17 in float32).

    >>> loss_gradient(torch.tensor([[40.0, 0.0]]), torch.tensor([0]), "cross-entropy")
    tensor([[-4.2484e-18,  4.2484e-18]])
    """
    samples = logits.shape[-2]
    if loss == "square":
        return _misses(logits, y) / samples
    if loss == "cross-entropy":
        target = _columns(y, logits)
        others = torch.softmax(logits, dim=-1).scatter(-1, target, 0.0)
        return others.scatter(-1, target, -others.sum(dim=-1, keepdim=True)) / samples
    sign = _signs(y, loss)
    q = logits.squeeze(-1) * sign
    slope = torch.exp(-q) if loss == "exponential" else torch.sigmoid(-q)
    return (slope * sign).unsqueeze(-1) / -samples


def loss_with_gradient(logits: Tensor, y: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """``mean_loss``, shape (…), and ``loss_gradient`` together; for cross-entropy in half the operations of both.

    The mean of -log softmax_y is as exact as the largest of its terms, which is what a step is watched by.

    >>> loss, gradient = loss_with_gradient(torch.tensor([[0.0, 0.0]]), torch.tensor([0]), "cross-entropy")
    >>> round(loss.item(), 4), gradient
    (0.6931, tensor([[-0.5000,  0.5000]]))
    """
    if loss != "cross-entropy":
        return mean_loss(logits, y, loss), loss_gradient(logits, y, loss)
    target = _columns(y, logits)
    log_shares = torch.log_softmax(logits, dim=-1)
    others = log_shares.exp().scatter_(-1, target, 0.0)
    slopes = others.scatter_(-1, target, others.sum(dim=-1, keepdim=True).neg_()).div_(logits.shape[-2])
    return log_shares.gather(-1, target).mean(dim=(-2, -1)).neg_(), slopes


def gaps(logits: Tensor, y: Tensor, loss: Loss) -> Tensor:
    """The gap Q of every sample, shape (…, N).

    >>> gaps(torch.tensor([[3.0, 1.0, 1.0]]), torch.tensor([0]), "cross-entropy")  # 2 - log 2
    tensor([1.3069])
    """
    if loss == "square":
        raise InputError("The loss 'square' is no function of a gap: ask for its mean_loss or loss_gradient.")
    if loss != "cross-entropy":
        return logits.squeeze(-1) * _signs(y, loss)
    target = _columns(y, logits)
    leads = logits - logits.gather(-1, target)
    return -torch.logsumexp(leads.scatter(-1, target, -math.inf), dim=-1)


def log_mean_loss(logits: Tensor, y: Tensor, loss: Loss) -> Tensor:
    """Natural logarithm of the mean loss, shape (…), in float64 and exact far below the smallest float.

    >>> log_mean_loss(torch.tensor([[2028.0]]), torch.tensor([1.0]), "logistic").item()
    -2028.0
    """
    if loss == "square":
        return mean_loss(logits.double(), y, loss).log()
    log_losses = each_log_loss(logits, y, loss)
    return torch.logsumexp(log_losses, dim=-1) - math.log(log_losses.shape[-1])


def each_log_loss(logits: Tensor, y: Tensor, loss: Loss) -> Tensor:
    """Natural logarithm of the loss of every sample, shape (…, N), in float64 and exact as ``log_mean_loss`` is.

    >>> each_log_loss(torch.tensor([[2028.0], [-1.0]]), torch.tensor([1.0, 1.0]), "exponential").tolist()
    [-2028.0, 1.0]
    """
    if loss == "square":
        return each_loss(logits.double(), y, loss).log()
    return _log_loss(gaps(logits.double(), y, loss), loss)


def log_loss_of_ignorance(loss: Loss, outputs: int) -> float:
    """Natural logarithm of the loss where all logits are zero, as the rate rules know it.

    >>> math.isclose(math.exp(log_loss_of_ignorance("cross-entropy", 10)), math.log(10))
    True
    """
    return 0.0 if loss == "exponential" else math.log(math.log(max(outputs, 2)))


def log_loss_gradient(logits: Tensor, y: Tensor, loss: Loss) -> Tensor:
    """∂ log(mean loss)/∂logits in float64, the shape of the logits: of order one however small the loss.

    ∇log L = Σ_i (ℓ_i / Σ_j ℓ_j) · (ℓ'(Q_i)/ℓ(Q_i)) · ∂Q_i/∂logits, where the first factor is a softmax of
    log-losses and the second tends to -1: nothing underflows, so a step (α/L)∇L = α ∇log L is always exact.

    >>> log_loss_gradient(torch.tensor([[2028.0]]), torch.tensor([1.0]), "logistic")
    tensor([[-1.]], dtype=torch.float64)
    """
    return log_loss_with_gradient(logits, y, loss)[1]


def log_loss_with_gradient(logits: Tensor, y: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """``log_mean_loss``, shape (…), and ``log_loss_gradient`` together, in half the operations of both.

    A training step on a GPU is made of small operations: log Σ e^v is had from the softmax that the gradient needs
    anyway, as max v − max log softmax v.
    """
    logits = logits.double()
    if loss == "square":
        mean = mean_loss(logits, y, loss)
        slopes = loss_gradient(logits, y, loss) / mean[..., None, None]
        return mean.log(), torch.where(mean[..., None, None] > 0, slopes, 0.0)
    if loss == "cross-entropy":
        target = _columns(y, logits)
        leads = (logits - logits.gather(-1, target)).scatter(-1, target, -math.inf)
        others, log_sum = _softmax_and_log_sum(leads)  # ∂Q/∂s_j = -others_j, ∂Q/∂s_y = 1
        q = -log_sum
    else:
        q = logits.squeeze(-1) * _signs(y, loss)
    # ℓ'/ℓ = -σ(-Q)/log(1 + e^-Q) for the logistic loss; beyond Q = 40 it is -1 + e^-Q/2, which is -1.
    log_sigmoid = functional.logsigmoid(q.clamp(max=40.0))
    log_losses = -q if loss == "exponential" else torch.where(q > 40.0, -q, torch.log(-log_sigmoid))
    shares, log_total = _softmax_and_log_sum(log_losses)
    towards = shares if loss == "exponential" else shares * (torch.expm1(log_sigmoid) / log_sigmoid)
    log_mean = log_total - math.log(q.shape[-1])
    if loss != "cross-entropy":
        return log_mean, -(towards * _signs(y, loss).to(logits)).unsqueeze(-1)
    return log_mean, towards.unsqueeze(-1) * others.scatter(-1, target, -1.0)


def _softmax_and_log_sum(values: Tensor) -> tuple[Tensor, Tensor]:
    """softmax and log Σ e^v over the last axis; the sum is infinite where a value is."""
    shares = torch.log_softmax(values, dim=-1)
    return shares.exp(), values.amax(dim=-1) - shares.amax(dim=-1).nan_to_num(nan=0.0)


def labels_of_classes(y: Tensor, *, loss: Loss) -> Tensor:
    """Two classes 0 and 1 as ±1 for the losses that want signs; labels for any other loss as they are.

    >>> labels_of_classes(torch.tensor([0, 1]), loss="logistic")
    tensor([-1,  1])
    """
    if loss in ("logistic", "exponential") and bool(((y == 0) | (y == 1)).all()):
        return 2 * (y if y.is_floating_point() else y.long()) - 1  # of bytes −1 would be 255
    return y


def prepare_labels(y: Tensor, *, loss: Loss, outputs: int, dtype: torch.dtype) -> Tensor:
    """Labels in the form the losses want, or a sentence that says what is wrong with them.

    >>> prepare_labels(torch.tensor([0, 1]), loss="bce", outputs=1, dtype=torch.float32)
    tensor([0., 1.])
    """
    if loss not in get_args(Loss):
        raise InputError(f"There is no loss {loss!r}: {nearest(str(loss), get_args(Loss))}")
    if loss == "square":
        return _prepare_targets(y, outputs, dtype)
    if y.dim() != 1 or y.numel() == 0:
        raise InputError(f"y has shape {tuple(y.shape)}: pass one label per sample, shape (N,) with N ≥ 1.")
    if loss == "cross-entropy":
        return _prepare_classes(y, outputs)
    if outputs != 1:
        raise InputError(
            f"The loss {loss!r} reads one logit, and the network gives {outputs}: use 'cross-entropy'."
        )
    wanted = (0.0, 1.0) if loss == "bce" else (-1.0, 1.0)
    found = torch.unique(y).tolist()
    if not set(map(float, found)) <= set(wanted):
        hint = "2 * y - 1 turns 0/1 into ±1" if loss != "bce" else "(y + 1) / 2 turns ±1 into 0/1"
        raise InputError(
            f"The loss {loss!r} wants labels {wanted[0]:g} and {wanted[1]:g}; y holds {_few(found)}: {hint}."
        )
    return y.to(dtype)


def _prepare_classes(y: Tensor, outputs: int, *, of: str = "Cross-entropy") -> Tensor:
    if outputs < 2:
        raise InputError(
            "Cross-entropy over one output is always zero: use outputs=2 or more, or the loss 'bce'."
        )
    classes = y.long()
    if y.is_floating_point() and not torch.equal(classes.to(y), y):
        raise InputError(f"{of} wants whole numbers as classes; y holds fractions.")
    if int(classes.min()) < 0 or int(classes.max()) >= outputs:
        raise InputError(
            f"{of} over {outputs} outputs wants classes 0 … {outputs - 1}; "
            f"y holds {_few(torch.unique(classes).tolist())}."
        )
    return classes


def _prepare_targets(y: Tensor, outputs: int, dtype: torch.dtype) -> Tensor:
    if y.numel() > 0 and y.shape[1:] == (outputs,):
        return y.to(dtype).squeeze(-1) if outputs == 1 else y.to(dtype)
    if y.dim() != 1 or y.numel() == 0:
        raise InputError(
            f"y has shape {tuple(y.shape)}: for {outputs} outputs the loss 'square' wants targets (N, {outputs}) "
            "or one label per sample, (N,)."
        )
    return y.to(dtype) if outputs == 1 else _prepare_classes(y, outputs, of="The square loss")


def _misses(logits: Tensor, y: Tensor) -> Tensor:
    """f(x) - y, the shape of the logits."""
    if logits.shape[-1] == 1:
        return logits - y.unsqueeze(-1)
    if y.is_floating_point():
        return logits - y
    return logits - functional.one_hot(y, logits.shape[-1]).to(logits)


def _log_loss(q: Tensor, loss: Loss) -> Tensor:
    """log ℓ(Q). For the logistic loss beyond Q = 40, log log(1 + e^-Q) = -Q - e^-Q/2 + …, which is -Q."""
    if loss == "exponential":
        return -q
    return torch.where(q > 40.0, -q, torch.log(-functional.logsigmoid(q.clamp(max=40.0))))


def _signs(y: Tensor, loss: Loss) -> Tensor:
    return 2 * y - 1 if loss == "bce" else y


def _columns(y: Tensor, logits: Tensor) -> Tensor:
    return y.expand(logits.shape[:-1]).unsqueeze(-1)


def _few(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values[:6]) + (", …" if len(values) > 6 else "")
