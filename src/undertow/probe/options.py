"""Whether an option of a measure is of the kind that the measure says: configuration files can hold anything."""

from __future__ import annotations

import math
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from undertow.core.errors import ConfigError, nearest

__all__ = ["check_choices", "check_kinds"]

_LARGEST = 2**63


def check_kinds(kind: type, options: dict[str, Any]) -> None:
    """Refuse a word where a number belongs, a number where a list does, and numbers that no measure could mean.

    >>> from undertow.probe import RobustAccuracy
    >>> check_kinds(RobustAccuracy, {"eps": "0.5"})
    Traceback (most recent call last):
        ...
    undertow.core.errors.ConfigError: the measure robust-accuracy's eps = '0.5' must be a list of finite numbers.
    """
    hints = get_type_hints(kind)
    for name, value in options.items():
        fits, wanted = _fits(value, hints[name])
        if not fits:
            shown = (
                repr(value) if not isinstance(value, int) or abs(value) < _LARGEST else "a number so large"
            )
            measure = getattr(kind, "name", kind.__name__)
            raise ConfigError(f"the measure {measure}'s {name} = {shown[:60]} must be {wanted}.")


def check_choices(made: Any) -> None:
    """Refuse a word that is none of those an option can be; the measure itself may have said so before."""
    for name, hint in get_type_hints(type(made)).items():
        value = getattr(made, name, None)
        if get_origin(hint) is Literal and value not in get_args(hint):
            hint_of = nearest(str(value)[:80], [str(each) for each in get_args(hint)])
            raise ConfigError(
                f"the measure {made.name}'s {name} = {str(value)[:60]!r} is not known; {hint_of}"
            )


def _fits(value: Any, hint: Any) -> tuple[bool, str]:
    if get_origin(hint) in (Union, UnionType):
        found = [_fits(value, each) for each in get_args(hint)]
        return any(fits for fits, _ in found), " or ".join(wanted for _, wanted in found)
    if get_origin(hint) is Literal:
        hint = type(get_args(hint)[0])
    if hint is bool:
        return isinstance(value, bool), "true or false"
    if hint is int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and 0 <= value < _LARGEST, "a whole number, 0 or more"
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and abs(value) < 1e300 and math.isfinite(value), "a finite number"
    if hint is str:
        return isinstance(value, str), "a word"
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        listed = isinstance(value, list | tuple)
        several = {float: "a list of finite numbers", str: "a list of words"}.get(inner, "a list")
        return listed and all(_fits(each, inner)[0] for each in value), several
    return True, ""
