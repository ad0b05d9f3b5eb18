"""Adversarial risk beside its first-order bound: both sides of Theorem 4.1 over a range of radii."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from undertow.adversary.risk import RiskBoundResult, risk_bound
from undertow.core.sections import Positive, Seed
from undertow.measures.named_measure import NamedMeasure, Radii
from undertow.measures.raw_inputs import in_raw_units, taken_for_logits
from undertow.measures.reading import Reading, labels_for

__all__ = ["RiskBound"]


class RiskBound(NamedMeasure):
    """Both sides of R_rob(r) ≲ R + r·S(L∘f) (Wang, Min & Ruan 2024, Theorem 4.1) over a range of L2 radii.

    Readings: ``risk`` R, ``energy`` S(L∘f) = √E‖∇_x L‖², and for every r ``adversarial@r``, ``bound@r`` and
    ``gap@r`` = R + r·S − R_rob(r), positive where the inequality holds; ``holds_up_to`` is the largest r
    before the first negative gap, 0 when there is none. R_rob comes from attacks without a box, as in the
    theorem: a *lower* bound of the true adversarial risk, so a negative gap refutes the inequality at that
    r, whereas a positive one could be smaller in truth. ``upper@r``, where linear bounds of the network give one, is a
    proved upper bound of R_rob(r): the inequality is proved at r where ``bound@r`` is above it.

    Radii are in *raw* input units, of which one is ``unit`` for the network; see ``undertow.measures.raw_inputs``.
    ``loss`` is "cross-entropy" (for one logit: binary cross-entropy) or "exponential". As r → 0 the gap is
    a small difference of large numbers, hence float64, whatever the network was trained in.

    >>> import torch
    >>> net = torch.nn.Linear(2, 1, bias=False)
    >>> _ = torch.nn.init.constant_(net.weight, 1.0)
    >>> x, y = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([1, 1])
    >>> readings = {key: value for key, value, _ in RiskBound(radii=(1.0,))(net, x, y)}
    >>> round(readings["risk"], 4), round(readings["energy"], 4)    # log(1 + 1/e) and √2/(1 + e)
    (0.3133, 0.3803)
    >>> round(readings["adversarial@1.0"], 4)                       # log(1 + e^(√2 − 1))
    0.9215
    """

    name: ClassVar[str] = "risk-bound"
    radii: Radii = (0.01, 0.03, 0.1, 0.2, 0.5)
    loss: Literal["cross-entropy", "exponential"] = "cross-entropy"
    unit: Positive = 1.0
    dtype: Literal["float32", "float64"] = "float64"
    seed: Seed = 0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        return iter(self.batched([net], x, y)[0])

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks attacked along one member axis."""
        dtype = torch.float64 if self.dtype == "float64" else torch.float32
        classifier, points = in_raw_units(networks, x, unit=self.unit, dtype=dtype)
        with taken_for_logits():
            found = risk_bound(
                classifier,
                points,
                labels_for(self, y),
                radii=self.radii,
                loss=self.loss,
                resamples=1,  # records carry no interval over samples; studies have one over seeds
                seed=self.seed,
            )
        return [list(self._readings(found, member)) for member in range(len(networks))]

    def _readings(self, found: RiskBoundResult, member: int) -> Iterator[Reading]:
        yield "risk", float(found.risk[member]), None
        yield "energy", float(found.energy[member]), None
        for index, radius in enumerate(self.radii):
            for key in ("adversarial", "bound", "gap"):
                yield f"{key}@{radius!r}", float(getattr(found, key)[member, index]), None
            upper = float(found.adversarial_upper[member, index])
            if math.isfinite(upper):
                yield f"upper@{radius!r}", upper, None
        yield "holds_up_to", float(found.holds_up_to[member]), None
