"""The measures with a memory of a group: shown every step, taken back with epochs, saved with checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from torch import Tensor, nn

from undertow.core.stacked_members import StackedMembers
from undertow.data.dataset import Dataset
from undertow.measures.reading import Measure, Tracker, informed
from undertow.probe.tracking import Tracked, begin_tracking, remembers, restore_all, state_of_all
from undertow.training import Trainer
from undertow.training.taken import StepTaken

__all__ = ["GroupTrackers", "of_each_member"]


def of_each_member(measure: Measure, points: Sequence[Dataset], trainer: Trainer) -> list[Measure]:
    """The measure of each network, told what its data know, or a tracker where it has a memory of the training."""
    told = {id(each): informed(measure, each.details) for each in points}
    own = [told[id(each)] for each in points]
    if not remembers(own[0]):
        return own
    return [
        begin_tracking(each, trainer.network(index), *trainer.data(index), learning_rate=rate)
        for index, (each, rate) in enumerate(zip(own, trainer.first_rates(), strict=True))
    ]


class GroupTrackers:
    """The trackers among ``measures``, lists with an entry for each member, of networks that ``network`` gives."""

    def __init__(
        self,
        measures: Sequence[Sequence[Measure]],
        trainer: Trainer,
        network: Callable[[int], nn.Module],
    ) -> None:
        self._measures, self._trainer, self._network = measures, trainer, network
        self.observe_steps = any(True for _ in self._observing())
        self._before: dict[int, dict[str, Tensor]] = {}
        if trainer.revocable:
            self._remember()

    def observe(self) -> None:
        """Tell them what became of the last step; called after every one."""
        self._trainer.show()
        steps, networks = self._trainer.taken(), self._trainer.together(self._network)
        for measure in self._measures:
            shown: dict[int, tuple[Tracker, StepTaken]] = {}
            for index, (own, taken) in enumerate(zip(measure, steps, strict=True)):
                if isinstance(own, Tracked) and own.observes and taken is not None:
                    if not taken.accepted:
                        own.tracker.restore(self._before[id(own)])
                    shown[index] = own.tracker, taken
            self._show_step(shown, networks)
        if self._trainer.revocable and self._trainer.step % self._trainer.steps_per_epoch == 0:
            self._remember()

    def _show_step(self, shown: Mapping[int, tuple[Tracker, StepTaken]], networks: StackedMembers) -> None:
        """A step to one measure's trackers, by their members: at once where they can take it so."""
        trackers = [tracker for tracker, _ in shown.values()]
        batched = getattr(trackers[0], "observe_batched", None) if trackers else None
        if batched is not None:
            batched(trackers, networks, list(shown))
            return
        for index, (tracker, taken) in shown.items():
            tracker.observe(self._network(index), taken)

    def _remember(self) -> None:
        """Keep what they know at the beginning of a try, for those whose network goes back there."""
        self._before = {
            id(own): {name: tensor.clone() for name, tensor in own.tracker.state().items()}
            for own in self._observing()
        }

    def state(self) -> dict[str, Tensor]:
        """Their tensors, and those from before the try under way."""
        before = {
            f"before/{key}/{name}": tensor
            for key, own in self._keyed().items()
            for name, tensor in self._before.get(id(own), {}).items()
        }
        return {**state_of_all(self._keyed()), **before}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Give them their tensors back, on the trainer's device."""
        here = {name: tensor.to(self._trainer.device) for name, tensor in state.items()}
        restore_all(self._keyed(), {name: t for name, t in here.items() if not name.startswith("before/")})
        self._before = {
            id(own): {
                name.removeprefix(f"before/{key}/"): tensor
                for name, tensor in here.items()
                if name.startswith(f"before/{key}/")
            }
            for key, own in self._keyed().items()
            if isinstance(own, Tracked)
        }

    def _observing(self) -> Iterator[Tracked]:
        """Those that are shown every step."""
        for measure in self._measures:
            yield from (own for own in measure if isinstance(own, Tracked) and own.observes)

    def _keyed(self) -> dict[str, Measure]:
        """Each by a name that no other has: the measure's place in the list, and the member."""
        return {
            f"{place}/{member}": own
            for place, measure in enumerate(self._measures)
            for member, own in enumerate(measure)
        }
