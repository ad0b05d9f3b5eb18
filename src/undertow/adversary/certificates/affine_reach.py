"""How far a ball can move what is an affine function of the input: ‖w_j‖_dual of every entry, once for all samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_bounds import BallBounds
from undertow.adversary.certificates.carried_rows import carried_rows
from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.operations import AffineMap, InputValue
from undertow.adversary.certificates.patch_balls import patch_masks
from undertow.adversary.certificates.patch_networks import PatchNetwork, patch_network
from undertow.adversary.certificates.row_budget import in_parts, row_entries
from undertow.adversary.geometry import dual_lengths_above

__all__ = ["AffineReach"]


class AffineReach:
    """The reach of every operation that is an affine function of the input, in one norm."""

    def __init__(self, graph: NetworkGraph, norm: float) -> None:
        self.graph, self.norm = graph, norm
        self.affine: set[int] = set()
        for index, operation in enumerate(graph.operations):
            if isinstance(operation, InputValue | AffineMap) and self.affine.issuperset(operation.inputs):
                self.affine.add(index)
        self._known: dict[int, Tensor] = {}

    def of(self, index: int, ball: BallBounds) -> Tensor:
        """‖w_j‖_dual of one operation's result, (*S) or (B, *S): where x moves by δ, the entry by at most that·‖δ‖."""
        if index not in self._known:
            each = [
                _reach(graph, index, self.norm, ball.x.device) for graph in self.graph.members or [self.graph]
            ]
            self._known[index] = torch.stack(each) if self.graph.members else each[0]
        return self._known[index] if ball.batch is None else ball.batch.each(self._known[index])


def _reach(graph: NetworkGraph, index: int, norm: float, device: torch.device) -> Tensor:
    shape, patch = graph.operations[index].shape, patch_network(graph, index)
    if patch is not None:
        return _on_patches(patch, norm, device).reshape(shape)
    entries, widest = math.prod(shape), max(math.prod(operation.shape) for operation in graph.operations)

    def norms(some: Tensor) -> Tensor:
        rows = torch.zeros(len(some), entries, dtype=torch.float64, device=device)
        rows[torch.arange(len(some), device=device), some] = 1.0
        back, _, _ = carried_rows(graph, rows.reshape(1, len(some), *shape), index, 0, None)
        return dual_lengths_above(back[0].flatten(1), norm)

    everyone = torch.arange(entries, device=device)
    return torch.cat(in_parts(everyone, row_entries(device) // widest, norms)).reshape(shape)


def _on_patches(patch: PatchNetwork, norm: float, device: torch.device) -> Tensor:
    """The same of every neuron of a convolution of the input, (channels, places)."""
    graph = patch.graph
    channels, (height, width) = graph.classes, patch.places
    shape, widest = graph.operations[graph.output].shape, max(math.prod(op.shape) for op in graph.operations)
    rows = torch.eye(channels, dtype=torch.float64, device=device).reshape(1, channels, *shape)

    def norms(some: Tensor) -> Tensor:
        ball = patch_masks(patch, (some // width, some % width), rows)
        back, _, _ = carried_rows(graph, rows, graph.output, 0, ball, sized=False)
        return dual_lengths_above(back.flatten(2), norm).expand(len(some), channels)

    everywhere = torch.arange(height * width, device=device)
    return torch.cat(in_parts(everywhere, row_entries(device) // (channels * widest), norms)).T
