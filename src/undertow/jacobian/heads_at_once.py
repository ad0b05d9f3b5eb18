"""The Jacobians of all heads of a network, one for each seam, from the same few backward passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from undertow.core.enclosing import innermost, rows_of
from undertow.core.outputs import first_tensor, with_first_tensor
from undertow.core.status import Status
from undertow.jacobian.choices import Ties
from undertow.jacobian.layered import scaled_gram
from undertow.jacobian.lean_derivatives import LeanDerivatives
from undertow.jacobian.memory import chunk_size, default_budget, filled_up, graph_bytes, in_chunks
from undertow.jacobian.operator import JacobianOperator
from undertow.jacobian.perturbation import Noise
from undertow.jacobian.plan import Plan
from undertow.jacobian.precisions import Precisions
from undertow.jacobian.promotion import Promoting, double_of
from undertow.jacobian.result import JacobianNorms, joined
from undertow.jacobian.rounding import Pullback, Pullbacks

__all__ = ["MOST_OUTPUTS", "head_norms"]

MOST_OUTPUTS = 64
"""Up to so many outputs a backward pass for each is cheaper than Lanczos for every head."""

Arithmetic = Callable[[], AbstractContextManager[object]]


def head_norms(
    net: nn.Module,
    x: Tensor,
    seams: Sequence[str],
    *,
    rtol: float = 1e-3,
    chunk: int | None = None,
    arithmetic: Arithmetic = nullcontext,
) -> list[JacobianNorms]:
    """‖J‖₂ at every sample of the whole network, then of its heads behind each seam, from input to output.

    With k outputs, k backward passes through the whole network give the gradients at every seam on their way: all
    heads cost what one does. The network has been checked, and k is at most ``MOST_OUTPUTS``. ``arithmetic`` gives the
    context in which the network is computed.

    >>> net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Tanh(), nn.Linear(1, 1, bias=False)).requires_grad_(False)
    >>> _ = net[0].weight.fill_(3.0), net[2].weight.fill_(2.0)
    >>> [round(norms.value.item(), 4) for norms in head_norms(net, torch.zeros(1, 1), ["0", "1"])]
    [6.0, 2.0, 2.0]
    """
    heads = _Heads(net, x, tuple(seams), arithmetic)
    few = heads.at(torch.arange(1, device=x.device))
    plan = Plan.choose(few.operator(0), len(x), method="exact", rtol=rtol)
    if chunk is None:
        kept = 4 * few.outputs * sum(few.sizes) * few.value.element_size()
        chunk = chunk_size(len(x), 4 * graph_bytes(net, x) + kept, default_budget(x.device))
    every = torch.arange(len(x), device=x.device)

    def work(part: slice) -> list[JacobianNorms]:
        own = heads.at(every[part])
        found = [plan.measure(own.precisions(place), None, None) for place in range(len(seams) + 1)]
        # Samples that one head needs in float64 are computed so for all of them: once.
        doubtful = torch.zeros(len(own.x), dtype=torch.bool, device=x.device)
        for norms in found:
            doubtful[plan.doubtful(norms)] = True
        index = doubtful.nonzero()[:, 0]
        if x.dtype is torch.float64 or len(index) == 0:
            return found
        index = filled_up(index, len(own.x)) if x.is_cuda else index
        better = heads.double.at(own.index[index])
        again = [plan.measure(better.precisions(place), None, None) for place in range(len(found))]
        return [
            norms.replaced(index, lambda _, other=other: other, good=Status.EXACT)  # type: ignore[misc]
            for norms, other in zip(found, again, strict=True)
        ]

    parts = list(in_chunks(len(x), chunk, work))
    return [joined([part[place] for part in parts]) for place in range(len(seams) + 1)]


@dataclass(frozen=True)
class _Heads:
    """A network with its seams, in one arithmetic."""

    net: nn.Module
    x: Tensor
    seams: tuple[str, ...]
    arithmetic: Arithmetic = nullcontext

    def at(self, index: Tensor) -> _HeadsAt:
        return _HeadsAt(self, index, self.x[index], self.arithmetic)

    @cached_property
    def double(self) -> _Heads:
        net = cast(nn.Module, double_of(self.net)).to(self.x.device)
        x = self.x.double()
        with (
            torch.no_grad(),
            Promoting() as mode,
        ):  # to look whether it is needed, which a cast within would decide
            rows_of(net, slice(0, 1))(x[:1])
        return _Heads(net, x, self.seams, Promoting if mode.needed else nullcontext)


@dataclass
class _HeadsAt:
    """One forward pass over some samples, and the gradients at its input and at every seam."""

    heads: _Heads
    index: Tensor
    x: Tensor
    arithmetic: Arithmetic
    value: Tensor = field(init=False)
    places: list[Tensor] = field(init=False)
    _moved: dict[tuple[int, int], list[Tensor]] = field(default_factory=dict)
    _ties: Ties = field(default_factory=Ties)

    def __post_init__(self) -> None:
        leaf = self.x.detach().clone().requires_grad_()
        found: dict[str, Tensor] = {}
        modules = dict(innermost(self.heads.net).named_modules())

        def keep(name: str) -> Callable[[nn.Module, Any, Any], Any]:
            def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
                tensor = first_tensor(output)
                assert tensor is not None
                found[name] = tensor
                # What follows may work in place, and gets a copy.
                return with_first_tensor(output, tensor.clone())

            return hook

        hooks = [modules[name].register_forward_hook(keep(name)) for name in self.heads.seams]
        try:
            with torch.enable_grad(), self.arithmetic(), LeanDerivatives():
                self.value = rows_of(self.heads.net, self.index)(leaf.clone())
        finally:
            for hook in hooks:
                hook.remove()
        self.places = [leaf, *(found[name] for name in self.heads.seams)]

    @property
    def outputs(self) -> int:
        return self.value[0].numel()

    @property
    def sizes(self) -> list[int]:
        return [place[0].numel() for place in self.places]

    def pulled_back(self, cotangent: Tensor) -> list[Tensor]:
        """Jᵀv of every head for v of shape (N, k): (N, size of the place) each."""
        if not self.value.requires_grad:
            return [torch.zeros_like(place).flatten(1) for place in self.places]
        with self.arithmetic():
            found = torch.autograd.grad(
                self.value, self.places, cotangent.view_as(self.value), retain_graph=True, allow_unused=True
            )
        return [
            (torch.zeros_like(place) if each is None else each).reshape(len(self.x), -1).detach()
            for place, each in zip(self.places, found, strict=True)
        ]

    @cached_property
    def rows(self) -> list[Tensor]:
        """The Jacobians of all heads, dense, (N, k, size of the place) each."""
        basis = torch.eye(self.outputs, dtype=self.value.dtype, device=self.value.device)
        pulled = [self.pulled_back(row.expand(len(self.x), -1).contiguous()) for row in basis]
        return [torch.stack([row[place] for row in pulled], 1) for place in range(len(self.places))]

    def operator(self, place: int) -> JacobianOperator:
        return _HeadOperator(self, place)

    def precisions(self, place: int) -> Precisions:
        """What a plan needs of one head; what the heads share is computed once, and float64 for all of them."""
        return Precisions(self.operator(place), partial(self._perturbed, place), None, ties=self._ties)

    def _perturbed(self, place: int, draw: int) -> Pullback:
        """Jᵀv with noise, of the samples in another order; the vectors are the same ones for every head."""
        calls = iter(range(2**30))

        def pull(cotangent: Tensor) -> Tensor:
            key = (draw, next(calls))
            if key not in self._moved:
                order, moved = self._noisy(draw)
                back = torch.argsort(order)
                self._moved[key] = [each[back] for each in moved.pulled_back(cotangent[order])]
            return self._moved[key][place]

        return pull

    def _noisy(self, draw: int) -> tuple[Tensor, _HeadsAt]:
        known: dict[int, tuple[Tensor, _HeadsAt]] = self.__dict__.setdefault("_noise", {})
        if draw not in known:
            ties = self._ties if draw == 0 else None
            noise = Noise(self.x.dtype, self.x.device, seed=draw, ties=ties)
            order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(0)).to(self.x.device)
            given = self.arithmetic  # not ``self``, which keeps the result: nothing of the two would be freed

            @contextmanager
            def arithmetic() -> Iterator[None]:
                with given(), noise.mode():
                    yield

            moved = _HeadsAt(self.heads, self.index[order], noise(self.x[order]), arithmetic)
            known.clear()  # one at a time: each keeps the graph of a forward pass
            known[draw] = (order, moved)
        return known[draw]


class _HeadOperator:
    """One head's Jacobians, dense from the rows that all heads share."""

    constant = False

    def __init__(self, at: _HeadsAt, place: int) -> None:
        self._at, self._place = at, place
        self.batch, self.in_size, self.out_size = len(at.x), at.sizes[place], at.outputs
        self.dtype, self.device = at.value.dtype, at.value.device

    def rows(self) -> Tensor:
        return self._at.rows[self._place]

    def columns(self) -> Tensor:
        return self.rows().mT.contiguous()

    def vjp(self, cotangent: Tensor) -> Tensor:
        return torch.einsum("nk,nkd->nd", cotangent, self.rows())

    def jvp(self, tangent: Tensor) -> Tensor:
        return torch.einsum("nd,nkd->nk", tangent, self.rows())

    def normal(self, vector: Tensor) -> Tensor:
        return self.jvp(self.vjp(vector)) if self.out_size <= self.in_size else self.vjp(self.jvp(vector))

    def take(self, index: Tensor) -> JacobianOperator:
        return self._at.heads.at(self._at.index[index]).operator(self._place)

    def gram(self) -> tuple[Tensor, Tensor, Pullbacks]:
        if self.out_size <= self.in_size:
            return scaled_gram(self.rows(), transposed=False)
        return scaled_gram(self.columns(), transposed=True)
