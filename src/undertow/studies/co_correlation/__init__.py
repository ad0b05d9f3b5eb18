"""Collaboration between layers (Wang, Min & Ruan 2024): how gradient descent aligns the layers of a network.

The co-correlation ϱ of two layers says how far what one stretches most is what the next stretches most. The paper
proves and measures that it rises during training, and links the energy S(f) that it drives to robustness. The parts:

=============== ============================================================================ ==================
``grid``        widths × q × {linear, ReLU}: ϱ over training, robust accuracy after it        Figures 1, 3–6
``full-grid``   the same at all the paper's widths and q, one seed: drawn, not judged         Figures 1, 3–6
``risk-bound``  the adversarial risk beside R + r·S(L∘f)                                      Theorem 4.1
``activations`` ϱ for activations with a bounded derivative                                   Assumption 5.4
``depth``       the energy budget of networks with three and four hidden layers               Theorem 4.5
``more-depth``  the same of networks with two and five hidden layers                          §7
``constants``   robust accuracy beside S(f), Lipschitz constants and S(L∘f)                   §3.3, §4
``estimators``  the paper's Algorithms 1 and 2 beside exact norms                             Appendix E
``growth``, …   the rate of ϱ beside the bounds on it, for ReLU and other activations         Theorems 5.3, 5.5
``deep-…``      ϱ at nine cuts of ResNet-50, with both starts of its branches, and of WRN-50   Figure 2
``acting-…``    fronts of networks trained with ϱ or S held down, on three data sets          ours
=============== ============================================================================ ==================
"""

from __future__ import annotations

from undertow.studies.co_correlation.setting import PAPER
from undertow.studies.kit.study import Study

__all__ = ["STUDY"]

STUDY = Study(
    name="co-correlation",
    title="Collaboration between the layers of two-layer networks",
    source=PAPER,
    summary="Gradient descent aligns neighbouring layers: their co-correlation ϱ rises, most of all in wide networks "
    "with a small start, and with it the Dirichlet energy that makes a network fragile.",
    costs={
        "smoke": "610 small trials on digits, about 25 s on two cores",
        "laptop": "1,160 trials on up to 3,840 images of MNIST (Fashion-MNIST or digits where it is not on this "
        "machine), 14 of them small residual networks on CIFAR-10; about 10 minutes on two cores",
        "paper": "240 networks on all of MNIST, about 4 minutes on one H200; the paper's whole grid of 140 with one "
        "seed, 5 minutes and as long again for the attacks; smaller parts beside them, and 680 networks on digits, "
        "MNIST and CIFAR-10 trained in other ways, and 14 deep networks on CIFAR-10",
    },
    variants={
        "paper": "one logit, parity, head ±1/√m, unit-norm inputs",
        "paper-low-high": "the same with digits 0–4 against 5–9",
        "authors": "ten classes, Gaussian head, pixels in [-1, 1], no shuffling",
    },
    home=__name__,
    topics=(
        *("grid", "robustness", "rise", "factors", "risk_bound", "extensions", "estimators"),
        *("growth", "proof_steps", "full_grid", "deep_networks", "acting", "constants"),
    ),
)
