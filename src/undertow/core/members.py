"""Several networks as members of one: the same architecture with weights of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from undertow.core.compiling import compiled

__all__ = [
    "Aside",
    "convolves",
    "first_unlike",
    "mostly_convolves",
    "one_after_another",
    "over_members",
    "side_by_side",
]

State = Mapping[str, Tensor]
Found = TypeVar("Found")
_CONVOLUTIONS = (nn.modules.conv._ConvNd,)


def first_unlike(networks: Sequence[nn.Module]) -> int | None:
    """The place of the first network whose architecture is not that of ``networks[0]``; None where all are alike.

    Alike are networks that print the same and whose parameters and buffers have the same names and shapes.

    >>> first_unlike([nn.Linear(3, 2), nn.Linear(3, 2), nn.Linear(3, 1)])
    2
    """
    architectures = map(_architecture, networks)
    first = next(architectures)
    return next((place for place, other in enumerate(architectures, start=1) if other != first), None)


def _architecture(network: nn.Module) -> tuple[str, dict[str, torch.Size]]:
    held = (*network.named_parameters(), *network.named_buffers())
    return str(network), {name: tensor.shape for name, tensor in held}


def over_members(
    template: nn.Module, *, one_by_one: bool = False
) -> Callable[[State, State, Tensor, bool], Tensor]:
    """A function of parameters (M, …), buffers (M, …), samples and whether each member has samples of its own.

    It gives the outputs (M, B, …) of samples (B, …), or (M, B, …) where they are the members' own. Networks are
    mapped with ``torch.func.vmap``, except where there are convolutions: mapped over their weights these become
    grouped ones, which take two to three times as long as one member after the other. With ``one_by_one`` all are
    taken so: a forward pass may then change a member's buffers.

    >>> nets = [nn.Linear(3, 2) for _ in range(4)]
    >>> state, buffers = torch.func.stack_module_state(nets)
    >>> batched = over_members(nets[0])(state, buffers, torch.ones(5, 3), False)
    >>> torch.allclose(batched[1], nets[1](torch.ones(5, 3)))
    True
    """

    if one_by_one or convolves(template):
        each = one_after_another(template)

        def in_turn(weights: State, constants: State, x: Tensor, own: bool) -> Tensor:
            members = len(next(iter(weights.values())))
            return each(_apart(weights, members), _apart(constants, members), x, own)

        return in_turn

    def mapped(weights: State, constants: State, x: Tensor, own: bool) -> Tensor:
        one = partial(_called, template)
        outputs: Tensor = vmap(one, in_dims=(0, 0, 0 if own else None))(dict(weights), dict(constants), x)
        return outputs

    return mapped


def convolves(template: nn.Module) -> bool:
    """Whether the network has a convolution."""
    return any(isinstance(module, _CONVOLUTIONS) for module in template.modules())


def mostly_convolves(template: nn.Module) -> bool:
    """Whether convolutions hold more weights than everything else.

    >>> mostly_convolves(nn.Sequential(nn.Conv1d(1, 4, 5), nn.Linear(4, 2)))
    True
    """
    convolving = sum(each.weight.numel() for each in template.modules() if isinstance(each, _CONVOLUTIONS))
    return 2 * convolving > sum(parameter.numel() for parameter in template.parameters())


def one_after_another(
    template: nn.Module, *, faster: bool = False
) -> Callable[[Sequence[State], Sequence[State], Tensor, bool], Tensor]:
    """A function of each member's parameters and buffers, samples and whether each member has samples of its own.

    On a GPU, while a graph is being captured, members are branches of it. With ``faster`` the network is compiled.
    """
    call = compiled(partial(_called, template)) if faster else partial(_called, template)

    def outputs(states: Sequence[State], buffers: Sequence[State], x: Tensor, own: bool) -> Tensor:
        samples = x.unbind(0) if own else [x] * len(states)
        calls = [partial(call, *each) for each in zip(states, buffers, samples, strict=True)]
        found = side_by_side(calls, like=x)
        return torch.stack(found) if len(found) > 1 else found[0].unsqueeze(0)

    return outputs


def _called(template: nn.Module, weights: State, constants: State, x: Tensor) -> Tensor:
    outputs: Tensor = functional_call(template, (dict(weights), dict(constants)), (x,))
    return outputs


_STREAMS: dict[torch.device, list[torch.cuda.Stream]] = {}


def side_by_side(calls: Sequence[Callable[[], Found]], *, like: Tensor) -> list[Found]:
    """The results of the calls, which are about tensors ``like`` this: branches of a graph that is being captured.

    Elsewhere one comes after the other. Small convolutions then fill a GPU together. Backward passes run on the streams
    of their forward ones, and what follows on the present stream waits for all of them.
    """
    if len(calls) == 1 or not (like.is_cuda and torch.cuda.is_current_stream_capturing()):
        return [call() for call in calls]
    here = torch.cuda.current_stream()
    streams = _STREAMS.setdefault(here.device, [])
    while len(streams) < len(calls):
        streams.append(torch.cuda.Stream(here.device))  # type: ignore[no-untyped-call]
    results = []
    for stream, call in zip(streams, calls, strict=False):
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            results.append(call())
    for stream in streams[: len(calls)]:
        here.wait_stream(stream)
    return results


class Aside:
    """What nothing waits for until the end of a step: on a GPU, in a graph that is being captured, a branch of it.

    Elsewhere it is done at once. Tensors that a call reads must not be written on the present stream before ``wait``.

    >>> aside, total = Aside(torch.zeros(1)), torch.zeros(1)
    >>> aside.do(lambda: total.add_(2))
    >>> aside.wait(), total.item()
    (None, 2.0)
    """

    def __init__(self, like: Tensor) -> None:
        capturing = like.is_cuda and torch.cuda.is_current_stream_capturing()
        self._here = torch.cuda.current_stream(like.device) if capturing else None
        self._stream = None if self._here is None else _beside(self._here)
        self._calls: list[
            Callable[[], object]
        ] = []  # with their tensors, whose memory none else may take meanwhile

    def do(self, call: Callable[[], object]) -> None:
        """Do it after all that has been asked of the present stream so far."""
        if self._stream is None or self._here is None:
            call()
            return
        self._stream.wait_stream(self._here)
        with torch.cuda.stream(self._stream):
            call()
        self._calls.append(call)

    def wait(self) -> None:
        """Whatever comes next on the present stream comes after it."""
        if self._stream is not None and self._here is not None and self._calls:
            self._here.wait_stream(self._stream)
        self._calls.clear()


_BESIDE: dict[int, torch.cuda.Stream] = {}


def _beside(stream: torch.cuda.Stream) -> torch.cuda.Stream:
    """The stream that goes with this one."""
    if stream.cuda_stream not in _BESIDE:
        _BESIDE[stream.cuda_stream] = torch.cuda.Stream(stream.device)  # type: ignore[no-untyped-call]
    return _BESIDE[stream.cuda_stream]


def _apart(stacked: State, members: int) -> list[dict[str, Tensor]]:
    """Each member's tensors. ``unbind``, because its gradient is one stack; that of indexing fills zeros M times."""
    parts = {name: tensor.unbind(0) for name, tensor in stacked.items()}
    return [{name: part[index] for name, part in parts.items()} for index in range(members)]
