"""Networks on clusters, D_binary: k orthogonal centres of norm √d, half of them in each class, N(0, I) around them.

Binary labels train the ±1/m network with biases, cluster labels one neuron per cluster without; f_robust is
constructed. Between dimensions the training is kept comparable: n grows with d, and the step falls with it so that
η‖μ‖² stays (variant ``paper``: 0.001 at d = 3072; ``slides``: η = 1/√d). With more clusters each is seen more rarely,
so ``paper`` takes T = 10 k steps, which is its T = 100 at k = 10. The slides say T = poly(d); here it is d/3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.settings import after_training_on_test, gradient_descent, two_layer
from undertow.studies.kit.study import Scale

__all__ = ["BY_CLUSTERS", "BY_DIMENSION", "EPS", "FULL", "SEEDS", "THRESHOLD", "Cell", "cell", "weights"]

SEEDS = list(range(10))
HALF = 5
"""Neurons for each sign: the paper's m."""
FULL = 3072
"""The paper's dimension."""
THRESHOLD = 1 - 1 / math.sqrt(2)
"""The optimal one, as in ``undertow.theory.feature_averaging``; that needs torch, and configurations do not."""
EPS = [round(0.05 * step, 2) for step in range(1, 17)]
BY_DIMENSION = {"averaging": 1, "averaging-half": 2, "averaging-quarter": 4, "averaging-eighth": 8}
"""Parts that differ in d, and with it in n and η, and by what each divides the largest d."""
BY_CLUSTERS = {"few": 0.4, "some": 1.0, "many": 2.0, "most": 4.0}
"""Endings of the parts that differ in k, at half the largest d, and k relative to the paper's."""
_SIZES = by_scale(
    d=(384, FULL, FULL),
    n=(120, 1000, 1000),
    k=(4, 10, 10),
    seeds=(10, 10, 20),  # of the part in which everything is measured; the others have ten
    points=(4, 40, 400),  # measured
    exact=(1, 6, 40),  # of these exactly
    rounds=(10, 300, 300),
    thorough=(False, True, True),  # without it smaller axes have their first and last values alone
    careful=(False, False, True),
)


@dataclass(frozen=True)
class Cell:
    """n points of k clusters in R^d, at a scale in a variant."""

    scale: Scale
    variant: str
    d: int
    n: int
    k: int

    @property
    def size(self) -> SimpleNamespace:
        return _SIZES[self.scale]

    @property
    def steps(self) -> int:
        """T."""
        return self.d // 3 if self.variant == "slides" else 10 * self.k

    @property
    def axes(self) -> dict[str, Any]:
        """The sizes as axes of a grid: records then say them."""
        return {"data.d": [self.d], "data.n": [self.n], "data.k": [self.k]}

    def some(self, values: list[Any]) -> list[Any]:
        """The values of a smaller axis."""
        return values if self.size.thorough else [values[0], values[-1]]

    def radius(self, *, largest: bool, eps: list[float] = EPS, **options: Any) -> dict[str, Any]:
        """The measure of radii: exact at all points in parts of the ``largest`` d, and at some of them elsewhere.

        ``careful`` shortens adversarial examples in every part and not in those of the largest d alone: without it
        radii are up to 1 % longer there, which changes no exponent by more than 0.01, and cost a tenth.
        """
        size = self.size
        shorten = size.thorough and (largest or size.careful)
        exact = size.points if largest else size.exact
        return {"name": "cluster-radius", "eps": eps, "exact": exact, "shorten": shorten, **options}

    def binary(self, measures: list[Any], grid: Mapping[str, Any]) -> dict[str, Any]:
        """The ±1/m network with biases, logistic loss, full-batch gradient descent."""
        return {
            "data": {"name": "d-binary", "n": self.n, "d": self.d, "k": self.k},
            "model": self._network(2 * HALF, bias="hidden", head="balanced-signs"),
            "training": self._training("logistic"),
            "probe": after_training_on_test(measures, self.size.points),
            "grid": {**grid, "seed": SEEDS},
        }

    def by_label(self, *, pairs: bool) -> dict[str, Any]:
        """One neuron for each cluster, no biases, cross-entropy over the clusters."""
        radii = self.radius(largest=pairs), self.radius(largest=pairs, decision="native")
        return {
            "data": {"name": "d-binary", "n": self.n, "d": self.d, "k": self.k, "labels": "clusters"},
            "model": self._network(self.k, head="class-means"),
            "training": self._training("cross-entropy"),
            "probe": after_training_on_test([*weights(pairs=pairs), *radii, "accuracy"], self.size.points),
            "grid": {**self.axes, "seed": SEEDS},
        }

    def _network(self, width: int, **more: Any) -> dict[str, Any]:
        std, bias = (1 / math.sqrt(self.d), 1 / self.d) if self.variant == "slides" else (1e-5, 1e-5)
        return two_layer(width, std, bias_std=bias if "bias" in more else 0.0, **more)

    def _training(self, loss: str) -> dict[str, Any]:
        slides = self.variant == "slides"
        rate = 1 / math.sqrt(self.d) if slides else 0.001 * FULL / self.d
        # What training adds to the slides' start is smaller than the start: float32 would show in the residual.
        dtype = "float64" if slides else "float32"
        return {**gradient_descent(rate, self.steps, loss=loss, fixed_head=True), "dtype": dtype}


def cell(scale: Scale, variant: str, *, divide: int = 1, count: str | None = None) -> Cell:
    """The largest d by ``divide``, with the paper's k; or half the largest d, with its n, and another k (``count``).

    The slides' training takes d/3 steps, which a laptop has time for up to half the paper's dimension.
    """
    size, half = _SIZES[scale], 2 if (variant, scale) == ("slides", "laptop") else 1
    d, n = size.d // half, size.n // half
    if count is not None:
        return Cell(scale, variant, d // 2, n, round(BY_CLUSTERS[count] * size.k))
    return Cell(scale, variant, d // divide, n // divide, size.k)


def weights(*, pairs: bool, **course: Any) -> list[dict[str, Any]]:
    """The measures of coefficients λ and of cosines; ``pairs`` keeps those of every neuron and feature."""
    return [
        {"name": "feature-coefficients", "pairs": pairs, **course},
        {"name": "feature-cosines", "pairs": pairs},
    ]
