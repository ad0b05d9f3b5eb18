"""A probe as a callback of the Trainer of transformers."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from undertow.core.errors import InputError
from undertow.core.telling import tell
from undertow.core.unwrapping import unwrapped
from undertow.probe.adapters.resuming import resume
from undertow.probe.probe import Probe
from undertow.probe.records import Record
from undertow.probe.sinks import Log
from undertow.probe.state_files import mark_of, read_state, write_state

__all__ = ["TransformersProbe"]


def _callback_class() -> type[Any]:
    try:
        found: type[Any] = importlib.import_module("transformers").TrainerCallback
    except ImportError:
        return object
    return found


_Callback: Any = _callback_class()


class TransformersProbe(_Callback):  # type: ignore[misc]
    """Measure while ``Trainer.train`` runs: ``Trainer(…, callbacks=[TransformersProbe(batch, measures=[…])])``.

    Steps are the optimiser's (``state.global_step``), so gradient accumulation counts once; each with the learning rate
    that it was made with. Records are in ``callback.records``, and in ``state.log_history`` as far as they are numbers.
    Another training of the same model goes on; another model has a probe, and ``records``, of its own. What the probe
    remembers is in the Trainer's checkpoints, and ``resume_from_checkpoint`` goes on with it; from a checkpoint without
    it the count goes on.

    Args:
        batch: what the model is given: a dictionary as a collator makes it (``input_ids`` or ``pixel_values``, an
            ``attention_mask``, ``labels``), or the points alone.
        measures: as for :class:`undertow.Probe`.
        labels: the points' labels, where the batch has none.
        log: whether records are added to ``state.log_history``.
        options: go to :class:`undertow.Probe`: ``every``, ``budget``, ``sinks``, ``output``, ….
    """

    def __init__(
        self,
        batch: Mapping[str, Tensor] | Tensor,
        *,
        measures: Sequence[Any],
        labels: Tensor | None = None,
        log: bool = True,
        **options: Any,
    ) -> None:
        if _Callback is object:
            raise InputError("TransformersProbe needs transformers: pip install 'undertow[transformers]'.")
        self.x, self.extras, own = _parted(batch)
        self.y = own if labels is None else labels
        self.measures, self.options, self.log = measures, options, log
        self.probe: Probe | None = None
        self._rate: float | None = None
        self._history: list[Any] = []

    @property
    def records(self) -> list[Record]:
        """What has been measured so far."""
        return [] if self.probe is None else self.probe.records

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        self._history = state.log_history
        if self.probe is not None and self.probe.net is unwrapped(model):
            return
        device = next(model.parameters()).device
        sinks = [*self.options.get("sinks", ())]
        if self.log:
            sinks.append(Log(lambda found: self._history.append(dict(found))))
        extras = {name: extra.to(device) for name, extra in self.extras.items()}
        options = {"extras": extras, **self.options, "sinks": sinks}
        if state.global_step:  # resumed: what it was like here has been measured
            options["at_start"] = False
        self.probe = Probe(
            model,
            self.x.to(device),
            None if self.y is None else self.y.to(device),
            measures=self.measures,
            **options,
        )
        if state.global_step:
            epoch = int((state.epoch or 0) + 1e-6)
            saved = read_state(self._file(args, state)) or {"step": state.global_step, "epoch": epoch}
            resume(self.probe, saved, epoch=epoch)

    def on_pre_optimizer_step(self, *_: Any, optimizer: Any = None, **__: Any) -> None:
        if optimizer is not None:  # after the step the scheduler has gone on
            self._rate = float(optimizer.param_groups[0]["lr"])

    def _file(self, args: Any, state: Any) -> Path:
        """Where the Trainer keeps what it has at this step."""
        mark = mark_of(self.measures, self.x, self.y)
        return (
            Path(args.output_dir) / f"checkpoint-{state.global_step}" / f"undertow-probe-{mark}.safetensors"
        )

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        path = self._file(args, state)
        if self.probe is None or not state.is_world_process_zero or not path.parent.is_dir():
            return
        try:
            write_state(path, self.probe.state_dict())
        except OSError as error:
            tell(
                f"{path} could not be written ({error}): a training that resumes here has a probe without a past."
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        if self.probe is not None:
            self.probe.step(rate=self._rate)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        if self.probe is not None:
            self.probe.epoch_end()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        if self.probe is not None:
            self.probe.training_end()


_INPUTS = ("input_ids", "pixel_values", "input_values", "input_features", "x")


def _parted(batch: Mapping[str, Tensor] | Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
    """The points, what else the model takes, and the labels."""
    if isinstance(batch, Tensor):
        return batch, {}, None
    rest = dict(batch)
    labels = rest.pop("labels", None)
    name = next((each for each in _INPUTS if each in rest), None)
    if name is None:
        raise InputError(f"the batch has none of {', '.join(_INPUTS)}: give the points themselves.")
    return rest.pop(name), rest, labels
