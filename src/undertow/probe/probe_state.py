"""What a probe remembers of its training, as plain numbers, words and tensors: saved, and given back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.network_copies import copy_of
from undertow.measures.reading import Measure, TrackingMeasure
from undertow.probe.prepared_measures import begun
from undertow.probe.records import COLUMNS, Record
from undertow.probe.tracking import Tracked, restore_all, state_of_all

__all__ = ["check_state", "memory_of", "records_of", "restored", "rows_of", "weights_of"]


def rows_of(records: Sequence[Record]) -> list[list[Any]]:
    """Records as plain lists, which every way of saving knows.

    >>> record = Record("", 7, 1, "energy", "", 0.5, None)
    >>> rows_of([record]), records_of(rows_of([record])) == [record]
    ([['', 7, 1, 'energy', '', 0.5, None]], True)
    """
    return [[getattr(record, name) for name in COLUMNS] for record in records]


def records_of(rows: Sequence[Sequence[Any]]) -> list[Record]:
    """The records again."""
    return [Record(*row) for row in rows]


def weights_of(net: nn.Module) -> dict[str, Tensor]:
    """Copies of the network's parameters and buffers, by their names."""
    return {name: tensor.detach().clone() for name, tensor in _named(net)}


def memory_of(measures: Sequence[Measure]) -> dict[str, Tensor]:
    """What those with a memory remember, each tensor's name led by the measure's place and name."""
    return {name: tensor.detach().clone() for name, tensor in state_of_all(_keyed(measures)).items()}


def restored(
    given: Sequence[Measure | TrackingMeasure],
    net: nn.Module,
    training: tuple[Tensor, Tensor, float] | None,
    state: Mapping[str, Any],
) -> tuple[Measure, ...]:
    """The measures that a probe was given, with a memory of the training that began at the saved start."""
    if not state.get("memory"):
        return tuple(begun(measure, net, training) for measure in given)
    start, saved = copy_of(net), state["start"]
    if {name: tensor.shape for name, tensor in _named(start)} != {
        n: tensor.shape for n, tensor in saved.items()
    }:
        raise InputError(
            "the state is of the training of another network, whose weights have other names or shapes: give that of "
            "this network's probe."
        )
    with torch.no_grad():
        for name, tensor in _named(start):
            tensor.copy_(saved[name])
    device = next((parameter.device for parameter in net.parameters()), None)
    measures = tuple(begun(measure, start, training) for measure in given)
    restore_all(_keyed(measures), {name: tensor.to(device) for name, tensor in state["memory"].items()})
    return measures


def check_state(state: Any, measures: Sequence[Measure]) -> None:
    """Refuse what is no state of a probe, or is one of a probe with other measures."""
    counts = [state.get(name) for name in ("step", "epoch")] if isinstance(state, Mapping) else [None]
    if not all(isinstance(count, int) for count in counts):
        raise InputError("this is no state of a probe: give what probe.state_dict() has returned.")
    names = [measure.name for measure in measures]
    if state.get("measures", names) != names:
        raise InputError(
            f"the state is of a probe that measured {', '.join(state['measures'])}, and this one measures "
            f"{', '.join(names)}: give it the same measures in the same order."
        )
    following = [measure.name for measure in measures if isinstance(measure, Tracked)]
    if following and state["step"] and "memory" not in state:
        raise InputError(
            f"{', '.join(following)} follows the training from its first step, and this one goes on at step "
            f"{state['step']}: save probe.state_dict() with every checkpoint and give it to load_state_dict, or leave "
            "it out."
        )


def _named(net: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from net.named_parameters()
    yield from net.named_buffers()


def _keyed(measures: Sequence[Measure]) -> dict[str, Measure]:
    return {f"{place}:{measure.name}": measure for place, measure in enumerate(measures)}
