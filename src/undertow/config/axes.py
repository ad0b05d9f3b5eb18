"""Settings by their names: where an axis of a grid points in nested tables, and how a value is put there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from undertow.core.errors import ConfigError, nearest

__all__ = ["axis_path", "put"]


def axis_path(axis: str, document: Mapping[str, Any], *, of: str = "grid") -> tuple[str, ...]:
    """Where an axis points: a dotted path, or the last part of one where that is unambiguous.

    ``of`` is the table that names the axis, for the sentence of an error.

    >>> axis_path("width", {"seed": 0, "model": {"width": 8}})
    ('model', 'width')
    """
    leaves = list(_leaves(document))
    names = [".".join(path) for path in leaves]
    if axis in names:
        return leaves[names.index(axis)]
    fits = [path for path in leaves if path[-1] == axis]
    if len(fits) == 1:
        return fits[0]
    if fits:
        several = " or ".join(".".join(path) for path in fits)
        raise ConfigError(f"{of}.{axis} could mean {several}: write which one.")
    hint = nearest(axis, [*dict.fromkeys(path[-1] for path in leaves), *names])
    raise ConfigError(f"{of}.{axis} is not a setting of this study's trials; {hint}")


def _leaves(document: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*before, key))
        else:
            yield (*before, key)


def put(document: Any, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy of nested tables with one value changed.

    >>> put({"a": {"b": 1}}, ("a", "c"), 2)
    {'a': {'b': 1, 'c': 2}}
    """
    table = dict(document) if isinstance(document, Mapping) else {}
    key, *rest = path
    table[key] = put(table.get(key), tuple(rest), value) if rest else value
    return table
