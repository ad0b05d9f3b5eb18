"""What a measure is to a probe: a name, and readings of a network on points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.training.taken import StepTaken

__all__ = [
    "InformedMeasure",
    "Measure",
    "MemberMeasure",
    "Reading",
    "StackedMeasure",
    "Tracker",
    "TrackingMeasure",
    "informed",
    "labels_for",
]

Reading = tuple[str, float, float | None]
"""(key, value, numerical error or None).

The truth lies at most the error away, to either side. Where readings of a measure are bounds, its line in
``undertow.measures.MEASURES`` says on which side of them the truth lies: ``truth`` is "above" or "below", or one of
them or None for each pattern of keys. Rounding is not meant by that. A bound without an error, such as an accuracy
under attack, may be any distance from the truth.
"""


class Measure(Protocol):
    """What a probe needs of a measure."""

    @property
    def name(self) -> str: ...

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]: ...


@runtime_checkable
class MemberMeasure(Protocol):
    """A measure that reads several networks of one architecture at once, for less than one after the other."""

    def batched(
        self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None
    ) -> Sequence[Sequence[Reading]]:
        """The readings of each network on the same points, as ``__call__`` gives them up to rounding."""
        ...


class StackedMeasure:
    """Marks a :class:`MemberMeasure` whose ``batched`` asks ``StackedMembers`` for weights and scores alone.

    No network then has to be made of the weights, nor put back into the state it was in.
    """


@runtime_checkable
class InformedMeasure(Protocol):
    """A measure that uses what a data set knows beyond x and y, such as the centres of its clusters."""

    def about(self, details: Mapping[str, Tensor]) -> Measure:
        """The same measure, told the data set's ``details``."""
        ...


@runtime_checkable
class TrackingMeasure(Protocol):
    """A measure with a memory of the training: what it reads depends on how the network came here.

    One that has a memory only with some of its options says so by a property ``remembers``.
    """

    @property
    def name(self) -> str: ...

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> Tracker:
        """A tracker of one training run.

        ``start`` is a copy of the network before its first step, whose rate is ``learning_rate``; x and y are the
        training data, all of it, as the training sees it.
        """
        ...


class Tracker(Protocol):
    """One training run as a measure follows it.

    The tensors that ``state`` gives are all that a checkpoint keeps: after ``restore`` the tracker goes on to the
    very same readings. They come back on the device that the network is on.

    A tracker that remembers the start or its own readings alone has ``observes = False`` and is not shown the steps.
    One with a static ``batched(trackers, networks, x, y)`` reads several networks at once, as a
    :class:`MemberMeasure` does. One with a static ``observe_batched(trackers, networks, members)`` is shown a step of
    several at once in place of ``observe``: ``networks`` are all of a group as :class:`StackedMembers`, the
    trackers those of ``members``.
    """

    def observe(self, net: nn.Module, taken: StepTaken) -> None:
        """The optimiser has made a step; ``net`` is the network after it, to be looked at and not kept.

        ``taken`` tells its rate. Where an epoch was taken back, the tracker has been given back what it remembered
        before it, ``net`` is the network as it was then, and ``taken.accepted`` is False.
        """
        ...

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        """Readings at this moment; x and y are the probe's points."""
        ...

    def state(self) -> dict[str, Tensor]: ...

    def restore(self, state: Mapping[str, Tensor]) -> None: ...


def informed(measure: Measure, details: Mapping[str, Tensor]) -> Measure:
    """The measure itself, or where it asks for what the data know, the one that was told."""
    return measure.about(details) if isinstance(measure, InformedMeasure) else measure


def labels_for(measure: Measure, y: Tensor | None) -> Tensor:
    """The labels, or an error that says which measure wanted them."""
    if y is None:
        raise InputError(f"{measure.name} needs labels: give the probe y beside x.")
    return y
