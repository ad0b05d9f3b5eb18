"""Readings that are bounds: on which side of them the truth lies, and the sign that says so."""

from __future__ import annotations

from undertow.measures import MEASURES

__all__ = ["error_side", "sign_of_bound"]


def error_side(name: str, key: str) -> str | None:
    """On which side of a reading the truth lies, by the measure's line in the registry; None where it may be either.

    >>> error_side("stable-rank", "hidden.weight"), error_side("energy", ""), error_side("someone's own", "")
    ('below', 'above', None)
    >>> error_side("cluster-radius", "certified@0.1"), error_side("cluster-radius", "attacked@0.1")
    ('above', 'below')
    """
    line = MEASURES.lines.get(name)
    return None if line is None else line.side(key)


def sign_of_bound(measure: str, key: str) -> str:
    """What stands before a reading without an error: "≤ " where it is an upper bound, "≥ " where a lower one.

    >>> sign_of_bound("robust-accuracy", "0.5"), sign_of_bound("accuracy", "")
    ('≤ ', '')
    """
    return {"above": "≥ ", "below": "≤ "}.get(error_side(measure, key) or "", "")
