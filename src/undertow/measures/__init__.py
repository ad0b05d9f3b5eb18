"""Measures, one file each: a pure function, its frozen result, and the section that probes and TOML files name.

``MEASURES`` has them by their names. A new measure is a file in this folder and a line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.core.errors import ConfigError, nearest
from undertow.measures.listing import Listed, MeasureRegistry

if TYPE_CHECKING:
    from undertow.measures.reading import Measure

__all__ = ["MEASURES", "Listed", "MeasureRegistry", "measure"]

MEASURES = MeasureRegistry(
    Listed("stable-rank", "undertow.measures.rank:StableRank", truth="below"),
    Listed("energy", "undertow.measures.energy:Energy", truth={"": "above"}),
    Listed("sharpness", "undertow.measures.sharpness:Sharpness", truth="above"),
    Listed("hessian-trace", "undertow.measures.summed_curvature:HessianTrace"),
    Listed("collaboration", "undertow.measures.collaboration:Collaboration"),
    Listed("loss", "undertow.measures.loss:Loss"),
    Listed("accuracy", "undertow.measures.clean_accuracy:Accuracy"),
    Listed(
        "risk-bound",
        "undertow.measures.first_order_risk:RiskBound",
        # A stronger attack makes the adversarial risk larger, and smaller what the bound has to spare.
        truth={"adversarial@*": "above", "upper@*": "below", "gap@*": "below", "holds_up_to": "below"},
    ),
    Listed("robust-accuracy", "undertow.measures.robust_accuracy:RobustAccuracy", truth="below"),
    Listed("certified-accuracy", "undertow.measures.certified_share:CertifiedShare", truth="above"),
    Listed(
        "robustness-profile",
        "undertow.measures.robustness_profile:RobustnessProfile",
        truth={"certified:*": "above", "attacked:*": "below", "relative:*": "below", "*": None},
    ),
    Listed("attacked-radius", "undertow.measures.attacked_radius:AttackedRadius", truth="below"),
    Listed("completion", "undertow.measures.completion:Completion"),
    Listed("nuclear", "undertow.measures.nuclear:NuclearBaseline"),
    Listed("linear-product", "undertow.measures.linear_product:LinearProduct"),
    Listed("steepness", "undertow.measures.steepness:Steepness"),
    Listed("spectrum", "undertow.measures.spectrum:Spectrum"),
    Listed("chain", "undertow.measures.chain:Chain"),
    Listed("seam-profile", "undertow.measures.seam_profile:SeamProfile"),
    Listed("printed-collaboration", "undertow.measures.printed:PrintedCollaboration"),
    Listed("growth", "undertow.measures.co_correlation_growth:Growth"),
    Listed("feature-cosines", "undertow.measures.feature_cosines:FeatureCosines"),
    Listed("useful-features", "undertow.measures.useful_features:UsefulFeatures"),
    Listed("feature-coefficients", "undertow.measures.feature_coefficients:FeatureCoefficients"),
    Listed(
        "cluster-radius",
        "undertow.measures.cluster_radius:ClusterRadius",
        # Radii and shares alike; the averaged direction has a radius of its own, which is no bound but known.
        truth={
            "certified": "above",
            "certified@*": "above",
            "attacked": "below",
            "attacked@*": "below",
            "native:certified*": "above",
            "native:attacked*": "below",
        },
    ),
    Listed("bias-search", "undertow.measures.bias_search:BiasSearch"),
    Listed(
        "feature-distance",
        "undertow.measures.feature_distance:FeatureDistance",
        truth={"*:upper": "below", "*": "above"},
    ),
    Listed("kkt", "undertow.measures.kkt:KktResiduals"),
    Listed("kkt-network", "undertow.measures.kkt_network:KktNetwork"),
    Listed("margin-ends", "undertow.measures.margin_ends:MarginEnds"),
    Listed("margins", "undertow.measures.margins:Margins"),
    Listed("margin-falls", "undertow.measures.margin_falls:MarginFalls"),
    Listed("direction", "undertow.measures.weight_direction:DirectionOfWeights"),
    Listed("rank-proof", "undertow.measures.rank_proof:RankProof"),
    Listed(
        "neuron-alignment",
        "undertow.measures.neuron_alignment:NeuronAlignment",
        truth={"rank_*": "below", "*": None},
    ),
    Listed("exact-radius", "undertow.measures.exact_radius:ExactRadius"),
    Listed("norm-margins", "undertow.measures.norm_margins:NormMargins"),
    Listed("linear-optimum", "undertow.measures.linear_optimum:LinearOptimum"),
    Listed("norm-kkt", "undertow.measures.norm_kkt:NormKkt"),
    Listed("step-geometry", "undertow.measures.step_geometry:StepGeometry"),
    Listed(
        "attacker-radii",
        "undertow.measures.attacker_radii:AttackerRadii",
        truth={"*:certified": "above", "*:attacked*": "below", "*": None},
    ),
    Listed(
        "exact-radii",
        "undertow.measures.exact_radii:ExactRadii",
        truth={"*:certified": "above", "*:attacked": "below", "*": None},
    ),
    Listed("coordinate-margin", "undertow.measures.coordinate_margin:CoordinateMargin"),
    Listed("margin-basin", "undertow.measures.margin_basin:MarginBasin"),
    Listed("plane-points", "undertow.measures.plane_points:PlanePoints"),
    Listed("hard-margin", "undertow.measures.hard_margin:HardMargin"),
    Listed("l2-path", "undertow.measures.l2_path:L2Path"),
    Listed(
        "point-radii",
        "undertow.measures.point_radii:PointRadii",
        truth={"certified:*": "above", "product:*": "above", "ball:*": "above", "attacked:*": "below"},
    ),
    Listed("randomised-features", "undertow.measures.randomised_features:RandomisedFeatures"),
    Listed("frequency-residuals", "undertow.measures.frequency_residuals:FrequencyResiduals"),
    Listed("near-orthogonality", "undertow.measures.data_orthogonality:DataOrthogonality"),
    Listed("late-generalisation", "undertow.measures.late_generalisation:LateGeneralisation"),
    Listed("linear-likeness", "undertow.measures.linear_likeness:LinearLikeness"),
    Listed(
        "off-manifold",
        "undertow.measures.off_manifold:OffManifold",
        truth={"radius": "below", "radius_on": "below"},  # the closest examples may not have been found
    ),
    Listed(
        "supervision",
        "undertow.measures.supervision:SupervisionRobustness",
        truth={"*@0.0": None, "*": "below"},  # no attack is needed for the clean accuracy, at ε = 0
    ),
)


def measure(name: str, **options: Any) -> Measure:
    """The measure called ``name`` in configuration files, or a ``ConfigError`` naming the nearest one.

    >>> measure("loss", kind="bce")
    Loss(kind='bce')
    >>> measure("stable-rnak")
    Traceback (most recent call last):
        ...
    undertow.core.errors.ConfigError: 'stable-rnak' is not a measure; did you mean 'stable-rank'?
    """
    if name not in MEASURES:
        raise ConfigError(f"{name!r} is not a measure; {nearest(name, MEASURES)}")
    made: Any = MEASURES[name](**options)  # most are called to read a network, some begin a tracker
    found: Measure = made
    return found
