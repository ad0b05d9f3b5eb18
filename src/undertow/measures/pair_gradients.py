"""Gradients of many margins s_y − s_j by the parameters: sums, products, and layer by layer their factors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._pytree import tree_map

from undertow.core.called_with import called_with
from undertow.core.pulled_back import gradients_of, pulled_back
from undertow.core.scoring import as_rows, chunk_for, slices
from undertow.measures.factored_layers import factored_layers, layer_factors, own_parameters
from undertow.measures.gradient_factors import GradientFactor
from undertow.measures.kink_slopes import KinkSlopes

__all__ = ["PairGradients", "Pairs", "derivatives_along"]

# what vmap raises where it has no rule for an operation, and a network that branches on values
_NO_RULE = (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError)


@dataclass(frozen=True)
class Pairs:
    """Constraints s_y − s_j ≥ 1, or y f ≥ 1 with rival 0 for one logit, and where wanted their slopes at kinks."""

    points: Tensor
    rivals: Tensor
    slopes: KinkSlopes | None = None

    def __len__(self) -> int:
        return len(self.points)

    def part(self, rows: slice | Tensor) -> Pairs:
        slopes = None if self.slopes is None else self.slopes.part(rows)
        return Pairs(self.points[rows], self.rivals[rows], slopes)


def derivatives_along(
    outputs: Sequence[Tensor], leaves: Mapping[str, Tensor], vector: Mapping[str, Tensor]
) -> list[Tensor]:
    """d(outputs)/dθ · v for outputs computed from the leaves θ.

    By two passes backward: Σ_o u_o ∂o/∂θ is linear in u, and its derivative by u along v is what is wanted. PyTorch's
    own forward mode loads its decompositions first, which takes longer than most measurements.
    """
    with torch.enable_grad():
        weights = [torch.zeros_like(output).requires_grad_() for output in outputs]
        slopes = pulled_back(list(outputs), list(leaves.values()), weights, create_graph=True)
        pairs = zip(leaves, slopes, strict=True)
        along = [(slope * vector[name]).sum() for name, slope in pairs if slope is not None]
        found = gradients_of(sum(along, outputs[0].new_zeros(())), weights)
    return [each.detach() for each in found]


class PairGradients:
    """∇(s_y − s_j) by the parameters named, of a network in float64 on points x (N, …).

    ``signs`` (N,) are ±1 for one logit, and ``labels`` (N,) the classes for several; the other one is None.
    """

    def __init__(
        self,
        net: nn.Module,
        x: Tensor,
        *,
        labels: Tensor | None,
        signs: Tensor | None,
        names: Sequence[str],
    ) -> None:
        self.net, self.x = net, x
        self._labels, self._signs = labels, signs
        self.weights = {name: p.detach() for name, p in net.named_parameters() if name in set(names)}
        self.chunk = max(1, chunk_for(net, x[:1]) // 4)
        with torch.no_grad():
            self._outputs = as_rows(net(x[:1]), 1).shape[1]
        self._layers = factored_layers(net, x, self.weights)
        covered = {full for name, module in self._layers.items() for full in self._own(name, module)}
        self._rest = [name for name in self.weights if name not in covered]

    def _own(self, name: str, module: nn.Module) -> list[str]:
        """The layer's own parameters that count, by their full names."""
        return own_parameters(name, module, self.weights)

    # Sums and products over all points: one pass backward, one pass forward

    def combined(self, coefficients: Tensor) -> dict[str, Tensor]:
        """Σ_nk c_nk ∇s_k(x_n) by name, for coefficients (N, k)."""
        wanted = torch.nonzero(coefficients.any(1)).flatten()
        total = {name: torch.zeros_like(weight) for name, weight in self.weights.items()}
        for part in slices(len(wanted), self.chunk):
            rows = wanted[part]
            self._add(total, self.x[rows], coefficients[rows], None)
        return total

    def combined_pairs(self, pairs: Pairs, multipliers: Tensor) -> dict[str, Tensor]:
        """Σ_c λ_c ∇q_c by name, for the pairs with their own slopes at kinks."""
        total = {name: torch.zeros_like(weight) for name, weight in self.weights.items()}
        used = torch.nonzero(multipliers).flatten()
        for part in slices(len(used), self.chunk):
            rows = used[part]
            own = pairs.part(rows)
            slopes = self.score_slopes(own) * multipliers[rows, None]
            self._add(total, self.x[own.points], slopes, own.slopes)
        return total

    def _add(self, total: dict[str, Tensor], x: Tensor, slopes: Tensor, kinks: KinkSlopes | None) -> None:
        leaves = {name: weight.clone().requires_grad_() for name, weight in self.weights.items()}
        with torch.enable_grad(), ExitStack() as stack:
            if kinks is not None:
                stack.enter_context(kinks.on(self.net))
            scores = as_rows(called_with(self.net, leaves, x), len(x))
            # A sum, and not `grad_outputs`, for which torch first imports sympy: half a second.
            found = gradients_of((scores * slopes).sum(), list(leaves.values()))
        for name, gradient in zip(leaves, found, strict=True):
            total[name].add_(gradient)

    def products(self, vector: Mapping[str, Tensor]) -> Tensor:
        """⟨v, ∇s_k(x_n)⟩ for every point and score, (N, k): one forward pass with derivatives."""
        return torch.cat([self.derivatives(self.x[part], vector) for part in slices(len(self.x), self.chunk)])

    def derivatives(self, x: Tensor, vector: Mapping[str, Tensor]) -> Tensor:
        """The scores' derivatives along v at the points x, (B, k)."""
        leaves = {name: weight.clone().requires_grad_() for name, weight in self.weights.items()}
        with torch.enable_grad():
            scores = as_rows(called_with(self.net, leaves, x), len(x))
        return derivatives_along([scores], leaves, vector)[0]

    def of_pairs(self, derivatives: Tensor) -> Tensor:
        """From a value for each point and score, (N, k), that of every pair: (N, k), or (N, 1) for one logit."""
        if self._labels is None:
            assert self._signs is not None
            return derivatives * self._signs[:, None]
        return derivatives.gather(1, self._labels[:, None]) - derivatives

    def score_slopes(self, pairs: Pairs) -> Tensor:
        """∂q_c/∂scores, (n, k)."""
        rows = torch.arange(len(pairs), device=self.x.device)
        if self._labels is None:
            assert self._signs is not None
            return self._signs[pairs.points, None]
        slopes = next(iter(self.weights.values())).new_zeros(len(pairs), self._outputs)  # x may be token ids
        slopes[rows, self._labels[pairs.points]] = 1.0
        slopes[rows, pairs.rivals] -= 1.0
        return slopes

    def rows(self, pairs: Pairs) -> Tensor:
        """∇q_c as the rows of a matrix (n, P), parameters one after the other: for networks of a few thousand."""
        parts: dict[str, Tensor] = {}
        for name, factor in self.factors(pairs).items():
            dense = torch.einsum("nta,ntb->nab", factor.slopes, factor.inputs).reshape(len(pairs), -1)
            layer = self._layers.get(name)
            owned = self._rest if layer is None else self._own(name, layer)
            if layer is not None and len(owned) == 2:  # a row of weights with its bias behind it
                wide = dense.view(len(pairs), len(self.weights[owned[1]]), -1)
                parts |= {owned[0]: wide[..., :-1].flatten(1), owned[1]: wide[..., -1]}
            else:
                sizes = [self.weights[each].numel() for each in owned]
                parts |= dict(zip(owned, torch.split(dense, sizes, dim=1), strict=True))
        return torch.cat([parts[name] for name in self.weights], dim=1)

    def flat(self, vector: Mapping[str, Tensor]) -> Tensor:
        """A vector by names of parameters as one of P numbers, in the order of ``rows``."""
        return torch.cat([vector[name].flatten() for name in self.weights])

    # The Gram matrix

    def factors(self, pairs: Pairs) -> dict[str, GradientFactor]:
        """Every layer's part of the gradients of these pairs, from one pass forward and backward."""
        found = [self._factors(pairs.part(part)) for part in slices(len(pairs), self.chunk)]
        return {
            name: GradientFactor(
                torch.cat([each[name].slopes for each in found]),
                torch.cat([each[name].inputs for each in found]),
            )
            for name in found[0]
        }

    def _factors(self, pairs: Pairs) -> dict[str, GradientFactor]:
        slopes = self.score_slopes(pairs)
        with ExitStack() as stack:
            if pairs.slopes is not None:
                stack.enter_context(pairs.slopes.on(self.net))
            factors = layer_factors(self.net, self._layers, self.x[pairs.points], slopes, self.weights)
        if self._rest:
            factors[""] = self._dense(pairs, slopes)
        return factors

    def _dense(self, pairs: Pairs, slopes: Tensor) -> GradientFactor:
        """By all other parameters: gradients as they are, of all pairs at once where the network can be mapped."""
        kinks = ({}, {}) if pairs.slopes is None else (dict(pairs.slopes.at), dict(pairs.slopes.slope))
        each = (self.x[pairs.points], slopes, *kinks)
        try:
            copies = {
                name: self.weights[name].expand(len(pairs), *self.weights[name].shape) for name in self._rest
            }
            leaves = {name: weight.clone().requires_grad_() for name, weight in copies.items()}
            with torch.enable_grad(), warnings.catch_warnings():
                # Nothing that a caller can change.
                warnings.filterwarnings("ignore", "There is a performance drop")
                total = vmap(self._margin)(leaves, *each).sum()
            found = gradients_of(total, list(leaves.values()))
            rows = torch.cat([each.reshape(len(pairs), -1) for each in found], 1)
        except torch.OutOfMemoryError:
            raise
        except _NO_RULE:
            rows = torch.stack([self._row(*_each_at(each, pair)) for pair in range(len(pairs))])
        return GradientFactor(rows[:, None, :], torch.ones_like(rows[:, None, :1]))

    def _row(
        self, sample: Tensor, slope: Tensor, at: dict[str, Tensor], steepness: dict[str, Tensor]
    ) -> Tensor:
        """The gradient of one pair's margin by the parameters that no layer has, one after the other."""
        leaves = {name: self.weights[name].clone().requires_grad_() for name in self._rest}
        with torch.enable_grad():
            margin = self._margin(leaves, sample, slope, at, steepness)
        return torch.cat([each.flatten() for each in gradients_of(margin, list(leaves.values()))])

    def _margin(
        self,
        weights: dict[str, Tensor],
        sample: Tensor,
        slope: Tensor,
        at: dict[str, Tensor],
        steepness: dict[str, Tensor],
    ) -> Tensor:
        kinks = KinkSlopes(*({name: one[None] for name, one in part.items()} for part in (at, steepness)))
        with kinks.on(self.net):
            scores: Tensor = called_with(self.net, weights, sample[None])
        return (scores.reshape(-1) * slope).sum()


def _each_at(parts: Any, pair: int) -> Any:
    return tree_map(lambda part: part[pair], parts)
