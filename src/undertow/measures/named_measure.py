"""Measures that probes and TOML files can name: sections, with their options as fields."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, ValidationError, WrapValidator

from undertow.core.config_errors import config_error
from undertow.core.sections import Positive, Section

__all__ = ["AsWritten", "InputRange", "NamedMeasure", "Radii"]


class NamedMeasure(Section):
    """A measure with a ``name`` and its options as fields, all of them checked when it is made.

    What it is to a probe, and what else it may have beside a call, is in ``undertow.measures.reading``.

    >>> from undertow.measures.loss import Loss
    >>> Loss(kind="bec")
    Traceback (most recent call last):
        ...
    undertow.core.errors.ConfigError: loss.kind = 'bec' is not known; did you mean 'bce'?
    """

    name: ClassVar[str]

    def __init__(self, /, *first: Any, **options: Any) -> None:
        """Options by their names; the first ones may go without, as in ``Collaboration("hidden")``."""
        known = list(type(self).model_fields)
        if len(first) > len(known):
            raise TypeError(f"{type(self).__name__} has {len(known)} options, not {len(first)}")
        try:
            super().__init__(**dict(zip(known, first, strict=False)), **options)
        except ValidationError as error:
            raise config_error(error, lambda _: known, of=self.name) from None

    def __str__(self) -> str:
        return repr(self)


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
