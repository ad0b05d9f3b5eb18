"""Robustness from both sides: attacks that find adversarial examples, certificates that exclude them.

Start with `robust_accuracy` and `robustness`; a `Classifier` declares normalisation, bounds and read-out.
"""

from undertow.adversary.accuracy import RobustAccuracyResult, attack_cost, robust_accuracy
from undertow.adversary.classifier import Classifier
from undertow.adversary.example_pairs import pairs_grid
from undertow.adversary.readout import Groups
from undertow.adversary.risk import AdversarialRisk, RiskBoundResult, adversarial_risk, risk_bound
from undertow.adversary.robust_curves import RobustCurve, robust_curve, wilson
from undertow.adversary.robustness import Robustness, robustness

__all__ = [
    "AdversarialRisk",
    "Classifier",
    "Groups",
    "RiskBoundResult",
    "RobustAccuracyResult",
    "RobustCurve",
    "Robustness",
    "adversarial_risk",
    "attack_cost",
    "pairs_grid",
    "risk_bound",
    "robust_accuracy",
    "robust_curve",
    "robustness",
    "wilson",
]
