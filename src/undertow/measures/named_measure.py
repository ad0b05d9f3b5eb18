"""Measures that probes and TOML files can name: sections, with their options as fields."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, cast

from pydantic import AfterValidator, Field, ValidationError, WrapValidator
from torch import Tensor, nn

from undertow.core.config_errors import config_error
from undertow.core.enclosing import rows_of
from undertow.core.sections import Count, Positive, Section
from undertow.core.stacked_members import StackedMembers

__all__ = ["AsWritten", "InputRange", "NamedMeasure", "Radii"]


class NamedMeasure(Section):
    """A measure with a ``name`` and its options as fields, all of them checked when it is made.

    What it is to a probe, and what else it may have beside a call, is in ``undertow.measures.reading``. Every one
    takes ``points``: that many of the points it is given, the first ones; all of them where it is None.

    >>> from undertow.measures.loss import Loss
    >>> Loss(kind="bec")
    Traceback (most recent call last):
        ...
    undertow.core.errors.ConfigError: loss.kind = 'bec' is not known; did you mean 'bce'?
    """

    name: ClassVar[str]
    points: Count | None = None

    def __init__(self, /, *first: Any, **options: Any) -> None:
        """Options by their names; the first ones may go without, as in ``Collaboration("hidden")``."""
        known = list(type(self).model_fields)
        own = [option for option in known if option != "points"]  # which is asked for by its name
        if len(first) > len(own):
            raise TypeError(f"{type(self).__name__} has {len(own)} options, not {len(first)}")
        try:
            super().__init__(**dict(zip(own, first, strict=False)), **options)
        except ValidationError as error:
            raise config_error(error, lambda _: known, of=self.name) from None

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """However the measure is called, it sees no more than ``points``: not each has to see to that itself."""
        for method, cut in (("__call__", _on_first_points), ("batched", _members_on_first_points)):
            if method in cls.__dict__ and not getattr(cls.__dict__[method], "__isabstractmethod__", False):
                setattr(cls, method, cut(cls.__dict__[method]))

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """An option that is None was not given, and goes without saying."""
        given = ((name, value) for name, value in super().__repr_args__() if value is not None)
        yield from sorted(given, key=lambda each: each[0] == "points")

    def __str__(self) -> str:
        return repr(self)


def _on_first_points(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def cut(self: NamedMeasure, net: nn.Module, x: Tensor, y: Tensor | None) -> Any:
        if self.points is None or self.points >= len(x):
            return call(self, net, x, y)
        first = slice(0, self.points)
        return call(self, cast(nn.Module, rows_of(net, first)), x[first], None if y is None else y[first])

    return cut


def _members_on_first_points(batched: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(batched)
    def cut(self: NamedMeasure, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> Any:
        if self.points is None or self.points >= len(x):
            return batched(self, networks, x, y)
        first = slice(0, self.points)
        if not isinstance(networks, StackedMembers):  # of these no network has rows of its own
            networks = [cast(nn.Module, rows_of(net, first)) for net in networks]
        return batched(self, networks, x[first], None if y is None else y[first])

    return cut


def _kept(value: Any, check: Callable[[Any], Any]) -> Any:
    check(value)
    return value


AsWritten = Annotated[Positive, WrapValidator(_kept)]
"""A positive number that stays 2 where 2 was written: it is part of identities that are on disks already."""


def _increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    if not values:
        raise ValueError("give one radius at least, such as [0.5]")
    if any(later <= earlier for earlier, later in pairwise(values)):
        raise ValueError("radii must increase: sort them, each once")
    return values


def _ordered(box: tuple[float, ...]) -> tuple[float, ...]:
    if box and not (len(box) == 2 and box[0] < box[1]):
        raise ValueError(f"{list(box)} must be the smallest and the largest input, or empty")
    return box


_Finite = Annotated[float, Field(strict=True, ge=-1e300, le=1e300)]
Radii = Annotated[tuple[Positive, ...], AfterValidator(_increasing)]
"""Positive radii in increasing order, one at least."""
InputRange = Annotated[tuple[_Finite, ...], AfterValidator(_ordered)]
"""The smallest and the largest valid input; empty where inputs are free."""
