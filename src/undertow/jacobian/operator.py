"""Per-sample Jacobians of any network as operators: batched products, one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.autograd import forward_ad

from undertow.core.enclosing import rows_of
from undertow.core.errors import ModelError
from undertow.core.networks import DenseChain, read_dense
from undertow.core.outputs import OutputChoice
from undertow.jacobian.layered import LayeredOperator, scaled_gram
from undertow.jacobian.lean_derivatives import LeanDerivatives
from undertow.jacobian.preconditions import Network, check_network, prepare
from undertow.jacobian.rounding import Pullbacks
from undertow.jacobian.trace import leave_no_trace

__all__ = ["AutogradOperator", "JacobianOperator", "jacobian_operator", "slow_to_resize"]


@runtime_checkable
class JacobianOperator(Protocol):
    """The N Jacobians J(x_i), each of shape (out_size, in_size), as two batched products.

    Vectors are flat: ``jvp`` takes (N, in_size) to (N, out_size), ``vjp`` back.
    ``constant`` says that all N Jacobians are the same matrix.
    """

    batch: int
    in_size: int
    out_size: int
    dtype: torch.dtype
    device: torch.device
    constant: bool

    def jvp(self, tangent: Tensor) -> Tensor: ...

    def vjp(self, cotangent: Tensor) -> Tensor: ...

    def normal(self, vector: Tensor) -> Tensor:
        """JᵀJ v, or JJᵀ v where the output is no larger than the input: (N, smaller side) to itself."""
        ...

    def take(self, index: Tensor) -> JacobianOperator:
        """The operator of some of the samples only."""
        ...

    def rows(self) -> Tensor:
        """All Jacobians, dense, of shape (N, out_size, in_size)."""
        ...

    def columns(self) -> Tensor:
        """All Jacobians transposed, dense, of shape (N, in_size, out_size)."""
        ...

    def gram(self) -> tuple[Tensor, Tensor, Pullbacks]:
        """Gram matrices of the Jacobians' smaller side, divided by scale², the scales (N,), and several Jᵀv."""
        ...


def slow_to_resize(operator: JacobianOperator) -> bool:
    """Whether another number of samples costs more than a few products: a GPU prepares convolutions for each number."""
    return operator.device.type == "cuda" and not isinstance(operator, LayeredOperator)


class AutogradOperator:
    """Jacobian products of any differentiable function through autograd, without vmap.

    In eval mode the samples of a batch are independent, so one vector-Jacobian product of the batch
    is every sample's product. The graph of that product g(v) = Jᵀv is itself recorded once; g is
    linear in v, and its own transpose is the Jacobian-vector product: J u = (∂⟨g(v), u⟩/∂v). So one
    forward and one backward pass serve any number of products of both kinds. Where some layer has no
    second derivative, which one adjoint test shows, J u falls back to forward-mode AD and repeats the
    forward pass every time.

    ``arithmetic`` gives the context in which the network and all products are computed: in float64, or with noise.
    ``products`` is the precision of vectors and, where layers know how, of products, if that is not the network's own.
    """

    constant = False

    def __init__(
        self,
        f: Network,
        x: Tensor,
        *,
        arithmetic: Callable[[], AbstractContextManager[object]] = nullcontext,
        products: torch.dtype | None = None,
    ) -> None:
        self._f, self._products = f, products
        self._x = x.detach()
        self._arithmetic = arithmetic
        # operators outlive the call that made them
        with torch.inference_mode(False), torch.enable_grad(), arithmetic():
            self._leaf = self._x.clone().requires_grad_()
            # A copy goes in, because the network may work in place on its input.
            with LeanDerivatives(products):
                self._output = f(self._leaf.clone())
        self.batch = x.shape[0]
        self.in_size = x[0].numel()
        self.out_size = self._output[0].numel()
        self.dtype = products or self._output.dtype
        self.device = x.device
        self._pullback: tuple[Tensor, Tensor] | None = None
        self._forward_mode: bool | None = None  # decided at the first product

    def vjp(self, cotangent: Tensor) -> Tensor:
        if not self._output.requires_grad:
            return torch.zeros(self.batch, self.in_size, dtype=self.dtype, device=self.device)
        with self._arithmetic():
            gradient = _gradient(self._output, self._leaf, cotangent.to(self._output).view_as(self._output))
        if gradient is None:
            return torch.zeros(self.batch, self.in_size, dtype=self.dtype, device=self.device)
        return gradient.reshape(self.batch, -1).to(self.dtype)

    def jvp(self, tangent: Tensor) -> Tensor:
        if not self._output.requires_grad:
            return torch.zeros(self.batch, self.out_size, dtype=self.dtype, device=self.device)
        if self._forward_mode is None:
            self._forward_mode = not self._transposition_works(tangent)
        return (
            self._jvp_by_forward_mode(tangent) if self._forward_mode else self._jvp_by_transposition(tangent)
        )

    def _transposition_works(self, tangent: Tensor) -> bool:
        """Whether J u through the graph is the adjoint of Jᵀ v: ⟨J u, v⟩ = ⟨u, Jᵀ v⟩ for one random v.

        A layer without a second derivative may raise, or silently drop out of the graph.
        """
        generator = torch.Generator(device=self.device).manual_seed(0)
        size = (self.batch, self.out_size)
        v = torch.randn(size, generator=generator, dtype=self.dtype, device=self.device)
        try:
            image = self._jvp_by_transposition(tangent)
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            return False
        # In float32 products of these are zero where the network makes little of its input.
        image, v, tangent, pulled = (each.double() for each in (image, v, tangent, self.vjp(v)))
        gap = ((image * v).sum(1) - (tangent * pulled).sum(1)).abs()
        scale = image.norm(dim=1) * v.norm(dim=1) + tangent.norm(dim=1) * pulled.norm(dim=1)
        return bool((gap <= 1e-3 * scale).all())

    def _jvp_by_transposition(self, tangent: Tensor) -> Tensor:
        if self._pullback is None:
            with torch.inference_mode(False), torch.enable_grad(), self._arithmetic():
                cotangent = torch.zeros_like(self._output, requires_grad=True)
                product = _gradient(self._output, self._leaf, cotangent, create_graph=True)
                self._pullback = (cotangent, torch.zeros_like(self._leaf) if product is None else product)
        cotangent, pulled = self._pullback
        with self._arithmetic():
            vector = tangent.to(pulled).view_as(pulled)
            image = _gradient(pulled, cotangent, vector) if pulled.requires_grad else None
        if image is None:
            return torch.zeros(self.batch, self.out_size, dtype=self.dtype, device=self.device)
        return image.reshape(self.batch, -1).to(self.dtype)

    def _jvp_by_forward_mode(self, tangent: Tensor) -> Tensor:
        try:
            with torch.no_grad(), forward_ad.dual_level(), self._arithmetic():
                dual = forward_ad.make_dual(self._x.clone(), tangent.to(self._x).view_as(self._x))  # type: ignore[no-untyped-call]
                image: Tensor | None = forward_ad.unpack_dual(self._f(dual)).tangent  # type: ignore[no-untyped-call]
        except (RuntimeError, NotImplementedError) as error:
            raise ModelError(
                "some layer has neither a second derivative nor a forward-mode one, so J·u cannot be formed: "
                f"use method='exact' (needs only gradients), or replace the layer. PyTorch says: {error}"
            ) from error
        if image is None:
            return torch.zeros(self.batch, self.out_size, dtype=self.dtype, device=self.device)
        return image.reshape(self.batch, -1).to(self.dtype)

    def normal(self, vector: Tensor) -> Tensor:
        if self.out_size <= self.in_size:
            return self.jvp(self.vjp(vector))
        return self.vjp(self.jvp(vector))

    def take(self, index: Tensor) -> AutogradOperator:
        own = rows_of(self._f, index), self._x[index]
        taken = AutogradOperator(*own, arithmetic=self._arithmetic, products=self._products)
        taken._forward_mode = self._forward_mode  # the same layers
        return taken

    @property
    def output(self) -> Tensor:
        """What the network gives for the samples, (N, …)."""
        return self._output.detach()

    def rows(self) -> Tensor:
        return _dense(self.vjp, self.out_size, self)

    def columns(self) -> Tensor:
        return _dense(self.jvp, self.in_size, self)

    def gram(self) -> tuple[Tensor, Tensor, Pullbacks]:
        if self.out_size <= self.in_size:
            return scaled_gram(self.rows(), transposed=False)
        return scaled_gram(self.columns(), transposed=True)


def _gradient(
    output: Tensor, leaf: Tensor, cotangent: Tensor, *, create_graph: bool = False
) -> Tensor | None:
    """The vector-Jacobian product of ``output``, keeping its graph; None where it does not depend on ``leaf``."""
    found: tuple[Tensor | None, ...] = torch.autograd.grad(
        output, leaf, cotangent, retain_graph=True, create_graph=create_graph, allow_unused=True
    )
    return found[0]


def _dense(product: Callable[[Tensor], Tensor], size: int, operator: AutogradOperator) -> Tensor:
    """One product per basis vector, stacked: (N, size, other side)."""
    stacked = []
    for index in range(size):
        basis = torch.zeros(operator.batch, size, dtype=operator.dtype, device=operator.device)
        basis[:, index] = 1
        stacked.append(product(basis))
    return torch.stack(stacked, dim=1)


def jacobian_operator(
    f: Network,
    x: Tensor,
    *,
    dtype: torch.dtype | None = None,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> JacobianOperator:
    """The per-sample Jacobians of ``f`` at ``x``, shape (N, …), as an operator.

    Args:
        f: a network in eval mode, or any function (N, …) → (N, …) that treats every sample alone.
        x: samples (N, …), or token ids.
        dtype: of the computation; by default that of the network.
        output: which of the network's outputs: a name, a place, a function; by default the obvious one, "logits".
        extras: what the network takes beside x, by name, a row for each sample: {"attention_mask": mask}.

    >>> net = torch.nn.Linear(3, 2, bias=False)
    >>> op = jacobian_operator(net, torch.ones(5, 3))
    >>> torch.equal(op.vjp(torch.ones(5, 2))[0], net.weight.sum(0))
    True
    """
    f, x = prepare(f, x, dtype, output=output, extras=extras)
    with leave_no_trace(f, device=x.device):
        check_network(f, x)
        layers = read_dense(f, inputs=x)
        if isinstance(layers, DenseChain):
            return LayeredOperator.at([layers], x)
        return AutogradOperator(f, x)
