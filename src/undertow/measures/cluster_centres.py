"""What measures of features must know of the data: the centres of its clusters, and to which class each belongs.

A run tells its measures what its data know; in a loop of your own say
``FeatureCosines().about({"centres": mu, "cluster_sign": signs})``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from undertow.core.errors import ConfigError, InputError
from undertow.measures.reading import Reading

__all__ = ["Clusters", "clusters_in", "needs_clusters", "pair_readings"]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Centres μ_j (k, d) and the sign of the class each belongs to (k,)."""

    centres: Tensor
    signs: Tensor

    def like(self, tensor: Tensor) -> Clusters:
        """The same on the device of ``tensor``, the centres in float64."""
        return Clusters(self.centres.to(tensor.device).double(), self.signs.to(tensor.device))

    def nearest(self, x: Tensor) -> Tensor:
        """To which centre each point is nearest: its cluster, since clusters are √(2d) apart and √d wide."""
        x = x.flatten(1).to(self.centres)
        closest: Tensor = (x @ self.centres.T - self.centres.square().sum(1) / 2).argmax(1)
        return closest


def clusters_in(details: Mapping[str, Tensor], *, name: str) -> Clusters:
    """The clusters that a data set knows of."""
    if "centres" not in details or "cluster_sign" not in details:
        raise ConfigError(f"the measure {name} needs data that know their clusters, such as d-binary.")
    return Clusters(details["centres"], details["cluster_sign"])


def pair_readings(values: Tensor) -> Iterator[Reading]:
    """One reading for each neuron and feature, keyed ``r:j``."""
    for neuron, row in enumerate(values.tolist()):
        for feature, value in enumerate(row):
            yield f"{neuron}:{feature}", value, None


def needs_clusters(name: str, *_: object) -> InputError:
    """What a measure answers that was not told about the clusters."""
    return InputError(
        f"{name} does not know the clusters: use .about({{'centres': …, 'cluster_sign': …}}) and measure with that."
    )
