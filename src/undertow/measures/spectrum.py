"""The singular values of every weight matrix, as a measure for probes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from undertow.core.enclosing import innermost
from undertow.core.unwrapping import unwrapped
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.rank import weight_matrices
from undertow.measures.reading import Reading

__all__ = ["Spectrum", "singular_values"]

_MOST = 32


class Spectrum(NamedMeasure):
    """The ``count`` largest singular values of every weight matrix, keyed ``name:0``, ``name:1`` … in falling order.

    A convolution is read as the matrix that acts on patches, as for the stable rank.

    >>> import torch
    >>> net = torch.nn.Linear(2, 2, bias=False)
    >>> _ = net.load_state_dict({"weight": torch.diag(torch.tensor([3.0, 4.0]))})
    >>> [(key, round(value, 6)) for key, value, _ in Spectrum()(net, torch.zeros(1, 2), None)]
    [('weight:0', 4.0), ('weight:1', 3.0)]
    """

    name: ClassVar[str] = "spectrum"
    count: Annotated[int, Field(strict=True, ge=1, le=_MOST)] = _MOST

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        for name, matrix, _ in weight_matrices(innermost(unwrapped(net))):
            values, errors = singular_values(matrix, count=self.count)
            for index, (value, error) in enumerate(zip(values.tolist(), errors.tolist(), strict=True)):
                yield f"{name}:{index}", value, error


def singular_values(matrix: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    """The largest singular values σ_1 ≥ σ_2 ≥ … of a matrix, at most ``count``, and bounds on their rounding errors.

    Square roots of the eigenvalues of the Gram matrix of the smaller side, in float64. Forming it and solving for
    its eigenvalues moves each by at most δ = p·ε·σ_1², p the larger side; so σ_k is off by at most δ/σ_k, and by
    at most √δ where it is small.

    >>> import torch
    >>> singular_values(torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]), count=1)[0]
    tensor([2.], dtype=torch.float64)
    """
    scale = matrix.detach().abs().amax().double()
    scale = torch.where(scale > 0, scale, 1.0)
    scaled = matrix.detach().double() / scale
    gram = scaled @ scaled.T if scaled.shape[0] <= scaled.shape[1] else scaled.T @ scaled
    squares = torch.linalg.eigvalsh(gram).flip(0)[:count].clamp(min=0)
    values = squares.sqrt()
    shift = max(scaled.shape) * torch.finfo(torch.float64).eps * squares[0]
    errors = torch.minimum(shift.sqrt(), shift / values.clamp(min=1e-300))
    return scale * values, scale * errors
