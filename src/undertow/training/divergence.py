"""Which members still run, and why the others stopped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

__all__ = ["DivergenceWatch", "MemberState"]

_NEVER = 2**62
EXPLODED = 1e6


@dataclass(frozen=True)
class MemberState:
    """Where one member stands; ``reason`` is a sentence when it diverged.

    ``tries`` is how often it has passed over the data, where epochs may be taken back; ``step`` counts what was kept.
    """

    status: Literal["running", "finished", "diverged"]
    step: int
    reason: str | None = None
    tries: int | None = None


class DivergenceWatch:
    """Notes on the device, without asking the host, at which step each member's loss was first out of bounds.

    Out of bounds is NaN, infinite, or above a million times the loss at the start (or a million, where that
    is more): a member whose loss has once been there takes no further step.
    """

    def __init__(self, initial: Tensor, *, dtype: torch.dtype) -> None:
        finite = torch.isfinite(initial)
        bound = EXPLODED * initial.clamp(min=1.0)
        largest = torch.finfo(dtype).max
        # A start that is not finite is out of bounds at once: no loss is ≤ -1.
        self.ceiling = torch.where(finite, bound.clamp(max=largest), -1.0).to(dtype)
        self.step = torch.full(initial.shape, _NEVER, dtype=torch.int64, device=initial.device)
        self.loss = torch.zeros_like(self.ceiling)

    def look(self, loss: Tensor, step: Tensor) -> Tensor:
        """Note the losses (M,) met before update number ``step``; which members go on, (M,) bool."""
        # False < True: out of bounds now and not before. A comparison with NaN is false.
        newly = (loss <= self.ceiling) < (self.step == _NEVER)
        torch.where(newly, loss, self.loss, out=self.loss)
        torch.where(newly, step, self.step, out=self.step)
        return self.step == _NEVER

    @property
    def out(self) -> Tensor:
        """Which members have stopped, (M,) bool on the device."""
        return self.step != _NEVER

    def diverged(self) -> list[bool]:
        """Which members have stopped (waits for the device)."""
        return self.out.tolist()

    def state(self, index: int, *, learning_rate: float) -> MemberState:
        """Step and reason of a member that diverged."""
        step, loss = int(self.step[index]), float(self.loss[index])
        advice = f"a learning rate below {learning_rate:g} may help."
        if step == 0:
            return MemberState("diverged", 0, f"The training loss was {_word(loss)} before the first step.")
        if math.isfinite(loss):
            text = f"The training loss reached {loss:.3g} at step {step}, beyond all bounds: {advice}"
        else:
            text = f"The training loss became {_word(loss)} at step {step}: {advice}"
        return MemberState("diverged", step, text)


def _word(loss: float) -> str:
    return "not a number" if math.isnan(loss) else f"{loss:g}" if math.isfinite(loss) else "infinite"
