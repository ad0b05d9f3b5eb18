"""Measures with a memory, shown every step of a training; one that has missed a step is measured no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from undertow.core.telling import tell
from undertow.measures.reading import Measure
from undertow.probe.faults import Faults
from undertow.probe.measured_network import MeasuredNetwork
from undertow.probe.preserve_state import preserve_state
from undertow.probe.tracking import Tracked
from undertow.training.taken import StepTaken

__all__ = ["Observing"]


class Observing:
    """Those of a probe's ``measures`` that are shown the steps, by their places.

    ``following`` are those that have seen every step, ``missed`` the places of those that have not: what such a measure
    reads is of all steps, so without one of them it would be half true.
    """

    def __init__(
        self,
        measures: Sequence[Measure],
        places: Iterable[int],
        faults: Faults,
        *,
        missed: Iterable[int] = (),
    ) -> None:
        self._faults = faults
        self.missed = set(missed)
        self.following = {
            place: each
            for place in places
            if isinstance(each := measures[place], Tracked) and each.observes and place not in self.missed
        }
        # What another process follows it remembers.
        self._elsewhere = {place for place, each in enumerate(measures) if isinstance(each, Tracked)} - set(
            places
        )
        if self.missed:
            names = ", ".join(dict.fromkeys(measures[place].name for place in sorted(self.missed)))
            tell(
                f"{names} had missed a step when this state was saved, or was followed by another process: it is not "
                "measured."
            )

    @property
    def not_to_save(self) -> list[int]:
        """Those of which the memory here is not whole."""
        return sorted(self.missed | self._elsewhere)

    def show(self, measured: MeasuredNetwork, taken: StepTaken, step: int) -> None:
        """The optimiser has made this step; who cannot take it in is told of, and is measured no more."""
        seen: nn.Module | None = None
        for place, measure in list(self.following.items()):
            # Until it has been taken in, the step is missing: an interrupt by hand may come at any moment.
            self.missed.add(place)
            del self.following[place]
            with self._faults.told(
                f"{measure.name} could not follow step {step}",
                "What it reads is of all steps, so it is measured no more. ",
            ):
                seen = measured.seen() if seen is None else seen
                with preserve_state(seen):
                    measure.tracker.observe(seen, taken)
                self.missed.discard(place)
                self.following[place] = measure

    def miss(self, first: int, last: int) -> None:
        """Nobody was shown the steps from one to the other, if there are any; who needs them is measured no more."""
        if self.following and first <= last:
            self.missed |= self.following.keys()
            names = ", ".join(dict.fromkeys(each.name for each in self.following.values()))
            self.following = {}
            tell(
                f"the probe was not shown steps {first} to {last}, without which {names} would be half true and is "
                "measured no more: call probe.step() after every step of the optimiser, or follow the optimiser."
            )
