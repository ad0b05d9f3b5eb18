"""Study files in TOML, and overrides from the command line.

::

    name = "widths"
    [data]
    name = "digits"
    [model]
    name = "two-layer"
    width = 64
    [grid]
    width = [16, 64]
    seed = [0, 1, 2]
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from undertow.errors import ConfigError
from undertow.runs.axes import put
from undertow.runs.config import validate
from undertow.runs.grid import StudyConfig

__all__ = ["apply_overrides", "load_study", "read_value"]


def load_study(path: Path, overrides: Sequence[str] = ()) -> StudyConfig:
    """The study in a TOML file, with command-line overrides applied; its name defaults to the file's."""
    try:
        document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigError(f"{path} cannot be read: {reason}.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None
    document.setdefault("name", path.stem.lower().replace("_", "-").replace(" ", "-"))
    try:
        study = validate(StudyConfig, apply_overrides(document, overrides))
        _ = study.points  # a bad value in the grid is better known now than after an hour
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return study


def apply_overrides(document: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The document with ``--section.field value`` and ``--grid axis=v1,v2`` applied, left to right.

    >>> apply_overrides({}, ["--training.epochs", "5", "--grid", "width=16,64"])
    {'training': {'epochs': 5}, 'grid': {'width': [16, 64]}}
    """
    for option, text in _pairs(overrides):
        if option == "grid":
            axis, separator, values = text.partition("=")
            if not separator or not axis or not values:
                raise ConfigError(f"--grid {text} is not an axis; write for example --grid width=16,64")
            document = put(document, ("grid", axis), [read_value(value) for value in values.split(",")])
        else:
            document = put(document, tuple(option.split(".")), read_value(text))
    return document


def _pairs(tokens: Sequence[str]) -> Iterator[tuple[str, str]]:
    remaining = iter(tokens)
    for token in remaining:
        name, separator, value = token.removeprefix("--").partition("=")
        if not token.startswith("--") or not name:
            raise ConfigError(f"{token!r} is not an option; write --section.field value")
        if not separator or name == "grid":
            following = value if separator else next(remaining, None)
            if following is None:
                raise ConfigError(f"{token} needs a value after it")
            value = following
        yield name, value


def read_value(text: str) -> Any:
    """A value typed on the command line: a number, true, false, none, a JSON list or table, or else a word.

    >>> read_value("1e-4"), read_value("true"), read_value("relu"), read_value('["loss"]')
    (0.0001, True, 'relu', ['loss'])
    """
    if text.lower() in ("none", "null"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
