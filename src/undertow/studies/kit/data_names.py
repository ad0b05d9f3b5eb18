"""The names of data sets as one writes them, for notes and titles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["on_data", "written"]

_WRITTEN = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}


def written(names: Iterable[str]) -> str:
    """Every name once, in alphabetical order.

    >>> written(["mnist", "digits", "mnist"])
    'digits, MNIST'
    """
    return ", ".join(_WRITTEN.get(name, name) for name in sorted(set(names)))


def on_data(frame: Any) -> str:
    """ "on MNIST": what the records of a frame are about, for notes and titles.

    >>> on_data({"data_name": ["mnist"]})
    'on MNIST'
    """
    return f"on {written(frame['data_name'])}"
