"""Two lines around a curve on an interval: a·h + b ≤ f(h) for l ≤ h ≤ u, and the same from above.

For any slope a the best line from below has b = min_{l ≤ h ≤ u} f(h) − a·h. Where f is concave or straight the minimum
is at an end of the piece; where f is convex it is where f' = a, found in a table and by false position. With p ≤ h* ≤ q
the bracket and t the point taken, convexity gives

    f(h*) − a·h* ≥ f(t) − a·t − |f'(t) − a|·(q − p),

which is subtracted: so the line is below the curve however few steps were made.

The slope is that of the convex hull of the curve at the middle c of the interval: it maximises a·c + b(a), the line's
value there, and so leaves the smallest area between line and curve. Cutting planes find it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from undertow.adversary.certificates.activation_curves import Curve, Function

__all__ = ["LinePair", "curve_range", "lines_around", "lowest_offset", "slope_range"]

_EPS = torch.finfo(torch.float64).eps
_END, _ENTRIES = 40.0, 4096  # of the table of slopes: beyond ±40 every slope has reached its limit in float64
_CUTS = 4  # cutting planes for a curve that bends; a straight one needs one for each break


@dataclass(frozen=True, eq=False)
class LinePair:
    """``low_slope``·h + ``low_offset`` ≤ f(h) ≤ ``high_slope``·h + ``high_offset``, each of the shape of the limits.

    ``size`` is the largest that a term of either line can be: what rounding is a share of.
    """

    low_slope: Tensor
    low_offset: Tensor
    high_slope: Tensor
    high_offset: Tensor
    size: Tensor

    def taken(self, index: Tensor) -> LinePair:
        """The lines of these samples."""
        return LinePair(*(part[index] for part in vars(self).values()))

    @staticmethod
    def of(below: tuple[Tensor, Tensor], above: tuple[Tensor, Tensor], largest: Tensor) -> LinePair:
        """From (slope, offset) of both lines and the largest |h|."""
        slope = torch.maximum(below[0].abs(), above[0].abs())
        size = slope * largest + torch.maximum(below[1].abs(), above[1].abs())
        return LinePair(*below, *above, size)


@dataclass(frozen=True, eq=False)
class _Side:
    """The curve itself, or its negative: what is above one is below the other."""

    curve: Curve
    sign: int

    def value(self, h: Tensor) -> Tensor:
        return self.sign * self.curve.value(h)

    def slope(self, h: Tensor) -> Tensor:
        return self.sign * self.curve.slope(h)

    @property
    def bends(self) -> tuple[int, ...]:
        return tuple(self.sign * bend for bend in self.curve.bends)


def lines_around(curve: Curve, low: Tensor, high: Tensor) -> LinePair:
    """The lines of smallest area around the curve between ``low`` and ``high``.

    >>> from undertow.adversary.certificates.activation_curves import curve_of
    >>> lines = lines_around(curve_of("relu"), torch.tensor([-1.0]).double(), torch.tensor([3.0]).double())
    >>> [round(float(part), 6) for part in (lines.low_slope, lines.high_slope, lines.high_offset)]
    [1.0, 0.75, 0.75]
    """
    if curve.homogeneous:
        return _kink_lines(curve, low, high)
    below = _hull_line(_Side(curve, 1), low, high)
    above = _hull_line(_Side(curve, -1), low, high)
    return LinePair.of(below, (-above[0], -above[1]), torch.maximum(low.abs(), high.abs()))


def _kink_lines(curve: Curve, low: Tensor, high: Tensor) -> LinePair:
    """The same for one kink at zero, in closed form: the chord, and the side on which most of the interval lies."""
    assert curve.ends is not None
    left, right = (side.to(low) for side in curve.ends[0])
    middle = torch.where(low + high > 0, right, left)
    crossing = (low < 0) & (high > 0)
    width = torch.where(crossing, high - low, 1.0)
    chord = torch.where(crossing, (right * high - left * low) / width, middle)
    offset = torch.where(crossing, (left - chord) * low, 0.0)
    nothing, convex = torch.zeros_like(low), (right >= left).expand_as(low)
    below = torch.where(convex, middle, chord), torch.where(convex, nothing, offset)
    above = torch.where(convex, chord, middle), torch.where(convex, offset, nothing)
    return LinePair.of(below, above, torch.maximum(low.abs(), high.abs()))


def lowest_offset(curve: Curve, sign: int, slope: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """b = min of sign·f(h) − slope·h over the interval, less its error, and an h where it is attained.

    The derivative of b by the slope is −h there.
    """
    side = _Side(curve, sign)
    best, at = side.value(low) - slope * low, low
    for place in (high, *(low.clamp(min=b).minimum(high) for b in curve.breaks)):
        value = side.value(place) - slope * place
        at = torch.where(value < best, place, at)
        best = torch.minimum(best, value)
    for index, bend in enumerate(side.bends):
        if bend > 0:
            left = low if index == 0 else low.clamp(min=curve.breaks[index - 1])
            right = high if index == len(curve.breaks) else high.clamp(max=curve.breaks[index])
            value, place = _convex_minimum(side, index, slope, left, right.maximum(left))
            at = torch.where(value < best, place, at)
            best = torch.minimum(best, value)
    if curve.error is not None:
        best = best - curve.error(low, high)
    return best, at


def curve_range(curve: Curve, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and the largest value of the curve on the interval, errors included."""
    flat = torch.zeros_like(low)
    return lowest_offset(curve, 1, flat, low, high)[0], -lowest_offset(curve, -1, flat, low, high)[0]


def slope_range(curve: Curve, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and the largest slope on the interval, both sides of every kink in it included.

    >>> from undertow.adversary.certificates.activation_curves import curve_of
    >>> slope_range(curve_of("relu"), torch.tensor([-1.0, 1.0]), torch.tensor([3.0, 3.0]))
    (tensor([0., 1.]), tensor([1., 1.]))
    """
    unknown = low.isnan() | high.isnan()  # of which comparisons would name a piece
    ends = curve.slope(low), curve.slope(high)
    least, most = (
        torch.where(unknown, math.nan, side) for side in (torch.minimum(*ends), torch.maximum(*ends))
    )
    for index, place in enumerate(curve.breaks):
        inside = (low <= place) & (high >= place)
        where = torch.full_like(low, place)
        sides = (curve.slope(where),) * 2 if curve.ends is None else curve.ends[index]
        for side in sides:
            least = torch.where(inside, torch.minimum(least, side.to(least)), least)
            most = torch.where(inside, torch.maximum(most, side.to(most)), most)
    if curve.error is not None:
        margin = curve.slope_error * (1 + torch.maximum(least.abs(), most.abs()))
        least, most = least - margin, most + margin
    return least, most


def _hull_line(side: _Side, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Slope and offset of the line from below that is highest in the middle of the interval."""
    middle = low + 0.5 * (high - low)
    slope = side.slope(middle)
    offset, _ = lowest_offset(side.curve, side.sign, slope, low, high)
    left, right = low, high
    for _ in range(len(side.curve.breaks) + 1 + (0 if side.curve.straight else _CUTS)):
        width = right - left
        wide = width > 1e-300
        chord = (side.value(right) - side.value(left)) / torch.where(wide, width, 1.0)
        trial = torch.where(wide & chord.isfinite(), chord, slope)
        best, at = lowest_offset(side.curve, side.sign, trial, low, high)
        better = trial * middle + best > slope * middle + offset
        slope, offset = torch.where(better, trial, slope), torch.where(better, best, offset)
        left, right = torch.where(at < middle, at, left), torch.where(at < middle, right, at)
    return slope, offset


def _convex_minimum(
    side: _Side, piece: int, slope: Tensor, left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:
    """A lower bound of sign·f(h) − slope·h on a convex piece from left to right, and about where it is smallest."""
    if side.curve.root is not None:
        at = torch.minimum(torch.maximum(torch.nan_to_num(side.curve.root(slope)), left), right)
        missing = (side.slope(at) - slope).abs() + 8 * _EPS * slope.abs()
        inside = (at > left) & (at < right)  # else the minimum is at that end
        return side.value(at) - slope * at - torch.where(inside, missing * (right - left), 0.0), at
    places, slopes = _slope_table(side.curve, side.sign, piece)
    places, slopes, width = places.to(slope), slopes.to(slope), right - left
    entry = torch.searchsorted(slopes, slope.contiguous()).clamp(1, len(slopes) - 1)
    inner_left, inner_right = places[entry - 1], places[entry]
    # beyond the table the bracket goes on to the end of the interval
    inner_left = torch.where((entry == 1) & (slope < slopes[0]), left, inner_left)
    inner_right = torch.where((entry == len(slopes) - 1) & (slope > slopes[-1]), right, inner_right)
    left, right = inner_left.clamp(min=left).minimum(right), inner_right.clamp(max=right).maximum(left)
    left_gap, right_gap = side.slope(left) - slope, side.slope(right) - slope
    at = left
    for _ in range(2):
        share = left_gap / torch.where(left_gap == right_gap, 1.0, left_gap - right_gap)
        at = left + (right - left) * share.clamp(0, 1)
        gap = side.slope(at) - slope
        low_side = gap < 0
        left, left_gap = torch.where(low_side, at, left), torch.where(low_side, gap, left_gap)
        right, right_gap = torch.where(low_side, right, at), torch.where(low_side, right_gap, gap)
    missing = (side.slope(at) - slope).abs() * (right - left)
    # rounding of the slopes may have put the bracket beside the minimum, where they differ by no more than that
    rounded = 8 * _EPS * (1 + slope.abs()) * width
    return side.value(at) - slope * at - missing - rounded, at


@lru_cache(maxsize=256)
def _slope_table(curve: Curve, sign: int, piece: int) -> tuple[Tensor, Tensor]:
    """Points of a convex piece, and the slopes there, which rise."""
    side: Function = _Side(curve, sign).slope
    start = -_END if piece == 0 else curve.breaks[piece - 1]
    stop = _END if piece == len(curve.breaks) else curve.breaks[piece]
    places = torch.linspace(start, stop, _ENTRIES, dtype=torch.float64)
    return places, torch.cummax(side(places), 0).values
