"""The trace of a loss's Hessian or Gauss–Newton matrix, with an interval that holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.precision import matmul_precision
from undertow.core.status import Status
from undertow.curvature.curvature_products import CurvatureMatrix, CurvatureProducts
from undertow.curvature.hessian_sharpness import curvature_products
from undertow.curvature.loss_over_samples import CurvatureLoss
from undertow.curvature.product_rounding import ROUNDING_SAFETY, rounding_on_a_share

__all__ = ["TraceResult", "hessian_trace"]


@dataclass(frozen=True)
class TraceResult:
    """tr H = Σ λ_i, at most ``error`` away from ``value`` with a probability of at least 1 − ``risk``.

    ``rounding`` is the part of the error that is rounding; with status ``exact`` there is no other.
    """

    value: float
    error: float
    status: Status
    risk: float
    rounding: float
    products: int
    matrix: CurvatureMatrix


@matmul_precision("float32")
def hessian_trace(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    loss: CurvatureLoss,
    probes: int = 120,
    rtol: float = 0.1,
    risk: float = 0.01,
    generator: torch.Generator | None = None,
    **options: Any,
) -> TraceResult:
    """Trace of ∇²L(w) by Hutch++: tr H = tr QᵀHQ + E gᵀAg with A = (I − QQᵀ)H(I − QQᵀ).

    (Meyer, Musco, Musco & Woodruff 2021.) A quarter of the products finds a basis Q of directions in which H is large,
    a quarter takes its trace there, and the rest are n Gaussian probes g of what remains. Of these (Laurent & Massart
    2000, Lemma 1), with probability 1 − 3e⁻ᵗ,

        |mean gᵀAg − tr A| ≤ 2‖A‖_F (√(t/n) + t/n)   and   ‖A‖_F² (1 − 2√(t/n)) ≤ mean ‖Ag‖² ,

    so the interval comes from the products themselves. A matrix of no more than ``probes`` columns is taken whole.

    Args:
        net, x, y, loss: As in :func:`undertow.sharpness`, and so are ``matrix``, ``reduction``, ``parameters``,
            ``dtype``, ``chunk`` and ``memory_budget``.
        probes: How many products in all.
        rtol: Error relative to the value up to which the status is ``converged``.
        risk: Allowed probability that the interval misses the trace.
        generator: Where the vectors are drawn from; by default a fixed seed.

    >>> net = nn.Linear(2, 1, bias=False)      # the Hessian is (1/N) Σ x xᵀ
    >>> x = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> round(hessian_trace(net, x, torch.zeros(2), loss="square").value, 6)
    2.5
    """
    if not 0 < risk < 1:
        raise InputError(f"risk = {risk} must be in (0, 1).")
    tail = math.log(3 / risk)
    if probes // 2 <= 4 * tail:
        raise InputError(
            f"{probes} probes prove nothing at a risk of {risk:g}: take {2 * math.ceil(4 * tail) + 2} or more."
        )
    drawing = generator or torch.Generator().manual_seed(0)
    with curvature_products([net], x, y, loss=loss, **options) as (products, _):
        if products.size <= probes:
            return _whole(_double(products), rtol)
        begin = drawing.get_state()
        found = _estimated(products, probes, rtol, risk, tail, drawing)
        if products.dtype is not torch.float64 and not 2 * found.rounding <= found.error:
            drawing.set_state(begin)
            found = _estimated(_double(products), probes, rtol, risk, tail, drawing)
        return found


def _double(products: CurvatureProducts) -> CurvatureProducts:
    return products if products.dtype is torch.float64 else products.in_float64()


def _whole(products: CurvatureProducts, rtol: float) -> TraceResult:
    identity = torch.eye(products.size, dtype=products.dtype, device=products.device)
    value = math.fsum(products.several(identity).diagonal().double().tolist())
    return _result(value, 0.0, _rounding(products, identity.sum(0)), 0.0, rtol, products, Status.EXACT)


def _estimated(
    products: CurvatureProducts, probes: int, rtol: float, risk: float, tail: float, drawing: torch.Generator
) -> TraceResult:
    def drawn(count: int) -> Tensor:
        vectors = torch.randn(
            count, products.size, generator=drawing, dtype=torch.float64, device=drawing.device
        )
        return vectors.to(dtype=products.dtype, device=products.device)

    few = probes // 4
    images = products.several(drawn(few))
    images = images / images.abs().amax().clamp_min(torch.finfo(images.dtype).tiny)
    basis = torch.linalg.qr(images.nan_to_num().T).Q
    within = math.fsum(_dots(basis.T, products.several(basis.T)))
    count = probes - 2 * few
    probing = _rest(basis, drawn(count))
    images = products.several(probing)
    forms = _dots(probing, images)
    lengths = torch.linalg.vector_norm(_rest(basis, images), dim=1, dtype=torch.float64)
    squares = lengths.square().tolist()
    ratio = tail / count
    frobenius = math.sqrt(math.fsum(squares) / count / (1 - 2 * math.sqrt(ratio)))
    spread = 2 * frobenius * (math.sqrt(ratio) + ratio)
    value = within + math.fsum(forms) / count
    return _result(value, spread, _rounding(products, drawn(1)[0]), risk, rtol, products, Status.CONVERGED)


def _rounding(products: CurvatureProducts, vector: Tensor) -> float:
    """|tr E| ≤ √P ‖E‖_F for what rounding does to the matrix, ‖E‖_F from one product with and without noise."""
    length = rounding_on_a_share(products, vector[None], 0, image=products(vector[None]))
    return ROUNDING_SAFETY * math.sqrt(products.size) * float(length)


def _result(
    value: float,
    spread: float,
    rounding: float,
    risk: float,
    rtol: float,
    products: CurvatureProducts,
    good: Status,
) -> TraceResult:
    error = spread + rounding
    if not math.isfinite(value + error):
        error, status = math.inf, Status.ROUNDING
    elif rounding > rtol * abs(value):
        status = Status.ROUNDING
    else:
        status = good if error <= rtol * abs(value) else Status.MAX_STEPS
    return TraceResult(value, error, status, risk, rounding, products.products, products.matrix)


def _rest(basis: Tensor, vectors: Tensor) -> Tensor:
    """The rows less what they have of the basis's columns."""
    for _ in range(2):
        vectors = vectors - (vectors @ basis) @ basis.T
    return vectors


def _dots(left: Tensor, right: Tensor) -> list[float]:
    found: list[float] = (left * right).sum(1, dtype=torch.float64).tolist()
    return found
