"""The structured form J = W_L D_{L−1} ⋯ D_1 W_1 of sequential nets of linear layers and activations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from undertow.core.layers import ActivationLayer
from undertow.core.networks import DenseChain
from undertow.jacobian.factor import Factor
from undertow.jacobian.perturbation import Noise
from undertow.jacobian.promotion import Promoting
from undertow.jacobian.rounding import Pullbacks

__all__ = ["LayeredOperator", "scaled_gram"]


class LayeredOperator:
    """Products with J(x_i) = D_L W_L ⋯ D_1 W_1 by masked matrix products; no autograd.

    ``slopes[l]`` holds the activation's derivatives at layer l, (N, width), or None where there is no
    activation; as booleans for ReLU on a GPU. With no activation at all, every sample has the same Jacobian.

    The samples may belong to several networks of one shape: ``counts[m]`` of them, network by network, to the m-th,
    and every factor then holds one matrix for each. With ``noise`` every layer's result is perturbed, in the forward
    pass and in :meth:`vjp`.
    """

    def __init__(
        self,
        factors: tuple[Factor, ...],
        slopes: tuple[Tensor | None, ...],
        counts: tuple[int, ...],
        noise: Noise | None = None,
    ) -> None:
        self.factors = factors
        self.slopes = slopes
        self.counts = counts
        self.noise = noise
        self.batch = sum(counts)
        self.widths = (factors[0].weight.shape[2], *(factor.weight.shape[1] for factor in factors))
        self.in_size, self.out_size = self.widths[0], self.widths[-1]
        self.dtype = factors[0].weight.dtype
        self.device = factors[0].weight.device
        self.constant = all(slope is None for slope in slopes)

    @classmethod
    def at(
        cls,
        networks: Sequence[DenseChain],
        x: Tensor,
        *,
        dtype: torch.dtype | None = None,
        noise: Noise | None = None,
    ) -> LayeredOperator:
        """The operator of several networks of one shape, or of one, at samples (N, …) that they share.

        Computed in ``dtype``, by default that of the networks.
        """
        x = x.detach() if dtype is None else x.detach().to(dtype)
        value = x.flatten(1) if x.dim() > 2 else x
        value = value if noise is None else noise(value)
        factors: list[Factor] = []
        slopes: list[Tensor | None] = []
        kinks = [depth for depth, activation in enumerate(networks[0].activations) if activation is not None]
        for depth in range(len(networks[0].linears)):
            linears = [each.linears[depth] for each in networks]
            factors.append(Factor(_stacked([linear.weight for linear in linears]).to(x.dtype)))
            if kinks and depth <= kinks[-1]:  # beyond the last activation no value matters
                value = _affine(value, factors[-1].weight, [linear.bias for linear in linears])
                value = value if noise is None else noise(value)
            slope = None
            if depth in kinks:
                with _arithmetic(dtype, noise):
                    value, slope = _value_and_slope([each.activations[depth] for each in networks], value)
            slopes.append(None if slope is None else slope.flatten(0, 1))
        return cls(tuple(factors), tuple(slopes), (len(x),) * len(networks), noise)

    def span(self, begin: int, end: int) -> LayeredOperator:
        """The Jacobians of the layers from ``begin`` up to ``end``, at the values that reach them here."""
        return LayeredOperator(self.factors[begin:end], self.slopes[begin:end], self.counts, self.noise)

    def jvp(self, tangent: Tensor) -> Tensor:
        for factor, slope in zip(self.factors, self.slopes, strict=True):
            tangent = factor.times(tangent, self.counts)
            if slope is not None:
                tangent = tangent.mul_(slope)
        return tangent

    def vjp(self, cotangent: Tensor) -> Tensor:
        for factor, slope in zip(reversed(self.factors), reversed(self.slopes), strict=True):
            if slope is not None:
                cotangent = cotangent * slope
            cotangent = factor.back(cotangent, self.counts)
            if self.noise is not None:
                cotangent = self.noise(cotangent)
        return cotangent

    def normal(self, vector: Tensor) -> Tensor:
        last = self.slopes[-1]
        if self._through_kernel:
            assert last is not None
            return self.factors[0].kernel.times(vector * last, self.counts).mul_(last)
        if self.out_size <= self.in_size:
            return self.jvp(self.vjp(vector))
        image = self.jvp(vector)
        if (
            last is not None and last.dtype != torch.bool
        ):  # a mask has been applied already, and twice is once
            image = image.mul_(last)
        image = self.factors[-1].back(image, self.counts)
        below = zip(reversed(self.factors[:-1]), reversed(self.slopes[:-1]), strict=True)
        for factor, slope in below:
            image = factor.back(image if slope is None else image.mul_(slope), self.counts)
        return image

    @property
    def _through_kernel(self) -> bool:
        """Whether JJᵀ = D W Wᵀ D, and no larger than JᵀJ: then W Wᵀ serves all samples.

        Not with layers behind it. Where they cancel what W stretches most, rounding grows by (‖W_L‖⋯‖W_1‖/‖J‖)² through
        W Wᵀ, and by the ratio itself through Wᵀ and W.
        """
        return len(self.factors) == 1 and self.slopes[0] is not None and self.out_size <= self.in_size

    def take(self, index: Tensor) -> LayeredOperator:
        slopes = tuple(None if slope is None else slope[index] for slope in self.slopes)
        counts: tuple[int, ...] = (len(index),)
        if len(self.counts) > 1:
            ends = torch.tensor(self.counts, device=index.device).cumsum(0)
            member = torch.bucketize(index, ends, right=True)
            counts = tuple(torch.bincount(member, minlength=len(self.counts)).tolist())
        return LayeredOperator(self.factors, slopes, counts, self.noise)

    def rows(self) -> Tensor:
        product = self._own(self.factors[-1].weight)
        if self.slopes[-1] is not None:
            product = product * self.slopes[-1][:, :, None]
        for factor, slope in zip(reversed(self.factors[:-1]), reversed(self.slopes[:-1]), strict=True):
            if slope is not None:
                product = product * slope[:, None, :]
            product = self._back(factor, product)
        return product

    def columns(self) -> Tensor:
        product = self._own(self.factors[0].weight.mT)
        for factor, slope in zip((*self.factors[1:], None), self.slopes, strict=True):
            if slope is not None:
                product = product * slope[:, None, :]
            if factor is not None:
                product = self._times(factor, product)
        return product

    def gram(self) -> tuple[Tensor, Tensor, Pullbacks]:
        if self._through_kernel:
            weight, slope = self.factors[0].weight, self.slopes[0]
            assert slope is not None
            scale = weight.abs().amax((1, 2)).clamp_min(torch.finfo(self.dtype).tiny)
            shared = weight / scale[:, None, None]
            gram = self._own(shared @ shared.mT)
            return slope[:, :, None] * gram * slope[:, None, :], self._own(scale), self._pullbacks
        if self.out_size <= self.in_size:
            return scaled_gram(self.rows(), transposed=False)
        return scaled_gram(self.columns(), transposed=True)

    def _pullbacks(self, vectors: Sequence[Tensor]) -> Iterator[Tensor]:
        return map(self.vjp, vectors)

    def _own(self, per_network: Tensor) -> Tensor:
        """Every sample's own of what each network has, (M, …) to (N, …)."""
        if len(self.counts) == 1:
            return per_network.expand(self.batch, *per_network.shape[1:])
        counts = torch.tensor(self.counts, device=per_network.device)
        return per_network.repeat_interleave(counts, dim=0, output_size=self.batch)

    def _times(self, factor: Factor, several: Tensor) -> Tensor:
        """``factor.times`` on several vectors of each sample, (N, k, ·)."""
        found = factor.times(several.flatten(0, 1), tuple(count * several.shape[1] for count in self.counts))
        return found.view(*several.shape[:2], -1)

    def _back(self, factor: Factor, several: Tensor) -> Tensor:
        found = factor.back(several.flatten(0, 1), tuple(count * several.shape[1] for count in self.counts))
        return found.view(*several.shape[:2], -1)


def scaled_gram(dense: Tensor, *, transposed: bool) -> tuple[Tensor, Tensor, Pullbacks]:
    """Gram matrices (N, k, k) of ``dense``/scale, (N, k, ·), the scales (N,), and v ↦ Jᵀv with J or Jᵀ = ``dense``.

    Scaled to order one, so that squares neither overflow nor vanish in float32.
    """
    scale = dense.abs().amax((1, 2)).clamp_min(torch.finfo(dense.dtype).tiny)
    scaled = dense / scale[:, None, None]

    def pullbacks(vectors: Sequence[Tensor]) -> Iterable[Tensor]:
        # All at once: the Jacobians are read a single time.
        return torch.bmm(torch.stack(list(vectors), 1), dense.mT if transposed else dense).unbind(1)

    return scaled @ scaled.mT, scale, pullbacks


def _stacked(weights: Sequence[Tensor]) -> Tensor:
    """(M, …); one network's stays where it is."""
    return weights[0].detach()[None] if len(weights) == 1 else torch.stack([w.detach() for w in weights])


def _affine(value: Tensor, weight: Tensor, biases: Sequence[Tensor | None]) -> Tensor:
    """W_m h + b_m of samples (N, in) that the networks share, or of each network's, (M, N, in): (M, N, out)."""
    if len(weight) == 1:
        bias = None if biases[0] is None else biases[0].detach().to(value.dtype)
        return nn.functional.linear(value.reshape(-1, value.shape[-1]), weight[0], bias)[None]
    found = value @ weight.mT
    given = [bias for bias in biases if bias is not None]
    return found if not given else found.add_(_stacked(given)[:, None, :])


@contextmanager
def _arithmetic(dtype: torch.dtype | None, noise: Noise | None) -> Iterator[None]:
    """How activations are computed: they may hold numbers of their own precision, and saturate."""
    with (
        Promoting() if dtype is torch.float64 else nullcontext(),
        nullcontext() if noise is None else noise.mode(),
    ):
        yield


def _value_and_slope(layers: Sequence[ActivationLayer | None], value: Tensor) -> tuple[Tensor, Tensor]:
    """σ(z) and σ'(z) of the networks' values (M, N, width); an activation may have parameters of its own."""
    activations = [layer for layer in layers if layer is not None]
    if activations[0].activation_name == "relu" and value.device.type == "cuda":
        return value.relu(), value > 0
    # By autograd and not from the table, so that both operators agree to the bit, at kinks and with noise too.
    leaf = value.detach().requires_grad_()
    with torch.enable_grad():
        outputs = [layer.module(own.clone()) for layer, own in zip(activations, leaf, strict=True)]
        output = outputs[0][None] if len(outputs) == 1 else torch.stack(outputs)
        (slope,) = torch.autograd.grad(output.sum(), leaf)
    return output.detach(), slope
