"""A probe as a callback of Lightning."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.unwrapping import unwrapped
from undertow.probe.adapters.resuming import resume
from undertow.probe.probe import Probe
from undertow.probe.probe_state import records_of
from undertow.probe.records import Record
from undertow.probe.sinks import Log
from undertow.probe.state_files import mark_of

__all__ = ["LightningProbe"]


def _callback_class() -> type[Any]:
    """``Callback`` of the package that trains here: both names of Lightning have one."""
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in sorted(names, key=lambda each: each not in sys.modules):
        try:
            found: type[Any] = importlib.import_module(name).Callback
            return found
        except ImportError:
            continue
    return object


_Callback: Any = _callback_class()


class LightningProbe(_Callback):  # type: ignore[misc]
    """Measure while ``Trainer.fit`` runs: ``Trainer(callbacks=[LightningProbe(x, y, measures=[…])])``.

    Steps are the optimiser's (``trainer.global_step``), so gradient accumulation counts once; each with the learning
    rate that it was made with. Records are in ``callback.records`` and go to the trainer's loggers. Another call of
    ``fit`` for the same network goes on; another network has a probe, and ``records``, of its own. What the probe
    remembers is in the trainer's checkpoints, and ``fit(ckpt_path=…)`` goes on with it.

    Args:
        x, y: the points, moved to the module's device, and to its precision where that is higher.
        measures: as for :class:`undertow.Probe`.
        network: which part of the LightningModule is measured; by default all of it, its ``forward``.
        log: whether records go to the trainer's loggers.
        options: go to :class:`undertow.Probe`: ``every``, ``budget``, ``sinks``, ``output``, ….
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor | None = None,
        *,
        measures: Sequence[Any],
        network: Callable[[Any], nn.Module] | None = None,
        log: bool = True,
        **options: Any,
    ) -> None:
        if _Callback is object:
            raise InputError("LightningProbe needs Lightning: pip install 'undertow[lightning]'.")
        super().__init__()
        self.x, self.y, self.measures, self.network, self.log = x, y, measures, network, log
        self.options = options
        self.probe: Probe | None = None
        self._steps = 0
        self._rate: float | None = None
        self._loggers: Sequence[Any] = ()
        self._saved: dict[str, Any] = {}  # from a checkpoint, until there is a probe to take it

    @property
    def records(self) -> list[Record]:
        """What has been measured so far."""
        return records_of(self._saved.get("records", ())) if self.probe is None else self.probe.records

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        net = pl_module if self.network is None else self.network(pl_module)
        self._steps, self._loggers = trainer.global_step, trainer.loggers if self.log else ()
        saved, self._saved = self._saved, {}
        if self.probe is None or self.probe.net is not unwrapped(net):
            if not saved and self._steps:  # the checkpoint was made without this callback
                saved = {"step": self._steps, "epoch": trainer.current_epoch}
            self.probe = self._probe_of(net, pl_module.device, resumed=bool(saved))
        if saved:
            resume(self.probe, saved, epoch=trainer.current_epoch)

    def _probe_of(self, net: nn.Module, device: torch.device, *, resumed: bool) -> Probe:
        sinks = [*self.options.get("sinks", ()), Log(self._to_loggers)]
        x, y = _in_precision_of(net, self.x.to(device)), None if self.y is None else self.y.to(device)
        options = {**self.options, "sinks": sinks}
        if resumed:
            options["at_start"] = False
        return Probe(net, x, y, measures=self.measures, **options)

    @property
    def state_key(self) -> str:
        """By what this callback is found in a checkpoint, among others on other points or with other measures."""
        return f"LightningProbe {mark_of(self.measures, self.x, self.y)}"

    def state_dict(self) -> dict[str, Any]:
        return {} if self.probe is None else self.probe.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._saved = state_dict

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:  # noqa: ARG002
        self._rate = float(optimizer.param_groups[0]["lr"])  # afterwards a scheduler may have changed it

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        assert self.probe is not None
        made, self._steps = trainer.global_step - self._steps, trainer.global_step
        if made:  # several, where a batch is for several optimisers: the network is seen after the last
            self.probe.step(rate=self._rate, made=made)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        if self.probe is not None:
            self.probe.epoch_end()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        if self.probe is not None:
            self.probe.training_end()

    def _to_loggers(self, found: dict[str, Any]) -> None:
        metrics = {name: value for name, value in found.items() if name != "step"}
        for logger in self._loggers:
            logger.log_metrics(metrics, step=found["step"])


def _in_precision_of(net: nn.Module, x: Tensor) -> Tensor:
    """The points as a network trained in float64 takes them; nothing is lost by that."""
    own = {parameter.dtype for parameter in net.parameters() if parameter.is_floating_point()}
    return x.double() if x.is_floating_point() and own == {torch.float64} else x
