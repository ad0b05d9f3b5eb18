"""The trace of a loss's Hessian or Gauss–Newton matrix, with an interval that holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.outputs import OutputChoice
from undertow.core.precision import matmul_precision
from undertow.core.shown import Shown
from undertow.core.status import Status
from undertow.curvature.curvature_products import CurvatureMatrix, CurvatureProducts
from undertow.curvature.hessian_sharpness import curvature_products
from undertow.curvature.loss_over_samples import CurvatureLoss, Reduction
from undertow.curvature.product_rounding import ROUNDING_SAFETY, rounding_on_a_share

__all__ = ["TraceResult", "hessian_trace"]

_MOST = 1920  # probes, sixteen times as many as at first


@dataclass(frozen=True)
class TraceResult(Shown):
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
    max_probes: int | None = None,
    rtol: float = 0.1,
    risk: float = 0.01,
    matrix: CurvatureMatrix = "hessian",
    reduction: Reduction = "mean",
    parameters: Iterable[str] | None = None,
    dtype: torch.dtype | None = None,
    chunk: int | None = None,
    memory_budget: int | None = None,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
    generator: torch.Generator | None = None,
) -> TraceResult:
    """Trace of ∇²L(w) by Hutch++: tr H = tr QᵀHQ + E gᵀAg with A = (I − QQᵀ)H(I − QQᵀ).

    (Meyer, Musco, Musco & Woodruff 2021.) A quarter of the products finds a basis Q of directions in which H is large,
    a quarter takes its trace there, and the rest are n Gaussian probes g of what remains. Of these (Laurent & Massart
    2000, Lemma 1), with probability 1 − 3e⁻ᵗ,

        |mean gᵀAg − tr A| ≤ 2‖A‖_F (√(t/n) + t/n)   and   ‖A‖_F² (1 − 2√(t/n)) ≤ mean ‖Ag‖² ,

    so the interval comes from the products themselves. Until it is as short as ``rtol`` asks, twice as many follow: the
    basis grows, and probes are drawn anew. The risk is shared out among all these looks. A matrix of no more columns
    than products is taken whole.

    Args:
        net, x, y, loss, matrix, reduction, parameters, dtype, chunk, output, extras: As in :func:`undertow.sharpness`.
        probes: How many products at first.
        max_probes: Up to how many at once the number is doubled, by default 1,920; those of all looks are at most twice
            as many.
        rtol: Error relative to the value that is asked for.
        risk: Allowed probability that the interval misses the trace.
        memory_budget: Bytes for graphs, and for the basis; a basis that is cut short makes probes do more of the work.
        generator: Where the vectors are drawn from; by default a fixed seed.

    >>> net = nn.Linear(2, 1, bias=False)      # the Hessian is (1/N) Σ x xᵀ
    >>> x = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> round(hessian_trace(net, x, torch.zeros(2), loss="square").value, 6)
    2.5
    """
    if not 0 < risk < 1:
        raise InputError(f"risk = {risk} must be in (0, 1).")
    if not 0 < rtol < math.inf:
        raise InputError(f"rtol = {rtol} must be positive.")
    if max_probes is not None and max_probes < probes:
        raise InputError(
            f"max_probes = {max_probes} is less than the {probes} probes to begin with: raise it."
        )
    most = max(probes, _MOST) if max_probes is None else max_probes
    looks = 1 + int(math.log2(most / probes)) if probes > 0 else 1
    tail = math.log(3 * looks / risk)
    if probes // 2 <= 4 * tail:
        raise InputError(
            f"{probes} probes prove nothing at a risk of {risk:g}: take {2 * math.ceil(4 * tail) + 2} or more."
        )
    drawing = generator or torch.Generator().manual_seed(0)
    options: dict[str, Any] = {
        "matrix": matrix,
        "reduction": reduction,
        "parameters": parameters,
        "dtype": dtype,
    }
    options |= {"chunk": chunk, "memory_budget": memory_budget, "output": output, "extras": extras}
    goal = _Goal(probes, looks, rtol, risk, tail)
    with curvature_products([net], x, y, loss=loss, **options) as (products, _):
        if products.size <= probes:
            return _whole(_double(products), rtol)
        begin = drawing.get_state()
        found = _estimated(products, goal, drawing)
        if products.dtype is not torch.float64 and not 2 * found.rounding < found.error:
            drawing.set_state(begin)
            found = _estimated(_double(products), goal, drawing)
        return found


@dataclass(frozen=True)
class _Goal:
    """How many products at the first of how many looks; ``tail`` is t of one look."""

    probes: int
    looks: int
    rtol: float
    risk: float
    tail: float


def _double(products: CurvatureProducts) -> CurvatureProducts:
    return products if products.dtype is torch.float64 else products.in_float64()


def _whole(products: CurvatureProducts, rtol: float) -> TraceResult:
    identity = torch.eye(products.size, dtype=products.dtype, device=products.device)
    value = math.fsum(products.several(identity).diagonal().double().tolist())
    # At random: the sum of all columns may be zero, as that of a softmax is, and would show no rounding.
    vector = torch.randn(products.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return _result(value, 0.0, _rounding(products, vector.to(identity)), 0.0, rtol, products, Status.EXACT)


def _estimated(products: CurvatureProducts, goal: _Goal, drawing: torch.Generator) -> TraceResult:
    rest = _Rest(products, drawing)
    rounding: float | None = None
    for look in range(goal.looks):
        probes = goal.probes * 2**look
        if products.size <= probes:
            return _whole(_double(products), goal.rtol)
        rest.widen(probes // 4)
        value, spread = rest.measured(probes - 2 * (probes // 4), goal.tail)
        if rounding is None:
            rounding = _rounding(products, rest.drawn(1)[0])
        good = Status.CONVERGED
        found = _result(value, spread, rounding, goal.risk, goal.rtol, products, good)
        if found.status is not Status.MAX_STEPS or 2 * rounding >= found.error:
            break
    return found


class _Rest:
    """The directions Q (q, P) in which the matrix is large, its trace there, and probes of the rest of it.

    Vectors are made a few at a time, as many as memory allows, and drawn one by one, so that the result does not
    depend on how many that are.
    """

    def __init__(self, products: CurvatureProducts, drawing: torch.Generator) -> None:
        self.products, self.drawing = products, drawing
        self.basis: list[Tensor] = []
        self.within: list[float] = []
        vector = products.size * products.dtype.itemsize
        room = products.budget // vector
        self.block = min(max(1, room // 8), 32)
        self.most = max(1, room // 2)

    def widen(self, count: int) -> None:
        """Up to ``count`` directions, if there is room for them."""
        known = sum(map(len, self.basis))
        count = min(count, self.most) - known
        while count > 0:
            images = self.products.several(self.drawn(min(self.block, count)))
            images = images / images.abs().amax().clamp_min(torch.finfo(images.dtype).tiny)
            fresh = torch.linalg.qr(self.without(images.nan_to_num()).T).Q.T
            # Of a matrix of low rank the last ones are rounding: orthogonal to each other, not to those before.
            fresh = torch.linalg.qr(self.without(fresh).T).Q.T.contiguous()
            self.basis.append(fresh)
            self.within += _dots(fresh, self.products.several(fresh))
            count -= len(fresh)

    def measured(self, count: int, tail: float) -> tuple[float, float]:
        """The trace, and how far from it that may be, from ``count`` probes of the rest."""
        forms: list[float] = []
        squares: list[float] = []
        while len(forms) < count:
            probing = self.without(self.drawn(min(self.block, count - len(forms))))
            images = self.products.several(probing)
            forms += _dots(probing, images)
            squares += (
                torch.linalg.vector_norm(self.without(images), dim=1, dtype=torch.float64).square().tolist()
            )
        ratio = tail / count
        frobenius = math.sqrt(math.fsum(squares) / count / (1 - 2 * math.sqrt(ratio)))
        value = math.fsum(self.within) + math.fsum(forms) / count
        return value, 2 * frobenius * (math.sqrt(ratio) + ratio)

    def drawn(self, count: int) -> Tensor:
        """Gaussian vectors (count, P)."""
        size, products = self.products.size, self.products
        vectors = torch.empty(count, size, dtype=products.dtype, device=products.device)
        for row in vectors:
            row.copy_(
                torch.randn(size, generator=self.drawing, dtype=torch.float64, device=self.drawing.device)
            )
        return vectors

    def without(self, vectors: Tensor) -> Tensor:
        """The rows less what they have of Q."""
        for _ in range(2):
            for known in self.basis:
                vectors = vectors - (vectors @ known.T) @ known
        return vectors


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


def _dots(left: Tensor, right: Tensor) -> list[float]:
    found: list[float] = (left * right).sum(1, dtype=torch.float64).tolist()
    return found
