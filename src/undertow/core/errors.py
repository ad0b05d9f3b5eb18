"""Errors that read as sentences: what is wrong, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ConfigError",
    "DataError",
    "InputError",
    "ModelError",
    "SeamError",
    "StoreError",
    "UndertowError",
    "nearest",
]


class UndertowError(Exception):
    """Base of everything undertow raises on purpose; the command line prints it without a traceback."""


class InputError(UndertowError, ValueError):
    """A tensor or an option that cannot be used as given."""


class ModelError(UndertowError, ValueError):
    """A network that cannot be measured as it is."""


class SeamError(UndertowError, ValueError):
    """A place at which a network cannot be cut."""


class ConfigError(UndertowError, ValueError):
    """A configuration with an unknown key or a value out of range."""


class DataError(UndertowError):
    """A data set that is missing, damaged or not what it should be."""


class StoreError(UndertowError):
    """A run folder that is damaged, locked or cannot be written."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """The hint that ends a message about an unknown name.

    >>> nearest("layer5", ["conv1", "layer4"])
    "did you mean 'layer4'?"
    >>> nearest("zzz", ["conv1", "layer4"])
    'choose from: conv1, layer4'
    """
    names = list(choices)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"choose from: {shown}" if names else "there is nothing to choose from"
