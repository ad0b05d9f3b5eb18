"""Named normalisations of inputs, and what each does to their valid range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from undertow.core.errors import InputError, nearest
from undertow.data.dataset import Dataset

__all__ = [
    "NORMALISATIONS",
    "Normalisation",
    "affine",
    "normalise",
    "normalised",
    "norms_of",
    "standardise",
    "unit_norm",
]

_LARGE = 1e100
"""Features larger than this, or smaller than its inverse, are scaled first: their squares have to be floats."""
Bounds = tuple[float, float] | None
Normalisation = Literal["unit-norm", "centred", "mnist", "standardised"]


def normalise(data: Dataset, how: str | None, *, train: Dataset | None = None) -> Dataset:
    """``data`` normalised by name.

    "unit-norm" x/‖x‖₂ per sample; "centred" (x − 0.5)/0.5; "mnist" (x − 0.1307)/0.3081;
    "standardised" (x − mean)/std per feature, fitted on ``train`` (default: on ``data`` itself);
    None leaves it as it is. ``bounds`` follows where the map is the same for every sample.

    >>> data = Dataset.of(torch.tensor([[0.0, 1.0]]), torch.tensor([0]), name="a", bounds=(0.0, 1.0))
    >>> normalise(data, "centred").x.tolist(), normalise(data, "centred").bounds
    ([[-1.0, 1.0]], (-1.0, 1.0))
    """
    x, bounds = normalised(data.x, data.bounds, how, fitted_on=None if train is None else train.x)
    return data if x is data.x else data.with_content(x=x, bounds=bounds)


def normalised(
    x: Tensor, bounds: Bounds, how: str | None, *, fitted_on: Tensor | None = None
) -> tuple[Tensor, Bounds]:
    """:func:`normalise` on bare inputs and their valid range."""
    if how is None:
        return x, bounds
    if how == "standardised":
        return standardise(x, bounds, fitted_on=x if fitted_on is None else fitted_on)
    if how not in NORMALISATIONS:
        raise InputError(
            f"There is no normalisation {how!r}; {nearest(how, [*NORMALISATIONS, 'standardised'])}"
        )
    return NORMALISATIONS[how](x, bounds)


def affine(x: Tensor, bounds: Bounds, *, shift: float, scale: float) -> tuple[Tensor, Bounds]:
    """(x − shift)/scale, for the inputs and for their valid range.

    >>> affine(torch.tensor([0.0, 0.5]), (0.0, 1.0), shift=0.5, scale=0.5)
    (tensor([-1.,  0.]), (-1.0, 1.0))
    """
    # Constants as tensors: with Python numbers CUDA multiplies by 1/scale, which rounds differently.
    moved = (x - x.new_tensor(shift)) / x.new_tensor(scale)
    return moved, None if bounds is None else ((bounds[0] - shift) / scale, (bounds[1] - shift) / scale)


def unit_norm(x: Tensor, bounds: Bounds = None) -> tuple[Tensor, Bounds]:
    """x/‖x‖₂ for every sample. Every sample is scaled differently, so no common range remains.

    >>> unit_norm(torch.tensor([[3.0, 4.0]]))[0]
    tensor([[0.6000, 0.8000]])
    """
    del bounds
    norms = norms_of(x)
    if bool((norms == 0).any()):
        first = int(torch.nonzero(norms == 0)[0])
        raise InputError(
            f"Sample {first} is zero everywhere and has no direction; remove it before 'unit-norm'."
        )
    return x / norms.view((-1,) + (1,) * (x.ndim - 1)), None


def norms_of(x: Tensor) -> Tensor:
    """‖x_i‖₂ of every sample.

    The squares are added in float64 from first to last: the same bits on every machine, which a sum of
    unspecified order is not.

    >>> norms_of(torch.tensor([[3.0, 4.0]]))
    tensor([5.])
    """
    rows = x.detach().cpu().flatten(1).numpy()
    norms = np.empty(len(rows))
    for start in range(0, len(rows), 1024):  # the running sums of all rows at once would not fit in memory
        squares = np.square(rows[start : start + 1024], dtype=np.float64)
        norms[start : start + 1024] = np.sqrt(np.cumsum(squares, axis=1)[:, -1])
    return torch.from_numpy(norms.astype(np.float32)).to(x)


def standardise(x: Tensor, bounds: Bounds = None, *, fitted_on: Tensor) -> tuple[Tensor, Bounds]:
    """(x − mean)/std per feature, with mean and standard deviation of ``fitted_on``; constants become 0.

    >>> standardise(torch.tensor([[1.0], [3.0]]), fitted_on=torch.tensor([[0.0], [4.0]]))[0].flatten()
    tensor([-0.5000,  0.5000])
    """
    del bounds  # every feature gets its own range
    reference = fitted_on.detach().cpu().numpy().astype(np.float64)
    values = x.detach().cpu().numpy().astype(np.float64)
    size = np.abs(reference).max(axis=0)
    units = np.where((size > _LARGE) | ((size > 0) & (size < 1 / _LARGE)), size, 1.0)
    if (units != 1).any():
        reference, values = reference / units, values / units
    constant = np.ptp(reference, axis=0) == 0  # whose mean is rounded, and would leave noise over noise
    mean, std = np.where(constant, reference[0], reference.mean(axis=0)), reference.std(axis=0)
    values = (values - mean) / np.where((std > 0) & ~constant, std, 1.0)
    return torch.from_numpy(values.astype(np.float32)).to(x.device), None


def _centred(x: Tensor, bounds: Bounds) -> tuple[Tensor, Bounds]:
    return affine(x, bounds, shift=0.5, scale=0.5)


def _mnist(x: Tensor, bounds: Bounds) -> tuple[Tensor, Bounds]:
    return affine(x, bounds, shift=0.1307, scale=0.3081)


NORMALISATIONS: dict[str, Callable[[Tensor, Bounds], tuple[Tensor, Bounds]]] = {
    "unit-norm": unit_norm,
    "centred": _centred,
    "mnist": _mnist,
}
