"""How far rounding can move a computation: the same computation with every result moved by a few roundings.

A residual cannot show rounding: it is computed by the same distorted products. Repeating a computation with each of its
operations' results changed at random by a little more than that operation may err (Monte Carlo arithmetic, Parker 1997)
does show it, whatever the network is made of: where layers cancel, where a softmax or a sigmoid is so saturated that
its slope is a difference of rounded numbers, where a hundred layers pass an error on. Where a maximum ties, one draw of
noise takes the first of those that tie and the next one the last (:mod:`undertow.jacobian.choices`).

Integers are exact, and so is what is made of them alone: counts of tokens, distances between positions. A count that is
one rounding short of 3 is 2 as soon as it becomes an integer again, in a network that nobody wrote.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from undertow.core.every_operation import EveryOperation
from undertow.jacobian.choices import Ties, chooses, chosen_otherwise, tie

__all__ = ["Noise"]

_ROUNDINGS = 2.0
"""The size of a perturbation in units of rounding; an operation errs by one half, a long sum by one or two."""
_OFFSETS = 4096
_UNTOUCHED = (
    *("copy_", "zero_", "fill_", "clone", "_to_copy", "index_put_"),
    *("constant_pad_nd", "_unsafe_view"),
)
"""What moves numbers without computing any."""
_FUSED: dict[str, Callable[..., Tensor]] = {
    "_log_softmax": lambda x, *_: torch.ones_like(x),
    "gelu": lambda x, *_: x.abs(),
    "gelu_backward": lambda slopes, *_: slopes.abs(),
}
"""What the error of an operation is relative to where larger numbers cancel inside it: log p of p near 1 is rounded
as p is, and so is the normal distribution function far below zero."""


class Noise:
    """Tensors moved entry by entry by a few roundings of their own precision, ``dtype`` or a ``coarser`` one.

    Whether numbers that are chosen from tie is told to ``ties``, where somebody asks.
    What is too small for its relative precision is set to zero: float32 has none below about 10⁻³⁸, and a result
    that depends on such a number is one that rounding decides.

    >>> noise = Noise(torch.float32, torch.device("cpu"))
    >>> moved = noise(torch.tensor([1.0, 0.0, 1e-36]))
    >>> bool(0 < (moved[0] - 1).abs() < 1e-6), moved[1:].tolist()
    (True, [0.0, 0.0])
    """

    def __init__(
        self,
        dtype: torch.dtype,
        device: torch.device,
        *,
        seed: int = 0,
        coarser: torch.dtype | None = None,
        ties: Ties | None = None,
    ) -> None:
        self.dtypes, self.device, self.ties = (dtype, coarser), device, ties
        self.upwards = seed % 2 == 1  # which of two that tie is chosen
        self._offsets = random.Random(seed)

    def __call__(self, tensor: Tensor) -> Tensor:
        return self.onto(tensor.detach().clone())

    def onto(self, tensor: Tensor) -> Tensor:
        """The tensor itself, moved: large ones are moved faster where they are."""
        if tensor.numel() == 0:
            return tensor
        tiny = _tiny(tensor.dtype)
        tensor.mul_(self._factors(tensor.numel(), tensor.dtype).view(tensor.shape))
        return torch.ops.aten.hardshrink.out(tensor, tiny, out=tensor)  # type: ignore[no-any-return]

    def beside(self, tensor: Tensor, sizes: Tensor) -> Tensor:
        """The tensor moved by a few roundings of these ``sizes``, not of its own."""
        moves = self._factors(tensor.numel(), tensor.dtype).view(tensor.shape) - 1
        return torch.addcmul(tensor, moves, sizes)

    def mode(self) -> EveryOperation:
        """Within it every operation that computes numbers of this precision gives perturbed ones."""
        return _Perturbing(self)

    def _factors(self, count: int, dtype: torch.dtype) -> Tensor:
        """Another stretch of one table for every result."""
        table = _factors(dtype, self.device)
        begin = self._offsets.randrange(_OFFSETS)
        if count > len(table) - _OFFSETS:
            table = table.repeat(count // (len(table) - _OFFSETS) + 1)
        return table[begin : begin + count]


@cache
def _tiny(dtype: torch.dtype) -> float:
    """10⁻³⁰ in float32, 10⁻²⁴⁶ in float64."""
    return float(torch.finfo(dtype).tiny ** 0.8)


@cache
def _factors(dtype: torch.dtype, device: torch.device) -> Tensor:
    """1 ± a few roundings, bounded away from 1: what one perturbation decides should not vanish by chance."""
    generator = torch.Generator().manual_seed(0)
    sizes, signs = torch.rand(2, 2**20 + _OFFSETS, generator=generator, dtype=torch.float64)
    unit = _ROUNDINGS * torch.finfo(dtype).eps
    factors: Tensor = 1 + unit * (0.7 + 0.6 * sizes).copysign(signs - 0.5)
    return factors.to(dtype).to(device)


class _Perturbing(EveryOperation):  # type: ignore[no-untyped-call]
    def __init__(self, noise: Noise) -> None:
        super().__init__()
        self.noise = noise
        self._exact: set[int] = set()  # memory of floating numbers that are made of integers

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        exact = all(map(self._is_exact, _tensors((*args, *kwargs.values()))))
        found = func(*args, **kwargs) if exact else self._called(func, args, kwargs)
        if exact or self._exact:
            written = [*_tensors((found,))]
            if _known(func).mutable:
                written += _tensors((*args[:1], kwargs.get("out")))
            memory = {each.untyped_storage().data_ptr() for each in written if _is_real(each)} - {0}
            self._exact = self._exact | memory if exact else self._exact - memory
        return found

    def _is_exact(self, tensor: Tensor) -> bool:
        return not _is_real(tensor) or tensor.untyped_storage().data_ptr() in self._exact

    def _called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        known = _known(func)
        found: Any = self._chosen(func, args, kwargs) if known.chooses else None
        found = func(*args, **kwargs) if found is None else found
        if known.returns == (_VIEW,) or (known.name in _UNTOUCHED and not self._is_rounded(found)):
            return found
        if known.name in _FUSED and found.dtype in self.noise.dtypes:
            found = self.noise.beside(found, _FUSED[known.name](*args))
        if len(known.returns) == 1:
            return self._moved(found, known.returns[0], args)
        returns = zip(found, known.returns, strict=True)
        return type(found)(self._moved(each, memory, args) for each, memory in returns)

    def _chosen(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...] | None:
        """What an operation gives where numbers that it chooses from are told apart; None where none tie."""
        ties = self.noise.ties
        if ties is not None and not ties.seen:
            ties.seen = tie(func, args, kwargs)
            if not ties.seen:
                return None
        return chosen_otherwise(func, args, kwargs, upwards=self.noise.upwards)

    def _is_rounded(self, result: Any) -> bool:
        """Whether numbers have been rounded to the coarser precision on their way."""
        return isinstance(result, Tensor) and result.dtype is self.noise.dtypes[1]

    def _moved(self, result: Any, memory: str, args: tuple[Any, ...]) -> Any:
        if memory == _VIEW or not (isinstance(result, Tensor) and result.dtype in self.noise.dtypes):
            return result  # a view shows numbers that another operation computed
        # What was computed in place is perturbed there; but an operation may give back its input without saying so.
        same = memory == _OWN and result.untyped_storage().data_ptr() in {
            each.untyped_storage().data_ptr() for each in args if isinstance(each, Tensor)
        }
        return self.noise(result) if same else self.noise.onto(result)


@dataclass(frozen=True)
class _Known:
    """What an operation's name and schema say, which are slow to ask at every call."""

    name: str
    chooses: bool
    mutable: bool
    returns: tuple[str, ...]


_OWN, _VIEW, _WRITTEN = "memory of its own", "a view", "what it was given, written to"


@cache
def _known(func: Any) -> _Known:
    aliases = [each.alias_info for each in func._schema.returns]
    returns = tuple(_OWN if each is None else _WRITTEN if each.is_write else _VIEW for each in aliases)
    return _Known(func.__name__.split(".")[0], chooses(func), func._schema.is_mutable, returns)


def _is_real(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for each in values:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, list | tuple):
            yield from _tensors(each)
