"""Losses against exact arithmetic, and their gradients against autograd."""

from __future__ import annotations

import decimal
from decimal import Decimal

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from undertow.core.errors import InputError
from undertow.core.losses import gaps, prepare_labels
from undertow.training import Loss, log_loss_gradient, log_mean_loss, loss_gradient, mean_loss

LOSSES: list[Loss] = ["logistic", "exponential", "bce", "cross-entropy"]


def case(loss: Loss, *, scale: float = 2.0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Logits (2, 7, k) of two members and labels that both share."""
    generator = torch.Generator().manual_seed(3)
    k = 4 if loss == "cross-entropy" else 1
    logits = scale * torch.randn(2, 7, k, generator=generator, dtype=dtype)
    raw = torch.randint(0, max(k, 2), (7,), generator=generator)
    return logits, prepare_labels(
        2 * raw - 1 if loss in ("logistic", "exponential") else raw, loss=loss, outputs=k, dtype=dtype
    )


def textbook(logits: Tensor, y: Tensor, loss: Loss) -> Tensor:
    """Mean loss of one member from torch's own functions."""
    if loss == "cross-entropy":
        return functional.cross_entropy(logits, y)
    f = logits.squeeze(-1)
    if loss == "bce":
        return functional.binary_cross_entropy_with_logits(f, y)
    return torch.exp(-y * f).mean() if loss == "exponential" else torch.log1p(torch.exp(-y * f)).mean()


def exact_log(logits: Tensor, y: Tensor, loss: Loss) -> float:
    """log of the mean loss of one member in 100 digits."""
    with decimal.localcontext(decimal.Context(prec=100)):
        losses = []
        for row, label in zip(logits.tolist(), y.tolist(), strict=True):
            values = [Decimal(value) for value in row]
            if loss == "cross-entropy":
                small = sum(
                    ((s - values[label]).exp() for j, s in enumerate(values) if j != label), Decimal(0)
                )
            else:
                small = (-values[0] * int(2 * label - 1 if loss == "bce" else label)).exp()
            series = small - small**2 / 2  # log(1 + t) for t < 1e-50, to 100 digits
            losses.append(small if loss == "exponential" else series if small < 1e-50 else (1 + small).ln())
        return float((sum(losses, Decimal(0)) / len(losses)).ln())


@pytest.mark.parametrize("loss", LOSSES)
def test_mean_loss_and_gradient_are_those_of_autograd(loss: Loss) -> None:
    logits, y = case(loss)
    for member in range(2):
        leaf = logits[member].clone().requires_grad_()
        value = textbook(leaf, y, loss)
        (expected,) = torch.autograd.grad(value, leaf)
        torch.testing.assert_close(mean_loss(logits, y, loss)[member], value.detach(), rtol=1e-12, atol=0)
        torch.testing.assert_close(loss_gradient(logits, y, loss)[member], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_of_the_logarithm(loss: Loss) -> None:
    logits, y = case(loss)
    leaf = logits[0].clone().requires_grad_()
    (expected,) = torch.autograd.grad(textbook(leaf, y, loss).log(), leaf)
    torch.testing.assert_close(log_loss_gradient(logits, y, loss)[0], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-3, 3.0, 25.0, 60.0, 3000.0])
def test_logarithm_is_exact_at_every_size(loss: Loss, scale: float) -> None:
    logits, y = case(loss, scale=scale)
    expected = torch.tensor([exact_log(member, y, loss) for member in logits], dtype=torch.float64)
    torch.testing.assert_close(log_mean_loss(logits, y, loss), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("gap", [-800.0, -21.0, -1e-9, 0.0, 14.0, 22.0, 36.0, 39.9, 40.1, 745.0, 1e4])
def test_logarithm_is_exact_on_both_sides_of_every_branch(gap: float) -> None:
    logits, y = torch.tensor([[gap]], dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    expected = exact_log(logits, y, "logistic")
    assert float(log_mean_loss(logits, y, "logistic")) == pytest.approx(expected, rel=1e-15, abs=1e-15)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_of_1e_minus_881_has_a_logarithm_and_a_gradient(loss: Loss) -> None:
    logits, y = case(loss)
    q = 881 * float(torch.log(torch.tensor(10.0, dtype=torch.float64)))
    if loss == "cross-entropy":
        logits = functional.one_hot(y, 4).double() * (q + float(torch.tensor(3.0).double().log()))
    else:
        logits = (q * (2 * y - 1 if loss == "bce" else y)).unsqueeze(-1)
    assert float(log_mean_loss(logits, y, loss)) / float(
        torch.log(torch.tensor(10.0).double())
    ) == pytest.approx(-881, rel=1e-12)
    gradient = log_loss_gradient(logits, y, loss)
    right = gradient.gather(-1, y.unsqueeze(-1)) if loss == "cross-entropy" else gradient
    torch.testing.assert_close(right.abs(), torch.full_like(right, 1 / len(y)))  # equal gaps: equal shares
    assert float(loss_gradient(logits, y, loss).abs().max()) == 0  # what the ordinary gradient has left


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("as_targets", [False, True])
def test_the_square_loss_is_half_the_sum_over_outputs(outputs: int, as_targets: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 7, outputs, generator=generator, dtype=torch.float64)
    raw = torch.randint(0, 3, (7,), generator=generator)
    targets = functional.one_hot(raw, 3).double() if outputs == 3 else raw.double()[:, None]
    y = prepare_labels(targets if as_targets else raw, loss="square", outputs=outputs, dtype=torch.float64)
    for member in range(2):
        leaf = logits[member].clone().requires_grad_()
        value = functional.mse_loss(leaf, targets, reduction="sum") / 14
        (slope,) = torch.autograd.grad(value, leaf, retain_graph=True)
        (log_slope,) = torch.autograd.grad(value.log(), leaf)
        torch.testing.assert_close(mean_loss(logits, y, "square")[member], value.detach())
        torch.testing.assert_close(log_mean_loss(logits, y, "square")[member], value.detach().log())
        torch.testing.assert_close(loss_gradient(logits, y, "square")[member], slope)
        torch.testing.assert_close(log_loss_gradient(logits, y, "square")[member], log_slope)
    with pytest.raises(InputError, match="no function of a gap"):
        gaps(logits, y, "square")
    with pytest.raises(InputError, match="square"):
        prepare_labels(torch.zeros(7, 2), loss="square", outputs=outputs, dtype=torch.float64)
    with pytest.raises(InputError, match=r"classes 0 … 1"):
        prepare_labels(torch.tensor([0, 5]), loss="square", outputs=2, dtype=torch.float64)


def test_small_gradients_survive_in_float32() -> None:
    """softmax - 1 is 0 at a gap of 30 in float32; the right value is -e^-30."""
    gradient = loss_gradient(torch.tensor([[30.0, 0.0]]), torch.tensor([0]), "cross-entropy")
    torch.testing.assert_close(gradient, torch.tensor([[-9.3576e-14, 9.3576e-14]]), rtol=1e-4, atol=0)


def test_labels_that_do_not_fit_are_refused_with_a_remedy() -> None:
    zeros_ones, signs = torch.tensor([0, 1]), torch.tensor([-1, 1])
    with pytest.raises(InputError, match="2 \\* y - 1"):
        prepare_labels(zeros_ones, loss="logistic", outputs=1, dtype=torch.float32)
    with pytest.raises(InputError, match="\\(y \\+ 1\\) / 2"):
        prepare_labels(signs, loss="bce", outputs=1, dtype=torch.float32)
    with pytest.raises(InputError, match="use 'cross-entropy'"):
        prepare_labels(zeros_ones, loss="bce", outputs=2, dtype=torch.float32)
    with pytest.raises(InputError, match=r"classes 0 … 1; y holds 0, 5"):
        prepare_labels(torch.tensor([0, 5]), loss="cross-entropy", outputs=2, dtype=torch.float32)
    with pytest.raises(InputError, match="fractions"):
        prepare_labels(torch.tensor([0.5, 1.0]), loss="cross-entropy", outputs=2, dtype=torch.float32)
    with pytest.raises(InputError, match="always zero"):
        prepare_labels(zeros_ones, loss="cross-entropy", outputs=1, dtype=torch.float32)
    with pytest.raises(InputError, match="did you mean 'logistic'"):
        prepare_labels(signs, loss="logistics", outputs=1, dtype=torch.float32)  # type: ignore[arg-type]
