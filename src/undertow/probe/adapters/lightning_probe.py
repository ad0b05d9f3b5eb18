"""A probe as a callback of Lightning."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.probe.probe import Probe
from undertow.probe.records import Record
from undertow.probe.sinks import Log

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

    Steps are the optimiser's (``trainer.global_step``), so gradient accumulation counts once. Records are in
    ``callback.probe.records`` and go to the trainer's loggers.

    Args:
        x, y: the points, moved to the module's device.
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

    @property
    def records(self) -> list[Record]:
        """What has been measured so far."""
        return [] if self.probe is None else self.probe.records

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self.probe is not None:
            return  # another call of fit goes on with the same probe
        net = pl_module if self.network is None else self.network(pl_module)
        sinks = [*self.options.pop("sinks", ())]
        if self.log:
            sinks += [Log(_to(logger)) for logger in trainer.loggers]
        device = pl_module.device
        y = None if self.y is None else self.y.to(device)
        self._steps = trainer.global_step
        self.probe = Probe(net, self.x.to(device), y, measures=self.measures, sinks=sinks, **self.options)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        assert self.probe is not None
        while self._steps < trainer.global_step:
            self._steps += 1
            self.probe.step()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        if self.probe is not None:
            self.probe.epoch_end()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        if self.probe is not None:
            self.probe.training_end()


def _to(logger: Any) -> Callable[[dict[str, Any]], None]:
    def log(found: dict[str, Any]) -> None:
        logger.log_metrics(
            {name: value for name, value in found.items() if name != "step"}, step=found["step"]
        )

    return log
