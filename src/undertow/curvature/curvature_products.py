"""Products of the Hessian or the Gauss–Newton matrix with vectors, for one network or several of one architecture.

    H v = ∇⟨∇L(w), v⟩ ,        G v = Jᵀ ∇²ℓ J v .

Fully connected networks have their products written by hand (:mod:`undertow.curvature.dense_products`). Of any other
network the graph of the gradient is recorded once and kept where memory allows; every product then is one backward pass
through it, which for the first layer, often the largest, takes half the time of forward-over-reverse mode: nothing of
the network itself is computed again. Samples that do not fit are recorded anew in chunks at every product. J v is the
transpose of v ↦ Jᵀv, which is linear, so both matrices ask of a layer that its backward pass can be differentiated, and
no more (an LSTM has no forward mode).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial, reduce
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call

from undertow.core.errors import InputError
from undertow.core.grouped_products import GroupedProducts
from undertow.core.members import over_members
from undertow.curvature.chosen_parameters import ChosenParameters
from undertow.curvature.dense_products import DenseNetwork
from undertow.curvature.loss_over_samples import LossOverSamples
from undertow.curvature.plain_derivatives import PlainDerivatives
from undertow.curvature.recorded_products import Product, recorded_gauss_newton, recorded_hessian
from undertow.jacobian.memory import chunk_size, default_budget, in_chunks, within_memory
from undertow.jacobian.promotion import Promoting

__all__ = ["CurvatureMatrix", "CurvatureProducts"]

CurvatureMatrix = Literal["hessian", "gauss-newton"]
_GRAPH = 4  # times what products by hand keep
Arithmetic = Callable[[], AbstractContextManager[object]]


class CurvatureProducts:
    """The symmetric matrices (P, P) of M networks on the same samples, as a product of vectors (M, P).

    ``arithmetic`` gives the context in which everything is computed: in float64, or with noise. ``dense`` are the
    layers of a fully connected network.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        chosen: ChosenParameters,
        x: Tensor,
        objective: LossOverSamples,
        *,
        matrix: CurvatureMatrix,
        dtype: torch.dtype,
        chunk: int | None = None,
        memory_budget: int | None = None,
        arithmetic: Arithmetic = nullcontext,
        keep: bool = True,
        counter: Counter[str] | None = None,
        dense: DenseNetwork | None = None,
        times: Tensor | None = None,
    ) -> None:
        self.networks, self.chosen, self.objective = list(networks), chosen, objective
        self.matrix, self.dtype, self.device = matrix, dtype, x.device
        self._options = {"chunk": chunk, "memory_budget": memory_budget}
        self._arithmetic, self._keep, self._given_x = arithmetic, keep, x
        self._x = x.detach().to(dtype) if x.is_floating_point() else x
        labels = objective.labels.to(x.device)
        self._labels = labels.to(dtype) if labels.is_floating_point() else labels
        self._times = None if times is None else times.to(self._x.device, dtype)
        parameters = [dict(net.named_parameters()) for net in self.networks]
        rest = [name for name in parameters[0] if name not in chosen.names]
        self._leaves = [
            self._stacked([own[name] for own in parameters]).requires_grad_() for name in chosen.names
        ]
        self._frozen = {name: self._stacked([own[name] for own in parameters]) for name in rest}
        buffers = [dict(net.named_buffers()) for net in self.networks]
        self._buffers = {name: self._stacked([own[name] for own in buffers]) for name in buffers[0]}
        self.count, self.size = len(self.networks), chosen.size
        self._counter = Counter() if counter is None else counter
        self._recorded: list[Product] | None = None
        self._chunk = 0
        # In another arithmetic everything goes through autograd: that repeats what is written by hand another way.
        self._dense, self._read = (dense if arithmetic is nullcontext else None), dense

    def _stacked(self, tensors: list[Tensor]) -> Tensor:
        stacked = torch.stack([tensor.detach() for tensor in tensors])
        return stacked.to(self.dtype) if stacked.is_floating_point() else stacked

    @property
    def products(self) -> int:
        """How many have been taken, by these and by all that were made from them."""
        return self._counter["products"]

    def __call__(self, vectors: Tensor) -> Tensor:
        """H v for vectors (M, P), in this precision."""
        self._counter["products"] += 1
        return self._image(vectors)

    def several(self, vectors: Tensor) -> Tensor:
        """H v of one network for vectors (K, P), as many at once as memory allows where they are written by hand."""
        self._counter["products"] += len(vectors)
        room = self.budget // (2 * self._bytes_per_sample() * len(self)) if self._dense is not None else 1
        return torch.cat([self._image(some) for some in torch.split(vectors, max(1, room))])

    def _image(self, vectors: Tensor) -> Tensor:
        pieces = self.chosen.apart(vectors.to(self.dtype))
        if not self._chunk:
            self._plan()
        recorded = self._recorded or ()
        total = within_memory(lambda: _added(product(pieces) for product in recorded)) if recorded else None
        if total is None:
            self._recorded = None  # where there were any, no memory is left beside them
            total = _added(in_chunks(len(self._x), self._chunk, lambda part: self._record(part)(pieces)))
        return self.chosen.together(total)

    def _plan(self) -> None:
        """How many samples at a time, and whether the graphs of all of them are kept."""
        chunk = self._options["chunk"]
        if chunk is not None and chunk < 1:
            raise InputError(f"chunk must be at least 1, not {chunk}.")
        budget = self.budget
        per_sample = self._bytes_per_sample()
        samples = len(self._x)
        # Twice, because the backward pass through the graph holds about as much again.
        self._chunk = chunk_size(samples, 2 * per_sample, budget) if chunk is None else chunk
        if self._keep and per_sample * samples <= budget / 2:
            self._recorded = list(in_chunks(samples, self._chunk, self._record))

    @property
    def budget(self) -> int:
        """Bytes that may be used."""
        budget = self._options["memory_budget"]
        if budget is not None and budget < 1:
            raise InputError(f"memory_budget = {budget} bytes: give at least 1, or leave it out.")
        return default_budget(self.device) if budget is None else budget

    def _bytes_per_sample(self) -> int:
        """What recording one more sample keeps: the difference between two samples and one."""
        if self._dense is not None:
            return self._dense.floats_per_sample(self.count) * self.dtype.itemsize
        few = [self._bytes(count) for count in (1, 2)]
        return max(few[1] - few[0], 1)

    def _bytes(self, count: int) -> int:
        seen: dict[int, tuple[Tensor, int]] = {}  # the tensors too, so that no address is used twice

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            seen[storage.data_ptr()] = (tensor.detach(), storage.nbytes())
            return tensor.detach()

        several = self._x[:1].expand(count, *self._x.shape[1:]).clone()
        labels = self._labels[:1].expand(count, *self._labels.shape[1:]).clone()
        with saved_tensors_hooks(pack, lambda tensor: tensor):
            self._record_samples(several, partial(self._total, labels, None))
        return sum(size for _, size in seen.values())

    # One chunk

    def _record(self, part: slice) -> Product:
        times = None if self._times is None else self._times[part]
        return self._record_samples(self._x[part], partial(self._total, self._labels[part], times))

    def _total(self, labels: Tensor, times: Tensor | None, outputs: Tensor) -> Tensor:
        """The loss of all networks together, from their outputs (M, n, …) on some of the samples."""
        return self.objective.total(outputs, labels, times).sum()

    def _record_samples(self, x: Tensor, total: Callable[[Tensor], Tensor]) -> Product:
        if self._dense is not None:
            return self._dense_product(x, total)
        without = _without_cudnn_recurrence(self.networks[0])
        with torch.enable_grad(), self._arithmetic(), without, PlainDerivatives(), GroupedProducts():
            outputs = self._outputs(x)
            recorded = recorded_hessian if self.matrix == "hessian" else recorded_gauss_newton
            product = recorded(outputs, total, self._leaves)

        def again(pieces: list[Tensor]) -> list[Tensor]:
            with self._arithmetic():
                return product(pieces)

        return again

    def _state(self) -> dict[str, Tensor]:
        return dict(zip(self.chosen.names, self._leaves, strict=True)) | self._frozen

    def _outputs(self, x: Tensor) -> Tensor:
        """The outputs (M, n, …) of all networks."""
        weights = self._state()
        # Copies go in, because a network may work in place on its input and on its buffers.
        if self.count > 1:
            buffers = {name: buffer.clone() for name, buffer in self._buffers.items()}
            return over_members(self.networks[0])(weights, buffers, x.clone(), False)
        own = {name: tensor.squeeze(0) for name, tensor in weights.items()}
        constants = {name: buffer[0].clone() for name, buffer in self._buffers.items()}
        outputs: Tensor = functional_call(self.networks[0], (own, constants), (x.clone(),))
        return outputs[None]

    def _dense_product(self, x: Tensor, total: Callable[[Tensor], Tensor]) -> Product:
        assert self._dense is not None
        product = self._dense.product(self._state(), x, total, hessian=self.matrix == "hessian")

        def listed(pieces: list[Tensor]) -> list[Tensor]:
            images = product(dict(zip(self.chosen.names, pieces, strict=True)))
            return [images[name] for name in self.chosen.names]

        return listed

    # Others of the same kind

    def take(self, index: Sequence[int]) -> CurvatureProducts:
        """The matrices of some of the networks only."""
        return self._like([self.networks[place] for place in index], self.dtype, self._arithmetic, self._keep)

    def once(self, arithmetic: Arithmetic) -> CurvatureProducts:
        """The same in another arithmetic, for so few products that no graph is worth keeping."""
        other = self._like(self.networks, self.dtype, arithmetic, False)
        other._chunk = self._chunk
        if self._read is not None:  # a graph keeps several times what products by hand do
            kept = _GRAPH * self._read.floats_per_sample(self.count) * self.dtype.itemsize
            other._chunk = min(self._chunk or len(self), chunk_size(len(self), kept, self.budget))
        return other

    def on_rows(self, index: Tensor, times: Tensor) -> CurvatureProducts:
        """The same from the samples ``index`` alone, each counted so many times; none of its products is counted."""
        labels = self.objective.labels[index.to(self.objective.labels.device)]
        samples = self._given_x[index.to(self.device)], replace(self.objective, labels=labels), times
        some = self._like(self.networks, self.dtype, self._arithmetic, False, samples=samples)
        some._counter = Counter()
        return some

    @property
    def inputs(self) -> Tensor:
        """The samples (N, …)."""
        return self._x

    def __len__(self) -> int:
        """N, the number of samples."""
        return len(self._x)

    def in_float64(self) -> CurvatureProducts:
        """The same with everything in float64, also what a network or a loss holds or makes in float32."""
        plain = self._like(self.networks, torch.float64, nullcontext, self._keep)
        promoting = Promoting()
        trial = self._like(self.networks[:1], torch.float64, lambda: promoting, False)
        trial._record(slice(1))
        # The mode calls Python for every operation, so it is left out where nothing needs it.
        return self._like(self.networks, torch.float64, Promoting, self._keep) if promoting.needed else plain

    @property
    def promotes(self) -> bool:
        """Whether products are taken within :class:`Promoting`."""
        return self._arithmetic is Promoting

    def _like(
        self,
        networks: Sequence[nn.Module],
        dtype: torch.dtype,
        arithmetic: Arithmetic,
        keep: bool,
        *,
        samples: tuple[Tensor, LossOverSamples, Tensor | None] | None = None,
    ) -> CurvatureProducts:
        x, objective, times = samples or (self._given_x, self.objective, self._times)
        return CurvatureProducts(
            networks,
            self.chosen,
            x,
            objective,
            matrix=self.matrix,
            dtype=dtype,
            arithmetic=arithmetic,
            keep=keep,
            counter=self._counter,
            dense=self._read,
            times=times,
            **self._options,
        )


def _added(parts: Iterable[list[Tensor]]) -> list[Tensor]:
    """The sum of lists of as many tensors, at least one list."""
    return reduce(lambda total, part: [one + other for one, other in zip(total, part, strict=True)], parts)


def _without_cudnn_recurrence(net: nn.Module) -> AbstractContextManager[object]:
    """cuDNN's recurrent layers have no second derivative; PyTorch's own have."""
    recurrent = any(isinstance(module, nn.RNNBase) for module in net.modules())
    switched: AbstractContextManager[object] = torch.backends.cudnn.flags(enabled=False)
    return switched if recurrent else nullcontext()
