"""A probe that follows an optimiser: the loop itself stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.core.errors import InputError

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from undertow.probe.probe import Probe

__all__ = ["Following", "follow"]


class Following:
    """The bond between an optimiser and a probe, until ``remove()`` or the end of a ``with`` block.

    The end of the block is the end of training: everything is measured once more.
    """

    probe: Probe

    def __init__(self, optimizer: Optimizer, probe: Probe, steps_per_epoch: int | None) -> None:
        for hook in list(optimizer._optimizer_step_post_hooks.values()):
            earlier = getattr(hook, "__self__", None)
            if isinstance(earlier, Following) and earlier.probe is probe:
                earlier.remove()  # a notebook's cell that is run again would count every step twice
        self.probe = probe
        self._steps = 0
        self._steps_per_epoch = steps_per_epoch
        self._hook = optimizer.register_step_post_hook(self._stepped)

    def _stepped(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        # A fused optimiser is called by GradScaler also where it is to leave the weights as they are. Only the device
        # knows, so that these alone are waited for at every step.
        overflown = getattr(optimizer, "found_inf", None)
        if overflown is not None and bool(overflown):
            return
        self._steps += 1
        self.probe.step(rate=float(optimizer.param_groups[0]["lr"]))
        if self._steps_per_epoch is not None and self._steps % self._steps_per_epoch == 0:
            self.probe.epoch_end()

    def remove(self) -> None:
        """The probe is told no more."""
        self._hook.remove()

    def __enter__(self) -> Following:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.remove()
        if kind is None:
            self.probe.training_end()


def follow(optimizer: Optimizer, probe: Probe, *, steps_per_epoch: int | None = None) -> Following:
    """Tell ``probe`` of every step that ``optimizer`` makes, without a change to the loop.

    It is the optimiser's steps that count: under gradient accumulation one for several batches, and none where mixed
    precision skips one. An optimiser that ``accelerate`` prepared is followed inside. Followed again, it tells the
    probe of each step once.

    Args:
        optimizer: of several that take turns, the one whose steps count.
        probe: what is told; at the end of the ``with`` block also that training has ended.
        steps_per_epoch: after how many steps the probe is told of an epoch; without, call ``probe.epoch_end()``
            yourself, or measure by steps (``every=100``).

    >>> import torch, undertow as ut
    >>> from undertow.probe import StableRank
    >>> net = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> probe = ut.Probe(net, torch.ones(1, 2), measures=[StableRank()], every=2)
    >>> with follow(optimizer, probe):
    ...     for _ in range(4):
    ...         net(torch.ones(1, 2)).sum().backward()
    ...         optimizer.step()
    >>> [record.step for record in probe.records]
    [0, 2, 4]
    """
    inner = getattr(optimizer, "optimizer", optimizer)  # as accelerate wraps it; its own step may make none
    if isinstance(inner, list | tuple):
        raise InputError(
            f"{len(inner)} optimisers, of which the probe follows one: give the one whose steps count, the last that "
            "steps for a batch."
        )
    if not hasattr(inner, "register_step_post_hook"):
        raise InputError(
            f"{type(optimizer).__name__} is no torch.optim.Optimizer: call probe.step() after its steps instead."
        )
    if steps_per_epoch is not None and steps_per_epoch < 1:
        raise InputError(f"steps_per_epoch = {steps_per_epoch}: an epoch has at least one step.")
    return Following(inner, probe, steps_per_epoch)
