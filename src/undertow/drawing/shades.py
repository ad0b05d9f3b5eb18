"""Colours of ordered quantities: one value has one colour, in every figure that shows it.

Viridis without its ends: the lightest fifth is lost on white, the darkest bit on a dark page. A value's place is
fixed by a range that belongs to the quantity (widths 2⁴ … 2¹³, say) and not by which values happen to be there,
so that width 64 looks the same in a figure of three widths and in one of ten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["shade", "shades"]

_VIRIDIS = (
    "#440154", "#482475", "#414487", "#355f8d", "#2a788e",
    "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26", "#fde725",
)  # fmt: skip
_DARKEST, _LIGHTEST = 0.06, 0.8


def shade(place: float) -> str:
    """The colour at ``place`` in [0, 1]; what lies outside takes the colour of the nearer end.

    >>> shade(0.0), shade(1.0), shade(7.0) == shade(1.0)
    ('#461668', '#7ad151', True)
    """
    position = (_DARKEST + min(max(place, 0.0), 1.0) * (_LIGHTEST - _DARKEST)) * (len(_VIRIDIS) - 1)
    below = min(int(position), len(_VIRIDIS) - 2)
    share = position - below
    mixed = (
        round((1 - share) * low + share * high)
        for low, high in zip(_channels(_VIRIDIS[below]), _channels(_VIRIDIS[below + 1]), strict=True)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def shades(values: Iterable[float], *, between: tuple[float, float], log: bool = False) -> dict[str, str]:
    """Label → colour of each value, in order; ``between`` is the range of the quantity.

    >>> list(shades([512, 16], between=(16, 8192), log=True))
    ['16', '512']
    """
    scale = math.log2 if log else float
    low, high = map(scale, between)
    return {f"{value:g}": shade((scale(value) - low) / (high - low)) for value in sorted(set(values))}


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
