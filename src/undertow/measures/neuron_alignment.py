"""Where the neurons of a two-layer network point, and on which samples they are active."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn
from torch.nn.functional import normalize

from undertow.core.errors import ModelError
from undertow.core.networks import DenseChain, read_dense
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.rank import stable_ranks
from undertow.measures.reading import Reading, labels_for
from undertow.theory.rank_law import pattern_limit

__all__ = ["NeuronAlignment", "clusters_of_directions", "own_class_slopes"]


class NeuronAlignment(NamedMeasure):
    """Directions and activation patterns of the hidden neurons of Sequential(Flatten?, Linear, (leaky) ReLU, Linear).

    A neuron is active on a sample where its input is positive. Readings:

    - ``to_means``: the mean over neurons of the largest cosine with a class mean; ``to_each_other``: the mean |cosine|
      of two neurons; ``directions``: into how many groups the neurons fall when two of one direction, up to a cosine
      of ``alike``, are in one group;
    - ``active``: the mean share of neurons that are active on a sample, ``active_least`` the smallest of them;
      ``patterns``: how many different patterns over the samples the neurons have;
    - with one logit: ``own_active``, the share of (neuron, sample) pairs of one sign that are active;
      ``rank_positive`` and ``rank_negative``, the stable ranks of the rows of W whose output weight is positive or
      negative; ``predicted``, the stable rank of the KKT point with this pattern on the neurons' own classes and none
      on the other (``undertow.theory.rank_law``), left out where no network has all margins equal with it.
    """

    name: ClassVar[str] = "neuron-alignment"
    alike: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.95

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        labels = labels_for(self, y)
        weight, head, slope, inputs = _parts(net, x)
        x = x.flatten(1).double()
        for key, value in _directions(weight, x, labels, self.alike):
            yield key, value, None
        active = inputs > 0
        shares = active.double().mean(1)
        yield "active", float(shares.mean()), None
        yield "active_least", float(shares.min()), None
        yield "patterns", float(len(set(map(bytes, active.T.cpu().numpy())))), None
        if len(head) > 1:
            return
        signs = torch.where(labels > 0, 1.0, -1.0).double()
        own = signs[:, None] * head[0] > 0
        if bool(own.any()):
            yield "own_active", float(active[own].double().mean()), None
        for key, half in (("rank_positive", head[0] > 0), ("rank_negative", head[0] < 0)):
            if bool(half.any()):
                values, errors = stable_ranks(weight[half][None])
                yield key, values[0], errors[0]
        limit = pattern_limit(own_class_slopes(active, own, slope), head[0], x, signs)
        if limit is not None:
            yield "predicted", limit.stable_rank, None


def own_class_slopes(active: Tensor, own: Tensor, slope: float) -> Tensor:
    """φ′ (m, n) of the limit that a start's pattern leads to on orthogonal points, from what is active (n, m).

    On its own class a ReLU neuron stays active where it is; a leaky one becomes so everywhere. On the other it is not.

    >>> active, own = torch.tensor([[True], [False], [True]]), torch.tensor([[True], [True], [False]])
    >>> own_class_slopes(active, own, 0.0).tolist(), own_class_slopes(active, own, 0.5).tolist()
    ([[1.0, 0.0, 0.0]], [[1.0, 1.0, 0.5]])
    """
    on = own if slope else own & active
    return on.T.double() + slope * (~on).T.double()


def clusters_of_directions(weight: Tensor, alike: float) -> int:
    """Into how many groups rows (m, d) fall, two being in one when a chain of cosines ≥ ``alike`` joins them.

    >>> clusters_of_directions(torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0]]), 0.95)
    2
    """
    rows = normalize(weight, dim=1)
    first, second = torch.nonzero(rows @ rows.T >= alike, as_tuple=True)
    ones = np.ones(len(first), dtype=np.int8)
    graph = coo_array((ones, (first.cpu().numpy(), second.cpu().numpy())), shape=(len(rows), len(rows)))
    return int(connected_components(graph, directed=False)[0])


def _directions(weight: Tensor, x: Tensor, y: Tensor, alike: float) -> Iterator[tuple[str, float]]:
    rows = normalize(weight, dim=1)
    means = torch.stack([x[y == label].mean(0) for label in sorted(set(y.tolist()))])
    yield "to_means", float((rows @ normalize(means, dim=1).T).amax(1).mean())
    if (m := len(rows)) > 1:
        yield "to_each_other", float(((rows @ rows.T).abs().sum() - m) / (m * (m - 1)))
    yield "directions", float(clusters_of_directions(weight, alike))


def _parts(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, float, Tensor]:
    """W (m, d) and the head (outputs, m), the slope below zero, and the neurons' inputs (n, m), in float64."""
    chain = read_dense(net)
    if (
        not isinstance(chain, DenseChain)
        or len(chain.linears) != 2
        or chain.activation_names not in {("relu", None), ("leaky-relu", None)}
    ):
        raise ModelError(
            "neurons are read off Sequential(Flatten?, Linear, ReLU or LeakyReLU, Linear): give a two-layer network."
        )
    hidden, output = chain.linears
    weight = hidden.weight.detach().double()
    inputs = x.flatten(1).double() @ weight.T
    if hidden.bias is not None:
        inputs = inputs + hidden.bias.detach().double()
    first = chain.activations[0]
    assert first is not None
    assert first.activation is not None
    return weight, output.weight.detach().double(), first.activation.slope_range[0], inputs
