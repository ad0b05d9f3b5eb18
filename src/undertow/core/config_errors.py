"""What pydantic found wrong, as one sentence that names the field, the value and the nearest valid choice."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from undertow.core.errors import ConfigError, nearest

__all__ = ["Settings", "config_error", "shown"]

_SHOWN = 3
_LOOKED_AT = 200  # problems of one configuration; a file of nothing else can have thousands

Settings = Callable[[tuple[str, ...]], list[str]]
"""The valid names at a path, e.g. ``("training",)`` → ``["optimizer", "learning_rate", …]``."""


def config_error(
    error: ValidationError, settings: Settings, *, tags: frozenset[str] = frozenset(), of: str = ""
) -> ConfigError:
    """A ``ConfigError`` for the first few problems.

    ``tags`` are the union members pydantic adds to paths; ``of`` is the name of a section that was made by itself.
    """
    problems = error.errors()[:_LOOKED_AT]
    sentences = list(dict.fromkeys(_sentence(problem, settings, tags, of) for problem in problems))
    more = len(sentences) - _SHOWN
    if more > 0:
        sentences = [*sentences[:_SHOWN], f"and {more} more"]
    return ConfigError("; ".join(sentences))


def _sentence(problem: ErrorDetails, settings: Settings, tags: frozenset[str], of: str) -> str:
    path = _path(problem["loc"], tags, keep_last=problem["type"] == "extra_forbidden")
    field = ".".join((of, *path) if of else path) or "the configuration"
    value = shown(problem["input"])
    context: dict[str, Any] = problem.get("ctx", {})
    choices = re.findall(r"'([^']*)'", str(context.get("expected_tags") or context.get("expected")))
    match problem["type"]:
        case "extra_forbidden":
            return f"{field} is not a setting; {nearest(path[-1], settings(path[:-1]))}"
        case "missing":
            return f"{field} is missing: give it a value"
        case "union_tag_not_found":
            return f"{field}.name is missing: say which {path[-1] if path else 'one'} is meant"
        case "union_tag_invalid":
            tag = str(context["tag"])
            return f"{field}.name = {shown(tag)} is not known; {nearest(tag[:80], choices)}"
        case "literal_error":
            return f"{field} = {value} is not known; {nearest(str(problem['input'])[:80], choices)}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"{field} = {value} must be a table of settings"
        case "tuple_type" | "list_type":
            return f"{field} = {value} must be a list"
        case "value_error":
            return f"{field}: {context['error']}"
        case _:
            return f"{field} = {value}: {problem['msg'].removeprefix('Input ')}"


def _path(location: tuple[int | str, ...], tags: frozenset[str], *, keep_last: bool) -> tuple[str, ...]:
    parts = [str(part) for part in location]
    last = len(parts) - 1 if keep_last else len(parts)
    # A union without tags names its members by their types: "literal[…]", "constrained-int".
    return tuple(
        part
        for i, part in enumerate(parts)
        if i == last or not (part in tags or re.match(r"literal\[|constrained-|(int|float|str)$", part))
    )


def shown(value: object) -> str:
    """A value as it appears in a sentence: short, whatever it is.

    >>> shown("relu"), shown(10**40)
    ("'relu'", 'a number of 41 digits')
    """
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"a number of {int(value.bit_length() * 0.30103) + 1} digits"
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of more than 4,300 digits, also inside lists
        return f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= 60 else text[:57] + "…"
