"""The claims on the growth of co-correlation: Theorems 5.3 and 5.5, their lemmas, assumptions and conclusions."""

from __future__ import annotations

from undertow.studies.co_correlation.growth_findings import (
    acute,
    bounded_slopes,
    frozen,
    grows,
    inverse,
    inverse_square,
    keeps_bound,
    never_shrinks,
    saturates,
    slack_falls,
    smooth,
    update,
)
from undertow.studies.co_correlation.setting import PAPER
from undertow.studies.kit.claim import Claim

__all__ = ["CLAIMS"]

_WIDTHS, _OTHERS = ("growth",), ("growth-activations",)
_LINEAR, _MLP = f"{PAPER}, Theorem 5.3", f"{PAPER}, Theorem 5.5"
_LOOSE = (
    "the proof's bounds are so far above the main term that a shrinking ϱ would keep the inequality as well"
)
_SIGNS = "y − p never changes its sign, and sums of inputs with weights of the right signs are at acute angles anyway"
CLAIMS = (
    Claim(
        "C-h.rate",
        "The growth of co-correlation slows down as training goes on: its rate ends below half of its largest.",
        f"{PAPER}, Property 1",
        saturates,
        _WIDTHS,
        "growth-terms",
    ),
    Claim(
        "C-l.inverse",
        "Co-correlation grows faster where ‖W‖₂² (linear) or E‖DW‖₂² (ReLU) is smaller.",
        f"{PAPER}, Property 2",
        inverse,
        _WIDTHS,
        "growth-norm",
    ),
    Claim(
        "C-l.linear",
        "The speed of growth is proportional to 1/‖W‖₂² (linear networks): an exponent within ¼ of −1.",
        f"{_LINEAR} (Eq. 19)",
        lambda frame: inverse_square(frame, "linear"),
        _WIDTHS,
        "growth-norm",
    ),
    Claim(
        "C-l.relu",
        "The speed of growth is proportional to 1/E‖DW‖₂² (ReLU networks): an exponent within ¼ of −1.",
        _MLP,
        lambda frame: inverse_square(frame, "relu"),
        _WIDTHS,
        "growth-norm",
    ),
    Claim(
        "C-m.update",
        "A step changes W by η a x̃ᵀ exactly (linear), and row r by η a_r x̃_rᵀ (ReLU).",
        f"{PAPER}, Lemmas B.1 and C.1",
        update,
        _WIDTHS,
        check="an identity: it is the gradient of the loss, written out",
    ),
    Claim(
        "C-m.bound",
        "The rate is at least the main term less the bound that the proof gives for the rest (linear networks).",
        f"{_LINEAR} and Eq. 80",
        lambda frame: keeps_bound(frame, ["linear"]),
        _WIDTHS,
        "growth-terms",
        check=_LOOSE,
    ),
    Claim(
        "C-m.slack",
        "What the theorem adds to the main term is O(m^-q) (linear networks).",
        f"{_LINEAR} (Eq. 19)",
        lambda frame: slack_falls(frame, "linear"),
        _WIDTHS,
        "growth-slack",
    ),
    Claim(
        "C-m.step",
        "‖aᵀW‖ never shrinks in 95 % of the networks or more, so that ‖W‖ may take its place in a denominator "
        "(linear networks).",
        f"{PAPER}, Eq. 63",
        lambda frame: never_shrinks(frame, "linear"),
        _WIDTHS,
    ),
    Claim(
        "C-m.grows",
        "The rate is positive at 95 % of the moments or more: co-correlation grows step by step (linear networks).",
        f"{_LINEAR}, conclusion C(t) ≥ 0",
        lambda frame: grows(frame, "linear"),
        _WIDTHS,
        "growth-terms",
    ),
    Claim(
        "C-n.bound",
        "The rate is at least the main term less the bounds that the proof gives for the rest (ReLU networks).",
        f"{_MLP} and Eq. 112–150",
        lambda frame: keeps_bound(frame, ["relu"]),
        _WIDTHS,
        "growth-terms",
        check=_LOOSE,
    ),
    Claim(
        "C-n.bound-others",
        "The same for leaky ReLU, tanh and GELU.",
        f"{_MLP} and Eq. 112–150",
        lambda frame: keeps_bound(frame, ["leaky-relu", "tanh", "gelu"]),
        _OTHERS,
        "growth-activations",
        check=_LOOSE,
    ),
    Claim(
        "C-n.slack",
        "What the theorem adds to the main term is O(m^-1/2) or O(m^-q), here the latter (ReLU networks).",
        _MLP,
        lambda frame: slack_falls(frame, "relu"),
        _WIDTHS,
        "growth-slack",
    ),
    Claim(
        "C-n.step",
        "E‖aᵀDW‖² never shrinks in 95 % of the networks or more, so that E‖DW‖² may take its place in a denominator "
        "(ReLU networks).",
        f"{PAPER}, Eq. 105",
        lambda frame: never_shrinks(frame, "relu"),
        _WIDTHS,
    ),
    Claim(
        "C-n.grows",
        "The rate is positive at 95 % of the moments or more: co-correlation grows step by step (ReLU networks).",
        f"{_MLP}, conclusion C(t) ≥ 0",
        lambda frame: grows(frame, "relu"),
        _WIDTHS,
        "growth-terms",
    ),
    Claim(
        "C-n.frozen",
        "Ḋ = 0 loses little: with activations held still, the rate explains the growth (ReLU networks).",
        f"{PAPER}, proof of Theorem 5.5",
        frozen,
        _WIDTHS,
        "growth-terms",
    ),
    Claim(
        "C-n.smooth",
        "Ḋ = 0 loses little for smooth activations as well (tanh, GELU).",
        f"{PAPER}, proof of Theorem 5.5",
        smooth,
        _OTHERS,
        "growth-activations",
    ),
    Claim(
        "C-n.slopes",
        "|σ′| is bounded by a number M (ReLU and linear networks, leaky ReLU, tanh, GELU).",
        f"{PAPER}, Assumption 5.4",
        bounded_slopes,
        (*_WIDTHS, *_OTHERS),
        check="M is the largest slope that each of these activations has",
    ),
    Claim(
        "C-o.early",
        "The error-weighted inputs of the first steps are alike: at acute angles in the first fifth of training.",
        f"{PAPER}, §5.1 and §5.2",
        lambda frame: acute(frame, until=0.2),
        _WIDTHS,
        "growth-cosines",
        check=_SIGNS,
    ),
    Claim(
        "C-o.throughout",
        "They stay at acute angles to those of the first steps until the end of training.",
        f"{PAPER}, §5.1 and §5.2",
        lambda frame: acute(frame, until=1.0),
        _WIDTHS,
        "growth-cosines",
        check=_SIGNS,
    ),
)
