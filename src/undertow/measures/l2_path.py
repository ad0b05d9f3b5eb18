"""The path of L2-regularised linear classifiers, down to any regularisation (Rosset, Zhu & Hastie 2004)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.measures.hard_margin import hard_margin
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.measures.weight_direction import directional_distance
from undertow.theory.max_margin import margin_rows

__all__ = ["L2Path", "l2_path"]

_STEPS = 200


def l2_path(x: Tensor, y: Tensor, log10_penalties: Sequence[float]) -> Tensor:
    """argmin_w (1/n) Σ log(1 + exp(−y_i ⟨w, x_i⟩)) + (λ/2)‖w‖² for each log₁₀ λ, (len, d) in float64.

    w is the root of w − Σ c_i y_i x_i with c_i = σ(−q_i)/(nλ), found by Newton's method from one λ to the next smaller
    one. Only log c_i is ever formed, so that λ may be 10^-300: the minimum is that of the loss divided by λ.

    >>> x, y = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([1, 1])
    >>> far = l2_path(x, y, [-300.0])[0]
    >>> [round(v, 2) for v in (far / far[1]).tolist()]              # the SVM points to (1/2, 1)
    [0.5, 1.0]
    """
    if not all(math.isfinite(each) for each in log10_penalties):
        raise InputError(f"log10_penalties = {list(log10_penalties)!r} must be finite numbers.")
    rows = margin_rows(x, y.to(x.device))
    eye = torch.eye(rows.shape[1]).to(rows)
    w, found = torch.zeros(rows.shape[1]).to(rows), {}
    for log10_penalty in sorted(_between(log10_penalties), reverse=True):
        log_scale = math.log(len(rows)) + log10_penalty * math.log(10)
        for _ in range(_STEPS):
            log_c = torch.nn.functional.logsigmoid(-rows @ w) - log_scale
            c = log_c.clamp(max=600.0).exp()
            slope = c * torch.sigmoid(rows @ w)
            step = torch.linalg.solve((rows.T * slope) @ rows + eye, w - rows.T @ c)
            # In the exponent a Newton step must not go further than a few units of margin, or c overflows.
            reach = float((rows @ step).abs().max())
            w = w - step * min(1.0, 2.0 / max(reach, 1e-300))
            if float(step.norm()) <= 1e-11 * float(w.norm()):
                break
        else:
            raise InputError(
                f"the minimum at λ = 10^{log10_penalty:g} was not found: try fewer decades at a time."
            )
        found[log10_penalty] = w
    return torch.stack([found[each] for each in log10_penalties])


def _between(wanted: Sequence[float]) -> set[float]:
    """What is wanted, and a stop at every decade from λ = 1 on the way there."""
    return {*wanted, *(-float(step) for step in range(math.ceil(-min(wanted))))}


class L2Path(NamedMeasure):
    """The angle between the L2-regularised minimum and the support vector machine, ``angle@λ`` with λ as 1e-3.

    It is one of the probe's points alone, whatever the network; in the plane ``heading@λ`` is where it points to.
    """

    name: ClassVar[str] = "l2-path"
    log10_penalties: tuple[Annotated[float, Field(strict=True, ge=-300, le=6)], ...] = (
        -1.0,
        -3.0,
        -10.0,
        -30.0,
    )

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        labels = labels_for(self, y)
        best = hard_margin(x, labels).weight
        for power, weight in zip(
            self.log10_penalties, l2_path(x, labels, self.log10_penalties).cpu(), strict=True
        ):
            yield f"angle@1e{power:g}", directional_distance({"w": weight}, {"w": best}), None
            if len(weight) == 2:
                yield f"heading@1e{power:g}", math.atan2(float(weight[1]), float(weight[0])), None
