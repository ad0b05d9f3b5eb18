"""The Jacobians of the same samples in several arithmetics: as given, with every result perturbed, in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from undertow.core.enclosing import rows_of
from undertow.core.errors import ModelError
from undertow.core.members import convolves, mostly_convolves
from undertow.core.networks import DenseChain, read_dense
from undertow.jacobian.choices import Ties
from undertow.jacobian.layered import LayeredOperator
from undertow.jacobian.operator import AutogradOperator, JacobianOperator
from undertow.jacobian.perturbation import Noise
from undertow.jacobian.preconditions import PLACE_MATTERS, Network
from undertow.jacobian.promotion import Promoting, double_of
from undertow.jacobian.rounding import DRAWS, Pullback

__all__ = ["LayeredSamples", "NetworkSamples", "Precisions", "fast_double"]

_FAST_DOUBLE = ((8, 0), (9, 0))  # A100, H100 and their kin


@dataclass(frozen=True)
class Precisions:
    """The Jacobians of some samples as ``given``; Jᵀv with every result perturbed; and the same of some more precisely.

    ``perturbed`` takes the number of the draw of noise. ``better`` is None where there is nothing more precise.
    ``decided`` says that values are in float64, whatever products are in: no rounding is likely to switch a ReLU.
    ``ties`` hears of the first draw whether there are maxima, or other choices between numbers, that tie. ``runs``
    says of each sample to which of several runs that share their products it belongs.
    """

    given: JacobianOperator
    perturbed: Callable[[int], Pullback]
    better: Callable[[Tensor], Precisions] | None
    decided: bool = False
    ties: Ties | None = None
    runs: Tensor | None = None


@dataclass(frozen=True)
class NetworkSamples:
    """Samples of one network, or of a part of one whose input ``x`` the parts ``before`` it make of ``origin``.

    What is a part's input in another arithmetic is computed in that arithmetic from the beginning. ``products`` is the
    precision of products, where it is not that of values. With ``runs``, the number of a run for every sample, the
    same samples follow one another once for each of several measurements that share their products.
    """

    f: Network
    x: Tensor
    arithmetic: Callable[[], AbstractContextManager[object]] = nullcontext
    before: tuple[Network, ...] = ()
    origin: Tensor | None = None
    products: torch.dtype | None = None
    runs: Tensor | None = None

    @classmethod
    def behind(
        cls,
        f: Network,
        before: Sequence[Network],
        origin: Tensor,
        arithmetic: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> NetworkSamples:
        """The samples of the part that follows ``before``."""
        return cls(f, _through(before, origin, arithmetic), arithmetic, tuple(before), origin)

    @property
    def _source(self) -> Tensor:
        """The samples at the network's own input."""
        return self.x if self.origin is None else self.origin

    @cached_property
    def _layers(self) -> DenseChain | None:
        layers = read_dense(self.f, inputs=self.x)
        return layers if isinstance(layers, DenseChain) else None

    @cached_property
    def _double(self) -> NetworkSamples:
        # Devices without float64 leave it to the CPU.
        device = self.x.device if self.x.device.type in ("cpu", "cuda") else torch.device("cpu")
        *before, double = (_moved_to(double_of(each), device) for each in (*self.before, self.f))
        origin = self._source.to(device).double()
        with Promoting() as mode:
            _through([rows_of(each, slice(0, 1)) for each in (*before, double)], origin[:1], nullcontext)
        found = NetworkSamples.behind(double, before, origin, Promoting if mode.needed else nullcontext)
        return replace(found, runs=None if self.runs is None else self.runs.to(device))

    @cached_property
    def _better(self) -> NetworkSamples:
        """Where rounding shows: values in float64 with products as they were, if convolutions are most of them.

        Rounding shows because it switches ReLUs, which a pass over values in float64 puts right once for all products.
        """
        convolves_ = isinstance(self.f, nn.Module) and convolves(self.f)
        if self.products is not None or not convolves_ or self._double.arithmetic is not nullcontext:
            return self.double
        return replace(self._double, products=self.x.dtype)

    def refuse_places(self) -> None:
        """Refuse a network for which a sample's place in the batch matters, as shown by a few samples in other orders.

        Whatever these do not show, the perturbed products of all samples do: they come in another order.
        """
        if self.structured or len(self.x) < 2:
            return
        chosen = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(0))[:12].to(
            self.x.device
        )
        try:
            self._compare_places(chosen)
        except torch.OutOfMemoryError:
            self._compare_places(chosen[:2])
        except AssertionError as error:
            raise ModelError(
                f"the network takes {len(chosen)} samples and no other number of them (exported or traced so?): "
                f"measure the module that it was made from. It says: {type(error).__name__}: {error}"
            ) from error

    def _compare_places(self, chosen: Tensor) -> None:
        few = self.x[chosen]
        generator = torch.Generator().manual_seed(0)
        orders = [
            torch.randperm(len(few), generator=generator)[:size].to(few.device)
            for size in (1, 2, 5, len(few))
        ]
        with torch.no_grad(), self.arithmetic():
            whole = rows_of(self.f, chosen)(few.clone())
            same = not any(
                _far(rows_of(self.f, chosen[order])(few[order].clone()), whole[order], 1e-4)
                for order in orders
            )
        if not same:
            self._refuse(chosen, orders)

    @property
    def structured(self) -> bool:
        """Whether the layers are all there is to the network, so that no autograd is needed."""
        return self._layers is not None

    def at(self, part: slice | Tensor) -> Precisions:
        """The Jacobians at some of the samples."""
        x, chosen = self.x[part], torch.arange(len(self.x), device=self.x.device)[part]
        if self._layers is not None and not self.before:
            return LayeredSamples([self._layers], x).span(0, len(self._layers.linears))
        if self._layers is not None:
            operator: JacobianOperator = LayeredOperator.at([self._layers], x)
        else:
            operator = AutogradOperator(
                rows_of(self.f, chosen), x, arithmetic=self.arithmetic, products=self.products
            )

        def better(index: Tensor) -> Precisions:
            return self._better.at(chosen[index].to(self._better.x.device))

        ties = Ties()
        perturbed = partial(self._perturbed, operator, chosen, ties)
        decided = x.dtype is torch.float64
        finest = decided and self.products is None
        runs = None if self.runs is None else self.runs[chosen]
        found = Precisions(operator, perturbed, None if finest else better, decided=decided, ties=ties)
        return replace(found, runs=runs)

    @property
    def double(self) -> NetworkSamples:
        """The same samples of the same network in float64."""
        if self.x.dtype is not torch.float64:
            return self._double
        return self if self.products is None else replace(self, products=None)

    @property
    def quickest(self) -> NetworkSamples:
        """In float64 where a GPU takes its products as fast as float32's: nothing is then computed a second time."""
        if self.structured or not fast_double(self.x.device):
            return self
        return self.double

    @property
    def decided(self) -> NetworkSamples:
        """With values in float64 from the beginning where convolutions hold most weights of a network on the CPU.

        A forward pass in float64 takes less time than to find out by products that rounding switches ReLUs.
        """
        convolutional = isinstance(self.f, nn.Module) and mostly_convolves(self.f)
        if self.structured or self.x.dtype is not torch.float32 or self.x.is_cuda or not convolutional:
            return self
        return self._better

    def by_autograd(self, part: slice | Tensor, *, draw: int | None = None) -> AutogradOperator:
        """The operator of some samples through autograd, as given or with a draw of noise."""
        chosen = torch.arange(len(self.x), device=self.x.device)[part]
        if draw is None:
            return AutogradOperator(rows_of(self.f, chosen), self.x[chosen], arithmetic=self.arithmetic)
        return self._moved(chosen, draw)

    def _moved(self, chosen: Tensor, draw: int, ties: Ties | None = None) -> AutogradOperator:
        origin = self._source[chosen]
        noise = Noise(origin.dtype, origin.device, seed=draw, coarser=self.products, ties=ties)

        @contextmanager
        def arithmetic() -> Iterator[None]:
            with self.arithmetic(), noise.mode():
                yield

        before = [rows_of(each, chosen) for each in self.before]
        x = _through(before, noise(origin), arithmetic)
        return AutogradOperator(rows_of(self.f, chosen), x, arithmetic=arithmetic, products=self.products)

    def _perturbed(self, operator: JacobianOperator, chosen: Tensor, ties: Ties, draw: int) -> Pullback:
        """Jᵀv with noise, of the samples in another order: their place in the batch must not matter either."""
        order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(0)).to(chosen.device)
        moved = self._moved(chosen[order], draw, ties if draw == 0 else None)
        if isinstance(operator, AutogradOperator) and _far(moved.output, operator.output[order], 1e-4):
            self._refuse(chosen, [order])
        back = torch.argsort(order)
        return lambda cotangent: moved.vjp(cotangent[order])[back]

    def _refuse(self, chosen: Tensor, orders: Sequence[Tensor]) -> None:
        """Refuse where f(x[order]) is not f(x)[order], in float64: many layers can make much of a float32 rounding."""
        f, arithmetic = self.double.f, self.double.arithmetic
        x = self.x[chosen].to(self.double.x)
        with torch.no_grad(), arithmetic():
            whole = rows_of(f, chosen)(x.clone())
            for order in orders:
                places = order.to(x.device)
                if _far(rows_of(f, chosen[order])(x[places].clone()), whole[places], 1e-6):
                    raise ModelError(PLACE_MATTERS)


@dataclass(frozen=True)
class LayeredSamples:
    """Samples (N, …) that several networks of one shape share, each a chain of linear layers and activations.

    One forward pass in each arithmetic serves every span of layers.
    """

    networks: Sequence[DenseChain]
    x: Tensor

    def span(self, begin: int, end: int) -> Precisions:
        """The Jacobians of some of the layers, network by network, at the values that reach them."""
        double = None if self.x.dtype is torch.float64 else partial(self._in_double, begin, end)
        return Precisions(
            self._given.span(begin, end), lambda draw: self._moved(draw).span(begin, end).vjp, double
        )

    @property
    def kept_bytes(self) -> int:
        """What the forward passes as given and with noise keep of one sample of one network."""
        return (1 + DRAWS) * sum(self._given.widths) * self.x.element_size()

    @cached_property
    def _given(self) -> LayeredOperator:
        return LayeredOperator.at(self.networks, self.x)

    @cached_property
    def _kept(self) -> dict[int, LayeredOperator]:
        return {}

    def _moved(self, draw: int) -> LayeredOperator:
        if draw not in self._kept:
            noise = Noise(self.x.dtype, self.x.device, seed=draw)
            self._kept[draw] = LayeredOperator.at(self.networks, self.x, noise=noise)
        return self._kept[draw]

    def _in_double(self, begin: int, end: int, index: Tensor) -> Precisions:
        count = len(self.x)
        rows, place = torch.unique(index % count, return_inverse=True)
        chosen = index // count * len(rows) + place  # of each network, the samples that any of them needs
        x = self.x[rows]
        x = x if x.device.type in ("cpu", "cuda") else x.cpu()  # where there is float64
        chosen = chosen.to(x.device)

        def at(noise: Noise | None) -> LayeredOperator:
            whole = LayeredOperator.at(self.networks, x, dtype=torch.float64, noise=noise)
            return whole.span(begin, end).take(chosen)

        return Precisions(at(None), lambda draw: at(Noise(torch.float64, x.device, seed=draw)).vjp, None)


def fast_double(device: torch.device) -> bool:
    """Whether matrix products in float64 take no longer than in float32: some GPUs have tensor cores for them."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) in _FAST_DOUBLE


def _through(
    parts: Sequence[Network], x: Tensor, arithmetic: Callable[[], AbstractContextManager[object]]
) -> Tensor:
    """What the parts make of the samples, one after the other."""
    with torch.no_grad(), arithmetic():
        for part in parts:
            x = part(x.clone())
    return x


def _moved_to(f: Network, device: torch.device) -> Network:
    return f.to(device) if isinstance(f, nn.Module) else f


def _far(one: Tensor, other: Tensor, share: float) -> bool:
    """Whether some sample's outputs differ by more than a share of the largest of them."""
    rows = len(one)
    gap, scale = (one - other).abs().reshape(rows, -1).amax(1), other.abs().reshape(rows, -1).amax(1)
    return not bool((gap <= share * scale).all())
