"""How robust a network on clustered data is, from every side, as a measure for probes.

Lengths are in units of √d, the norm of a centre, so that sizes can be compared. A tie is an error. The networks are
two-layer and narrow: they are measured in the row space of their first layer, where radii are the same and cost little.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from undertow.adversary.classifier import Classifier
from undertow.adversary.contradictions import contradictions_between
from undertow.adversary.exact.row_space import in_row_space
from undertow.adversary.readout import Groups
from undertow.adversary.robustness import Robustness, robustness
from undertow.adversary.scorer import margins_of
from undertow.core.errors import InputError
from undertow.core.sections import Positive, Seed, Switch
from undertow.measures.averaged_direction import averaged_radii
from undertow.measures.cluster_centres import Clusters, clusters_in, needs_clusters
from undertow.measures.named_measure import AsWritten, NamedMeasure
from undertow.measures.narrow_radii import narrow_radii
from undertow.measures.raw_inputs import taken_for_logits
from undertow.measures.reading import Reading, labels_for

__all__ = ["ClusterRadius"]


class ClusterRadius(NamedMeasure):
    """certified ≤ exact ≤ attacked, and the radius along the averaged direction, as means over the points.

    ``decision`` is "binary" (one logit, or for one output per cluster the read-out Σ_{J₊} − Σ_{J₋}) or "native": the
    cluster with the largest output, wrong when it is another one; its keys begin with ``native:``. Readings:

    - ``accuracy``, and ``steepness``, the mean of √d·‖∇q‖/q over correct points: the gradient at equal margin;
    - mean radii in units of √d: ``certified``, a proved lower bound, and ``proved``, the share of points with a proof
      (the others count as 0); ``attacked``, the best of a general attack and of the averaged direction; ``averaged``,
      along ∓(Σ_{J₊} μ_j − Σ_{J₋} μ_j) (binary decisions); ``exact`` for the first ``exact`` points, where at most
      eight neurons speak against a decision, and ``exact/attacked`` on the same points;
    - shares of the points that survive, by side: ``certified@ε``, ``attacked@ε`` and ``averaged@ε`` for every ε of
      ``eps``, in units of √d, and ``certified@reach`` and so on at ``reach``·√(d/k).

    ``shorten=False`` makes the general attack quicker and a little weaker; see ``undertow.robustness``.
    """

    name: ClassVar[str] = "cluster-radius"
    decision: Literal["binary", "native"] = "binary"
    eps: tuple[Positive, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    reach: AsWritten = 2.0
    exact: Annotated[int, Field(strict=True, ge=0, le=10**9)] = 10
    shorten: Switch = True
    seed: Seed = 0

    def about(self, details: Mapping[str, Tensor]) -> _Radius:
        return _Radius(clusters_in(details, name=self.name), self)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        raise needs_clusters(self.name, net, x, y)


@dataclass(frozen=True)
class _Radius:
    name: ClassVar[str] = ClusterRadius.name
    clusters: Clusters
    options: ClusterRadius

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        native = "native:" if self.options.decision == "native" else ""
        for key, value in self._values(net, x, labels_for(self, y)):
            yield f"{native}{key}", value, None

    def _values(self, net: nn.Module, x: Tensor, y: Tensor) -> Iterator[tuple[str, float]]:
        options, unit = self.options, math.sqrt(x[0].numel())
        classifier, small, labels = self._decision(net, x, y)
        with taken_for_logits():
            found = robustness(
                classifier,
                small,
                labels,
                exact=False,
                seconds=math.inf,
                shorten=options.shorten,
                seed=options.seed,
            )
            steepness = _steepness(classifier, small, labels)
        attacked, along = found.attacked, None
        if options.decision == "binary":
            along = averaged_radii(net, x, labels, self.clusters.centres, self.clusters.signs)
            attacked = torch.minimum(attacked, along.to(attacked))
        yield "accuracy", float((attacked > 0).double().mean())
        yield "certified", float(found.certified.mean()) / unit
        yield "proved", found.share_proved
        yield "attacked", float(attacked.mean()) / unit
        if along is not None:
            yield "averaged", float(along.mean()) / unit
        if solved := min(options.exact, len(x)):
            radii = narrow_radii(
                classifier, small[:solved], labels[:solved], attacked[:solved], name=self.name
            )
            if radii is not None:
                _compare(found, radii, attacked)
                yield "exact", float(radii.mean()) / unit
                yield "exact/attacked", float(radii.sum()) / max(float(attacked[:solved].sum()), 1e-300)
        if len(steepness):
            yield "steepness", unit * float(steepness.mean())
        sides = {"certified": found.certified, "attacked": attacked, "averaged": along}
        limits = {repr(eps): eps * unit for eps in options.eps}
        limits["reach"] = options.reach * unit / math.sqrt(len(self.clusters.signs))
        for side, radii in sides.items():
            if radii is not None:
                for key, limit in limits.items():
                    yield f"{side}@{key}", float((radii > limit).double().mean())

    def _decision(self, net: nn.Module, x: Tensor, y: Tensor) -> tuple[Classifier, Tensor, Tensor]:
        """The classifier in the row space, the points there, and their labels for this decision."""
        small, points = in_row_space(net, x)
        outputs = small(points[:1]).shape[-1]
        signs = self.clusters.signs.tolist()
        if self.options.decision == "native":
            if outputs != len(signs):
                raise InputError("the native decision is that of a network with one output for each cluster.")
            return Classifier(small, readout="classes"), points, y
        if outputs == 1:
            return Classifier(small, readout="logit"), points, y
        groups = Groups(
            tuple(j for j, sign in enumerate(signs) if sign > 0),
            tuple(j for j, sign in enumerate(signs) if sign < 0),
        )
        return Classifier(small, readout=groups), points, (self.clusters.signs.to(y.device)[y] > 0).long()


def _compare(found: Robustness, exact: Tensor, attacked: Tensor) -> None:
    """Warn, with the samples and both values, where what was proved, solved and attacked contradict each other."""
    some = slice(len(exact))
    sides = (found.certified[some], exact, attacked[some], found.rounding[some])
    if contradictions := contradictions_between(*(side.unsqueeze(0) for side in sides)):
        warnings.warn("cluster-radius contradicts itself: " + "; ".join(contradictions), stacklevel=2)


def _steepness(classifier: Classifier, x: Tensor, y: Tensor) -> Tensor:
    """‖∇q(x_i)‖/q(x_i) at the points that are classified correctly."""
    with torch.enable_grad(), classifier.scoring(x, y) as scorer:
        at = x.detach().clone().requires_grad_(True)
        margins = margins_of(scorer(at.unsqueeze(0)), y)[0]
        (slope,) = torch.autograd.grad(margins.sum(), at)
    correct = margins.detach() > 0
    steepness: Tensor = slope.norm(dim=1)[correct] / margins.detach()[correct]
    return steepness
