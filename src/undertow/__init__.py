"""undertow: the pull you do not see.

Measures how gradient descent, on its own, makes networks fragile or robust: layers that align,
margins that grow, ranks that collapse, features that average.

This module is the whole public API. Names are imported on first use, so that ``import undertow``
and the command line answer at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same table as below, for type checkers and editors
    from undertow.adversary.accuracy import attack_cost as attack_cost
    from undertow.adversary.accuracy import robust_accuracy as robust_accuracy
    from undertow.adversary.certificates.lipschitz import LipschitzBracket as LipschitzBracket
    from undertow.adversary.certificates.lipschitz import lipschitz as lipschitz
    from undertow.adversary.certified_accuracy import certified_accuracy as certified_accuracy
    from undertow.adversary.classifier import Classifier as Classifier
    from undertow.adversary.risk import adversarial_risk as adversarial_risk
    from undertow.adversary.risk import risk_bound as risk_bound
    from undertow.adversary.robust_curves import robust_curve as robust_curve
    from undertow.adversary.robustness import robustness as robustness
    from undertow.core.errors import UndertowError as UndertowError
    from undertow.core.near_orthogonality import near_orthogonality as near_orthogonality
    from undertow.curvature.curvature_result import SharpnessResult as SharpnessResult
    from undertow.curvature.hessian_sharpness import sharpness as sharpness
    from undertow.curvature.hessian_trace import hessian_trace as hessian_trace
    from undertow.jacobian.cutting import chain as chain
    from undertow.jacobian.cutting import split as split
    from undertow.jacobian.norms import JacobianNorms as JacobianNorms
    from undertow.jacobian.norms import jacobian_norms as jacobian_norms
    from undertow.jacobian.operator import JacobianOperator as JacobianOperator
    from undertow.jacobian.operator import jacobian_operator as jacobian_operator
    from undertow.jacobian.seams import seams as seams
    from undertow.measures.collaboration import collaboration as collaboration
    from undertow.measures.energy import energy as energy
    from undertow.measures.kkt import kkt as kkt
    from undertow.measures.margins import margins as margins
    from undertow.measures.rank import stable_rank as stable_rank
    from undertow.measures.seam_profile import seam_profile as seam_profile
    from undertow.probe.probe import Probe as Probe
    from undertow.store.store import Store as Store

_WHERE = {
    # Jacobians: per-sample norms with error bounds, operators, places to cut a network
    "jacobian_norms": "undertow.jacobian.norms",
    "JacobianNorms": "undertow.jacobian.norms",
    "jacobian_operator": "undertow.jacobian.operator",
    "JacobianOperator": "undertow.jacobian.operator",
    "seams": "undertow.jacobian.seams",
    "split": "undertow.jacobian.cutting",
    "chain": "undertow.jacobian.cutting",
    # Curvature of the loss in the parameters
    "sharpness": "undertow.curvature.hessian_sharpness",
    "SharpnessResult": "undertow.curvature.curvature_result",
    "hessian_trace": "undertow.curvature.hessian_trace",
    # Measures of a network and data at one moment
    "energy": "undertow.measures.energy",
    "collaboration": "undertow.measures.collaboration",
    "seam_profile": "undertow.measures.seam_profile",
    "stable_rank": "undertow.measures.rank",
    "margins": "undertow.measures.margins",
    "kkt": "undertow.measures.kkt",
    # Of points alone
    "near_orthogonality": "undertow.core.near_orthogonality",
    # Robustness from both sides: attacks, certificates, exact radii
    "robust_accuracy": "undertow.adversary.accuracy",
    "robust_curve": "undertow.adversary.robust_curves",
    "attack_cost": "undertow.adversary.accuracy",
    "certified_accuracy": "undertow.adversary.certified_accuracy",
    "lipschitz": "undertow.adversary.certificates.lipschitz",
    "LipschitzBracket": "undertow.adversary.certificates.lipschitz",
    "robustness": "undertow.adversary.robustness",
    "adversarial_risk": "undertow.adversary.risk",
    "risk_bound": "undertow.adversary.risk",
    "Classifier": "undertow.adversary.classifier",
    # Measures on a schedule inside anyone's training loop
    "Probe": "undertow.probe.probe",
    # Finished trials on disk, and their records as one frame
    "Store": "undertow.store.store",
    # What is refused, in a sentence that says what to do
    "UndertowError": "undertow.core.errors",
}

__version__ = "0.1.0"
__all__ = [*_WHERE, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'undertow' has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
