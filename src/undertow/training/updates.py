"""Updates one after the other, on a GPU as one launch each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from undertow.core.compiling import compiled
from undertow.training.batches import Batches, Turn
from undertow.training.capture import capture
from undertow.training.step import Step

__all__ = ["Updates"]


class Updates:
    """What a step does with each batch; on a GPU the first full batch is captured, and later ones replay that.

    With ``compile_picking`` batches are picked by compiled code.
    """

    def __init__(self, step: Step, batches: Batches, *, compile_picking: bool) -> None:
        self._step, self._batches = step, batches
        self._picked = compiled(batches.picked) if compile_picking else batches.picked
        self.may_capture = self._on_a_gpu
        self.replay: Callable[[], None] | None = None

    @property
    def _on_a_gpu(self) -> bool:
        return self._step.ensemble.device.type == "cuda"

    def make(self, number: int, turns: Sequence[Turn] | None) -> None:
        """Update ``number``, counted from 0 over all epochs; ``turns`` are each member's epoch and try."""
        if self._step.use_statistics_of(number):  # steps are others from now on
            self.replay, self.may_capture = None, self._on_a_gpu
        full = self._batches.full(number)
        if self.may_capture and full:
            self._capture(number, turns)
        if self.replay is None or not full:
            self._step.take(*self._batches.at(number, turns))
        else:
            self._batches.turn_to(number, turns)
            self.replay()

    def _capture(self, number: int, turns: Sequence[Turn] | None) -> None:
        """Capture the step on a full batch, which it picks by the number of the step on the device."""
        self.may_capture = False
        self._batches.turn_to(number, turns)
        step, picked = self._step, self._picked
        self.replay = capture(lambda: step.take(*picked(step.count)), changed=list(step.tensors().values()))
