"""A data set in memory: tensors, their name, and a checksum of their content."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from undertow.core.errors import InputError

__all__ = ["Dataset", "content_checksum"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs ``x`` with class labels ``y``; build one with :meth:`Dataset.of`, which checks both.

    ``x`` is float32 of shape (N, …), images as (N, C, H, W), tables as (N, d); ``y`` is int64 of
    shape (N,) with values in 0 … classes−1. ``bounds`` is the valid range of ``x`` (an attack must
    stay in it), None when there is none. ``details`` holds what else is known: a mixture's centres, its
    noise, a table's row numbers. Those named in ``aligned`` have one entry per sample and follow
    :meth:`take`. For regression ``targets`` are what is to be learned, float32 of shape (N,) or (N, k), and all
    samples are of one class; ``labels`` are the targets, or y where there are none.

    >>> data = Dataset.of(torch.eye(3), torch.tensor([0, 1, 1]), name="corners")
    >>> len(data), data.classes, data.take([2, 0]).y.tolist()
    (3, 2, [1, 0])
    """

    x: Tensor
    y: Tensor
    name: str
    classes: int
    checksum: str
    bounds: tuple[float, float] | None = None
    details: Mapping[str, Tensor] = field(default_factory=dict)
    aligned: frozenset[str] = frozenset()
    targets: Tensor | None = None

    @staticmethod
    def of(
        x: Tensor,
        y: Tensor,
        *,
        name: str,
        classes: int | None = None,
        bounds: tuple[float, float] | None = None,
        details: Mapping[str, Tensor] | None = None,
        aligned: Iterable[str] = (),
        targets: Tensor | None = None,
    ) -> Dataset:
        """A checked data set; ``classes`` defaults to the largest label plus one."""
        details, aligned = dict(details or {}), frozenset(aligned)
        _check_content(x, y, name, details, aligned)
        if targets is not None:
            targets = _checked_targets(targets, len(x), name)
        largest = int(y.max())
        if classes is None:
            classes = largest + 1
        if int(y.min()) < 0 or largest >= classes:
            raise InputError(
                f"{name}: labels run from {int(y.min())} to {largest}, but {classes} classes need labels "
                f"0 … {classes - 1}; renumber y."
            )
        x = x.to(torch.float32).contiguous()
        y = y.to(torch.int64).contiguous()
        checksum = content_checksum(x, y if targets is None else targets)
        return Dataset(x, y, name, classes, checksum, bounds, details, aligned, targets)

    @staticmethod
    def of_targets(
        x: Tensor, targets: Tensor, *, name: str, details: Mapping[str, Tensor] | None = None
    ) -> Dataset:
        """Data for regression: real targets (N,) or (N, k) in the place of classes.

        >>> line = Dataset.of_targets(torch.tensor([[0.0], [1.0]]), torch.tensor([1.0, 3.0]), name="line")
        >>> line.labels.tolist(), line.take([1]).labels.tolist()
        ([1.0, 3.0], [3.0])
        """
        one_class = torch.zeros(len(x), dtype=torch.int64)
        return Dataset.of(x, one_class, name=name, classes=1, details=details, targets=targets)

    @property
    def labels(self) -> Tensor:
        """What is learned: the targets of a regression, else the classes."""
        return self.y if self.targets is None else self.targets

    def __len__(self) -> int:
        return self.x.shape[0]

    def take(self, indices: Tensor | Iterable[int]) -> Dataset:
        """The samples at ``indices``, in that order, with the details that belong to them."""
        index = torch.as_tensor(
            indices if isinstance(indices, Tensor) else list(indices), dtype=torch.int64, device=self.x.device
        )
        details = {key: value[index] if key in self.aligned else value for key, value in self.details.items()}
        targets = None if self.targets is None else self.targets[index]
        return replace(self, targets=targets).with_content(x=self.x[index], y=self.y[index], details=details)

    def with_content(
        self,
        *,
        x: Tensor | None = None,
        y: Tensor | None = None,
        name: str | None = None,
        classes: int | None = None,
        bounds: tuple[float, float] | str | None = "same",
        details: Mapping[str, Tensor] | None = None,
        aligned: Iterable[str] | None = None,
    ) -> Dataset:
        """A copy with other content and the checksum that goes with it."""
        return Dataset.of(
            self.x if x is None else x,
            self.y if y is None else y,
            name=self.name if name is None else name,
            classes=self.classes if classes is None else classes,
            bounds=self.bounds if isinstance(bounds, str) else bounds,
            details=self.details if details is None else details,
            aligned=self.aligned if aligned is None else aligned,
            targets=self.targets,
        )

    def to(self, device: torch.device | str) -> Dataset:
        """The same content on another device; the checksum stays."""
        details = {key: value.to(device) for key, value in self.details.items()}
        targets = None if self.targets is None else self.targets.to(device)
        return replace(self, x=self.x.to(device), y=self.y.to(device), details=details, targets=targets)


def content_checksum(x: Tensor, y: Tensor) -> str:
    """sha256 over dtype, shape and little-endian bytes of ``x`` and ``y``: equal on every machine.

    >>> content_checksum(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))[:16]
    '339f972ad33c6029'
    """
    digest = hashlib.sha256()
    for tensor in (x, y):
        array = tensor.detach().cpu().contiguous().numpy()
        if sys.byteorder == "big":
            array = array.byteswap()
        digest.update(f"{array.dtype.name}{list(array.shape)}".encode())
        digest.update(array.reshape(-1).data)
    return digest.hexdigest()


def _checked_targets(targets: Tensor, samples: int, name: str) -> Tensor:
    if not targets.is_floating_point() or targets.ndim not in (1, 2) or len(targets) != samples:
        raise InputError(
            f"{name}: targets are {targets.dtype} of shape {tuple(targets.shape)}; give real numbers, one or a row "
            f"for each of the {samples} samples."
        )
    return targets.to(torch.float32).contiguous()


def _check_content(
    x: Tensor, y: Tensor, name: str, details: dict[str, Tensor], aligned: frozenset[str]
) -> None:
    if x.ndim < 2 or not len(x):
        raise InputError(
            f"{name}: x has shape {tuple(x.shape)}; it needs at least one row, as (N, …) with N ≥ 1."
        )
    if y.ndim != 1 or len(y) != len(x):
        raise InputError(
            f"{name}: y has shape {tuple(y.shape)}, but x has {len(x)} rows; give one label per row."
        )
    if y.is_floating_point() or y.is_complex():
        raise InputError(f"{name}: labels are {y.dtype}; give integer class numbers, as in y.long().")
    for key in aligned:
        if key not in details or len(details[key]) != len(x):
            raise InputError(f"{name}: the detail {key!r} needs one entry for each of the {len(x)} samples.")
