"""Streams of the pretended GPU, and which operations on the same memory do not wait for each other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tests.pretended_gpu.nested import tensors_in
from tests.pretended_gpu.tensors import GPU

__all__ = ["RaceError", "Stream", "Uses", "memory_of"]


class RaceError(RuntimeError):
    """Two streams use the same memory, and neither waits for the other."""


class Stream:
    """A queue of operations; ``seen`` says up to which operation of each stream it comes after."""

    _count = 0

    def __init__(self, *_: object, **__: object) -> None:
        Stream._count += 1
        self.device, self.cuda_stream = GPU, Stream._count
        self.seen: dict[int, int] = {self.cuda_stream: 0}

    def wait_stream(self, other: Stream) -> None:
        for stream, number in other.seen.items():
            self.seen[stream] = max(self.seen.get(stream, 0), number)

    def synchronize(self) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)


@dataclass(frozen=True)
class _Use:
    """A piece of memory as it was read or written, by which operation of which stream."""

    begin: int
    end: int
    writes: bool
    stream: int
    number: int
    what: str


class Uses:
    """Who has used which memory."""

    def __init__(self) -> None:
        self._known: dict[int, list[_Use]] = {}
        self._last: dict[int, int] = {}
        self._home: dict[int, Stream] = {}  # of which stream memory is, and is again once no tensor holds it
        self._holders: Counter[int] = Counter()
        self._free: dict[int, list[_Use]] = {}

    def held(self, tensor: Tensor) -> int:
        """Note one more tensor that holds a piece of memory, and tell which."""
        self._holders[memory_of(tensor)] += 1
        return memory_of(tensor)

    def let_go(self, memory: int) -> None:
        """Note one fewer: what no tensor holds is given to the next one of its stream, whoever else still uses it."""
        self._holders[memory] -= 1
        home = self._home.get(memory)
        if home is not None and not self._holders[memory]:
            self._free.setdefault(home.cuda_stream, []).extend(self._known[memory])

    def _given_again(self, stream: Stream) -> RaceError | None:
        """What is wrong where a new tensor of this stream may get memory that another stream still uses."""
        for use in self._free.pop(stream.cuda_stream, []):
            if stream.seen.get(use.stream, 0) < use.number:
                return RaceError(
                    f"{use.what} on stream {use.stream} uses what stream {stream.cuda_stream} may give away"
                )
        return None

    def unjoined(self, stream: Stream) -> RaceError | None:
        """What is wrong where a stream has not waited for all that was done on others."""
        left = [other for other, number in self._last.items() if stream.seen.get(other, 0) < number]
        return RaceError(f"stream {stream.cuda_stream} does not wait for streams {left}") if left else None

    def note(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any, *, stream: Stream
    ) -> RaceError | None:
        """Note what an operation reads and writes, and tell whether another stream may be doing so at the same time."""
        if any(each.alias_info is not None and not each.alias_info.is_write for each in func._schema.returns):
            return None  # a view reads nothing
        stream.seen[stream.cuda_stream] += 1
        self._last[stream.cuda_stream] = stream.seen[stream.cuda_stream]
        written = {
            id(each)
            for place, argument in enumerate(func._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
            for each in tensors_in(args[place] if place < len(args) else kwargs.get(argument.name))
        }
        given = tensors_in(args) + tensors_in(kwargs)
        fresh = tensors_in(found)
        uses = [(each, id(each) in written) for each in given]
        fresh = [each for each in fresh if memory_of(each) not in set(map(memory_of, given))]
        self._home |= {memory_of(each): stream for each in fresh}
        uses += [(each, True) for each in fresh]
        races = [self._use(tensor, writes, f"{func}", stream) for tensor, writes in uses]
        races += [self._given_again(stream)] if fresh else []
        return next((race for race in races if race is not None), None)

    def _use(self, tensor: Tensor, writes: bool, what: str, stream: Stream) -> RaceError | None:
        own, (begin, end) = stream.cuda_stream, _extent(tensor)
        known = self._known.setdefault(memory_of(tensor), [])
        meet = (
            use
            for use in known
            if use.begin < end and begin < use.end and (writes or use.writes)
            if stream.seen.get(use.stream, 0) < use.number
        )
        other = next(meet, None)
        known.append(_Use(begin, end, writes, own, stream.seen[own], what))
        if other is None:
            return None
        return RaceError(f"{what} on stream {own} does not wait for {other.what} on stream {other.stream}")


def memory_of(tensor: Tensor) -> int:
    """Which piece of memory a tensor is a view of."""
    return int(tensor.untyped_storage()._cdata)


def _extent(tensor: Tensor) -> tuple[int, int]:
    """The first number of its memory that a tensor reaches, and the one after the last."""
    begin = int(tensor.storage_offset())
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + int(reach) + 1 if tensor.numel() else begin
