"""How nearly orthogonal points are, in a few numbers (numpy alone: lists of data sets show them)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from undertow.core.errors import InputError
from undertow.core.shown import Shown

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["NearOrthogonality", "feature_correlation", "near_orthogonality"]

_BLOCK = 2048


@dataclass(frozen=True)
class NearOrthogonality(Shown):
    """Numbers for how nearly orthogonal n points are; all unchanged when the points are scaled."""

    value: float
    """min ‖x_i‖² / (n · max |⟨x_i, x_k⟩|), i ≠ k: theorems want it of order one or more; inf where orthogonal."""
    with_norms: float
    """The same times (min ‖x_i‖/max ‖x_i‖)², as Frei et al. (2023, Assumption 2.1) have it."""
    by_sums: float
    """min_i ‖x_i‖²/Σ_k |⟨x_i, x_k⟩|: above 1 the Gram matrix is diagonally dominant. Never less than ``value``."""
    mean_cosine: float
    """The mean of |cos(x_i, x_k)| over pairs."""
    n: int


def near_orthogonality(x: NDArray[np.floating] | Tensor, *, block: int = _BLOCK) -> NearOrthogonality:
    """min_i ‖x_i‖² / (n · max_{i≠k} |⟨x_i, x_k⟩|) of points (n, d), and variants (Frei et al. 2023; Kou et al. 2023).

    Theorems about nearly orthogonal data ask that it is above a constant (5 in Frei et al., for leaky ReLU with slope
    1, with the ratio of norms). More points than dimensions cannot be: among n > d points some |cos| is at least
    √((n−d)/(d(n−1))) (Welch), so that the number is at most √(d(n−1)/(n−d))/n. For features instead of samples, pass
    the transposed matrix, its rows centred. Inner products are in float32 after scaling, in blocks of rows; sums in
    float64.

    >>> round(near_orthogonality(np.array([[3.0, 0.0], [1.0, 2.0]])).value, 4)     # 5/(2·3)
    0.8333
    >>> near_orthogonality(np.eye(3)).value
    inf
    """
    x = _on_the_host(x)
    if x.ndim != 2 or len(x) < 2:
        raise InputError(f"points of shape {x.shape}: give two points at least, as rows (n, d).")
    largest = float(np.abs(x).max())
    if not 0 < largest < math.inf:
        raise InputError("the points are all zero, or not all finite: there is no angle between them.")
    small = (x / largest).astype(np.float32)
    squares = np.einsum("ij,ij->i", small, small, dtype=np.float64)
    lengths = np.sqrt(squares)
    n, product, cosines, sums = len(x), 0.0, 0.0, np.zeros(len(x))
    inverse = np.divide(1.0, lengths, out=np.zeros(n), where=lengths > 0)
    for start in range(0, n, block):
        rows = slice(start, start + block)
        for other in range(start, n, block):
            columns = slice(other, other + block)
            part = np.abs(small[rows] @ small[columns].T)
            if other == start:
                np.fill_diagonal(part, 0.0)
            product = max(product, float(part.max()))
            sums[rows] += part.sum(1, dtype=np.float64)
            if other > start:
                sums[columns] += part.sum(0, dtype=np.float64)
            both = 1 if other == start else 2
            cosines += both * float(inverse[rows] @ part.astype(np.float64) @ inverse[columns])
    return NearOrthogonality(
        value=_over(squares.min(), n * product),
        with_norms=_over(squares.min() ** 2 / squares.max(), n * product),
        by_sums=min((_over(own, total) for own, total in zip(squares, sums, strict=True)), default=math.inf),
        mean_cosine=cosines / (n * (n - 1)),
        n=n,
    )


def _over(above: float, below: float) -> float:
    # Products of orthogonal points are rounding: below this they say nothing.
    return math.inf if below <= 1e-6 * above else float(above / below)


def feature_correlation(x: NDArray[np.floating] | Tensor) -> float:
    """The mean of |correlation| over pairs of features of points (n, d): orthogonality in the other sense.

    Features that do not vary have no correlation, and are left out.

    >>> feature_correlation(np.array([[0.0, 0.0, 7.0], [1.0, 0.0, 7.0], [0.0, 1.0, 7.0], [1.0, 1.0, 7.0]]))
    0.0
    """
    x = _on_the_host(x)
    features = (x - x.mean(0, dtype=np.float64)).T
    varying = features[np.ptp(x, axis=0) > 0]
    return near_orthogonality(varying).mean_cosine


def _on_the_host(x: Any) -> NDArray[np.floating]:
    """A tensor as an array, wherever it is: nothing of torch is needed for that."""
    found: NDArray[np.floating] = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
    return found
