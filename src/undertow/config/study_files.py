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
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from undertow.config.axes import put
from undertow.config.grid import StudyConfig
from undertow.core.errors import ConfigError
from undertow.core.validation import validate

__all__ = ["apply_overrides", "load_study", "read_value"]

_LARGEST = 2**20
_DEEPEST = 32
_KEY = re.compile(r"[\w\-.\"' \t]+")
_DOTS = re.compile(r"\.(?:[ \t]*\.)+")


def load_study(path: Path, overrides: Sequence[str] = ()) -> StudyConfig:
    """The study in a TOML file, with command-line overrides applied; its name defaults to the file's."""
    document = _parse(_read(path), path)
    document.setdefault("name", path.stem.lower().replace("_", "-").replace(" ", "-"))
    try:
        study = validate(StudyConfig, apply_overrides(document, overrides))
        _ = study.points  # a bad value in the grid is better known now than after an hour
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return study


def _read(path: Path) -> str:
    """The file's text; it may be a pipe, as in ``undertow run <(…)``, but not one without an end."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        text = data.decode("utf-8") if len(data) <= _LARGEST else None
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a NUL in the file's name
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path} cannot be read: {reason}.") from None
    if text is None:
        raise ConfigError(f"{path} has more than {_LARGEST:,} bytes: a study is a page of settings.")
    return text


def _parse(text: str, path: Path) -> dict[str, Any]:
    # tomllib takes time that grows with the square of a key's parts.
    if any(run.count(".") > _DEEPEST for line in text.splitlines() for run in _keys(line)):
        raise ConfigError(
            f"{path} has a key of more than {_DEEPEST} parts: settings are not nested that deeply."
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply.") from None
    except ValueError as error:  # also of numbers with more digits than Python takes
        reason = str(error).partition(";")[0]
        raise ConfigError(f"{path} is not valid TOML: {reason}.") from None


def _keys(line: str) -> list[str]:
    """The parts of a line that can be dotted keys: what has no other sign in it, nor two dots together."""
    return [] if line.lstrip().startswith("#") else _KEY.findall(_DOTS.sub("|", line))


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
            path = tuple(option.split("."))
            if len(path) > _DEEPEST:
                raise ConfigError(
                    f"--{option[:40]}… has {len(path)} parts: settings are not nested that deeply."
                )
            document = put(document, path, read_value(text))
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
