"""What a topic of a study states: its claims, its figures, and the numbers that a paper printed.

Each is a list that functions are added to, with what all of them share said once:

    CLAIMS = Claims("Wang, Min & Ruan 2024", parts=("grid",))

    @CLAIMS.add("C-e", "In linear networks ϱ rises during training.", "§5.1", figure="fig-1c", activation="linear")
    @CLAIMS.add("C-f.rise", "In ReLU networks ϱ rises during training.", "§5.2", figure="fig-1d", activation="relu")
    def rises(frame: polars.DataFrame, activation: str) -> Finding: ...

What ``add`` does not know itself (``activation`` here) is given to the function with every frame.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from undertow.studies.kit.claim import Claim, Finding

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["Claims", "Figure", "Figures", "Published", "PublishedNumbers", "redrawn"]

Item = TypeVar("Item")
Test = TypeVar("Test", bound="Callable[..., Finding]")
Draw = TypeVar("Draw", bound="Callable[..., altair.TopLevelMixin]")
Number = TypeVar("Number", bound="Callable[..., Sequence[float | None]]")


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: its name for files, what it shows, and how it is drawn from the records of ``parts``.

    One that shows networks on their way, and not where they end, is drawn of what there is ``so_far``.
    """

    name: str
    caption: str
    draw: Callable[[polars.DataFrame], altair.TopLevelMixin]
    parts: tuple[str, ...] = ("main",)
    so_far: bool = False


@dataclass(frozen=True)
class Published:
    """A number that a paper printed, its place there, and how to find ours: one number per seed, from ``parts``.

    One of networks on their way, and not where they end, is found in what there is ``so_far``.
    """

    what: str
    printed: str
    source: str
    ours: Callable[[polars.DataFrame], Sequence[float | None]]
    parts: tuple[str, ...] = ("main",)
    so_far: bool = False


class _Stated(list[Item]):
    """A list in which things stand as they are written: decorators are read from the top and applied from below."""

    def __init__(self) -> None:
        super().__init__()
        self._read, self._places = 0, list[int]()

    def place(self) -> int:
        """The next place, taken when a decorator is read."""
        self._read += 1
        return self._read

    def put(self, place: int, item: Item) -> None:
        """Put an item at its place among those that are there."""
        index = bisect.bisect(self._places, place)
        self._places.insert(index, place)
        self.insert(index, item)


class Claims(_Stated[Claim]):
    """The claims of one topic, as they are written; ``source``, ``parts`` and the others are for all that say nothing.

    >>> claims = Claims("A paper", parts=("grid",))
    >>> @claims.add("T-a", "It is so.", "§1", line=0.5)
    ... @claims.add("T-b", "It is more than so.", "§2", line=0.9)
    ... def larger(frame, line): ...
    >>> [(claim.id, claim.source, claim.parts) for claim in claims]
    [('T-a', 'A paper, §1', ('grid',)), ('T-b', 'A paper, §2', ('grid',))]
    """

    def __init__(
        self,
        source: str = "",
        *,
        parts: Sequence[str] = ("main",),
        figure: str | None = None,
        hindsight: str = "",
    ) -> None:
        super().__init__()
        self._source, self._parts, self._figure, self._hindsight = source, tuple(parts), figure, hindsight

    def add(
        self,
        id: str,
        text: str,
        place: str = "",
        /,
        *,
        source: str | None = None,
        parts: Sequence[str] | None = None,
        figure: str | None = None,
        check: str | bool = False,
        hindsight: str | None = None,
        **given: Any,
    ) -> Callable[[Test], Test]:
        """Make a claim of the function below; of several above one function each is a claim of its own.

        Args:
            id: A letter of its own, and a word where several claims share it: "C-f.rise".
            text: The sentence of the paper, in plain words.
            place: Where in the source: "§5.1 and Fig 1c".
            source: Another source than that of the topic.
            parts: Other parts than those of the topic.
            figure: The figure that shows it.
            check: Why it cannot fail unless something is broken, where that is so.
            hindsight: What of it (a line, a rate, a size) was settled after a look at its records; "" if nothing was.
            given: What the test is given besides the records.
        """

        position = self.place()

        def stated(test: Test) -> Test:
            claim = Claim(
                id,
                text,
                ", ".join(filter(None, (self._source if source is None else source, place))),
                partial(test, **given) if given else test,
                self._parts if parts is None else tuple(parts),
                figure or self._figure,
                check,
                hindsight if hindsight is not None else "" if check else self._hindsight,
            )
            self.put(position, claim)
            return test

        return stated

    def on(self, part: str, **usual: Any) -> Callable[..., Callable[[Test], Test]]:
        """``add`` for claims about another part, whose figure has its name; ``usual`` is what else they share.

        >>> claims = Claims("A paper", parts=("grid",))
        >>> about_images = claims.on("images", hindsight="one start was looked at")
        >>> @about_images("T-c", "So it is on images.", "§3")
        ... def larger(frame): ...
        >>> claims[0].parts, claims[0].figure, claims[0].hindsight
        (('images',), 'images', 'one start was looked at')
        """
        return partial(self.add, **{"parts": (part,), "figure": part, **usual})


class Figures(_Stated[Figure]):
    """The figures of one topic, as they are written."""

    def __init__(self, *, parts: Sequence[str] = ("main",)) -> None:
        super().__init__()
        self._parts = tuple(parts)

    def add(
        self,
        name: str,
        caption: str,
        /,
        *,
        parts: Sequence[str] | None = None,
        so_far: bool = False,
        **given: Any,
    ) -> Callable[[Draw], Draw]:
        """Make a figure of the function below, which is ``given`` the rest with every frame."""

        position = self.place()

        def shown(draw: Draw) -> Draw:
            own = self._parts if parts is None else tuple(parts)
            drawing = partial(draw, **given) if given else draw
            self.put(position, Figure(name, caption, drawing, own, so_far))
            return draw

        return shown


class PublishedNumbers(_Stated[Published]):
    """The numbers that a paper printed, as they are written."""

    def __init__(self, source: str, *, parts: Sequence[str] = ("main",), so_far: bool = False) -> None:
        super().__init__()
        self._source, self._parts, self._so_far = source, tuple(parts), so_far

    def add(
        self, what: str, printed: str, place: str, /, *, parts: Sequence[str] | None = None, **given: Any
    ) -> Callable[[Number], Number]:
        """Set ours beside a printed number: the function below finds it, one for each seed."""

        position = self.place()

        def beside(ours: Number) -> Number:
            source, own = f"{self._source}, {place}", self._parts if parts is None else tuple(parts)
            finding = partial(ours, **given) if given else ours
            self.put(position, Published(what, printed, source, finding, own, self._so_far))
            return ours

        return beside


def redrawn(figures: Iterable[Figure], *, parts: Sequence[str], name: str, caption: str) -> list[Figure]:
    """The same figures from other parts: ``name`` and ``caption`` have {} where the former ones go."""
    return [
        replace(each, name=name.format(each.name), caption=caption.format(each.caption), parts=tuple(parts))
        for each in figures
    ]
