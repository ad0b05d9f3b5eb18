"""What a scale changes, as a table: a line for each option, a column for each scale."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any

from undertow.studies.kit.study import SCALES, Part, Scale

__all__ = ["by_scale", "only_in"]


def by_scale(**options: tuple[Any, Any, Any]) -> dict[Scale, SimpleNamespace]:
    """The sizes of each scale, from the values of each option at smoke, laptop and paper scale.

    >>> by_scale(d=(20, 100, 1000), n=(200, 2000, 20000))["laptop"]
    namespace(d=100, n=2000)
    """
    columns = zip(*options.values(), strict=True)
    return {
        scale: SimpleNamespace(**dict(zip(options, values, strict=True)))
        for scale, values in zip(SCALES, columns, strict=True)
    }


def only_in(variant: str) -> Callable[[Callable[[Scale], dict[str, Any] | None]], Part]:
    """Makes a part of a function of the scale alone, for a grid that one variant has and the others have not.

    >>> part = only_in("paper")(lambda scale: {"seed": 1})
    >>> part("smoke", "paper"), part("smoke", "slides")
    ({'seed': 1}, None)
    """

    def decorate(settings: Callable[[Scale], dict[str, Any] | None]) -> Part:
        @wraps(settings)
        def part(scale: Scale, asked: str) -> dict[str, Any] | None:
            return settings(scale) if asked == variant else None

        return part

    return decorate
