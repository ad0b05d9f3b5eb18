"""Every claim of every study can be judged on the records that its own grids write, and come out either way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from polars.exceptions import ColumnNotFoundError

from undertow.config.grid import StudyConfig
from undertow.studies import STUDIES, find
from undertow.studies.kit.claim import Verdict, decide
from undertow.studies.kit.made_up import faults, verdicts_met

_FACTORS = {
    "co_correlation": "share",
    "relative_std": "positive",
    "linear_correlation": "share",
    "identity_gap": "share",
}
_RATES = "main remaining replacement remaining_bound replacement_bound inequality dropped exact measured"
_WEIGHT_NORMS = ("1", "2", "inf", "spectral")
_KEYS: dict[str, dict[str, str]] = {
    "accuracy": {"": "share"},
    "loss": {"mean": "positive", "log10": "any"},
    "sharpness": {"": "positive"},
    "completion": {
        **dict.fromkeys(("error", "rank"), "positive"),
        **{f"sigma:{place}": "positive" for place in range(4)},
    },
    "nuclear": dict.fromkeys(("error", "rank", "moved"), "positive"),
    "linear-product": {"rank": "positive", "stable-rank": "positive", "sigma:0": "positive"},
    "late-generalisation": {
        **dict.fromkeys(("seen", "unseen", "frequency"), "share"),
        **dict.fromkeys(("log10_loss", "margin"), "any"),
    },
    "frequency-residuals": {f"{kind}:{k}": "share" for kind in ("residual", "kept") for k in (1, 2, 4, 6)},
    "margin-ends": {
        **{f"{name}:{norm}": "positive" for name in ("radius", "end1", "end2") for norm in ("2", "inf")},
        **dict.fromkeys(("cosine:1", "cosine:2"), "share"),
    },
    "attacked-radius": {"radius": "positive", "relative": "positive"},
    "hessian-trace": {"": "positive"},
    "robustness-profile": {
        **{
            f"{side}:{norm}": "positive"
            for side in ("certified", "attacked", "relative")
            for norm in ("2", "inf")
        },
        **dict.fromkeys(("margin", "energy"), "positive"),
        "co-correlation": "share",
    },
    "stable-rank": dict.fromkeys(("hidden.weight", "hidden1.weight"), "positive"),
    "printed-collaboration": {
        f"{formula}:{norms}": "share"
        for formula in ("equation-9", "algorithm-1")
        for norms in ("auto", "power", "power-authors")
    },
    "steepness": dict.fromkeys(("energy", "largest", "product", "loss_energy"), "positive"),
    "chain": {
        "identity_gap": "share",
        **{f"{place}:module": "positive" for place in range(4)},
        **{
            f"activation{place}:{key}": kind
            for place in (1, 2, 3)
            for key, kind in list(_FACTORS.items())[:3]
        },
    },
    "growth": {
        "flow_time": "time",
        **dict.fromkeys(_RATES.split(), "any"),
        **dict.fromkeys(("co_correlation", "cosine_least", "cosine_first", "cosine_sum"), "share"),
        **dict.fromkeys(("norm", "steepest", "update_gap"), "positive"),
    },
    "useful-features": {
        f"{feature}:{points}:{word}": "any"
        for feature in ("centre", "average", "neuron")
        for points in ("all", "own")
        for word in ("useful", "robust")
    },
    "feature-cosines": dict.fromkeys(("aligned", "own_mean"), "share"),
    "feature-coefficients": {
        "own_least": "any",
        "aligned": "share",
        **dict.fromkeys(("own_ratio", "cross_share", "cross_largest", "residual"), "positive"),
    },
    "bias-search": {"robust": "share", "robust_any": "share", "radius": "positive"},
    "feature-distance": {
        f"{target}:{side}": "share"
        for target in ("averaged", "decoupled")
        for side in ("lower", "upper", "relative")
    },
    "kkt": {"margin": "positive", **dict.fromkeys(("residual", "slackness", "misalignment"), "share")},
    "rank-proof": {
        "log10_loss": "any",
        "spread": "positive",
        "ratio": "any",
        "excess": "any",
        "least": "any",
        "residual": "share",
    },
    "neuron-alignment": {
        **dict.fromkeys(("to_means", "to_each_other", "own_active", "active"), "share"),
        **dict.fromkeys(
            ("predicted", "rank_positive", "rank_negative", "directions", "patterns"), "positive"
        ),
    },
    "exact-radius": {**dict.fromkeys(("mean", "least", "margin"), "positive"), "log10_loss": "any"},
    "kkt-network": {"likeness": "share", "universal@2.0": "share"},
    "norm-margins": {
        "smallest": "positive",
        "log10-loss": "any",
        **{f"margin:{norm}": "positive" for norm in _WEIGHT_NORMS},
    },
    "linear-optimum": {
        **{f"optimum:{norm}": "positive" for norm in _WEIGHT_NORMS},
        **{f"cosine:{norm}": "share" for norm in _WEIGHT_NORMS},
    },
    "step-geometry": {"sign": "share", "gradient": "share", "log10-steepest": "any", "log10-loss": "any"},
    "off-manifold": dict.fromkeys(("off", "chance", "data", "off_local", "chance_local", "stretch"), "share"),
    "randomised-features": dict.fromkeys(("none", "simple", "complex"), "share"),
    "linear-likeness": dict.fromkeys(("agree", "linearity", "accuracy", "linear_accuracy"), "share"),
}
"""What each measure writes that claims read."""
_RADII = {
    **dict.fromkeys(("accuracy", "attacked@reach", "averaged@reach"), "share"),
    **dict.fromkeys(("certified", "attacked", "averaged", "exact", "steepness"), "positive"),
}
TESTED_ELSEWHERE = {
    "C-t.wrn": "two seeds, which decide nothing: test_deep_networks.py",
    "C-t.a1-a2": "a curve within a hundredth of a printed one: test_deep_networks.py",
    "C-t.statistics": "a part of the variant authors alone: test_deep_networks.py",
    "C-n.frozen": "a share within a tenth of 1",
    "C-n.smooth": "two shares within a tenth of 0",
    **dict.fromkeys(
        (
            *("B-h", "B-h.transformer", "B-h.descent", "B-h.images", "B-i.start", "B-i.decay", "B-o.descent"),
            *("B-p.relu", "B-j.margin-descent", "B-j.frequency-descent", "B-j.frequency-transformer"),
        ),
        "two accuracies that pass their lines late",
    ),
    **dict.fromkeys(("B-p.time", "B-i.limit", "B-k.time"), "a time between two lines"),
    **dict.fromkeys(
        ("B-a.reaches-linear", "B-a.reaches-images", "B-a.reaches-chebyshev"),
        "a flow beyond the threshold, and no other",
    ),
    **dict.fromkeys(("B-d.min", "B-h.without-decay"), "what is read after fitting"),
    **dict.fromkeys(
        ("B-k.order", "B-l.start", "B-p.limit", "B-k-greedy", "B-k.order-greedy", "B-k.time-greedy"),
        "three ranks, several starts: not at smoke scale",
    ),
    **dict.fromkeys(
        (
            *("B-b.hovers", "B-b.hovers-linear", "B-b.hovers-images", "B-b.hovers-chebyshev"),
            *("B-c.heavy-ball", "B-c.nesterov"),
        ),
        "a ratio between two lines",
    ),
    **dict.fromkeys(("O-b.adamw", "O-d.steps"), "a ratio between two lines"),
    **dict.fromkeys(("F-f", "F-i"), "a share below 0.05 in eight parts at once"),
    **dict.fromkeys(("F-m.blocks", "F-m.blocks.centred"), "thirty neurons in two blocks"),
    **dict.fromkeys(("F-m.diagonal", "F-m.diagonal.centred"), "thirty neurons on a diagonal"),
    **dict.fromkeys(
        (
            *(
                "R-e",
                "R-e.leaky",
                "R-e.table",
                "R-f",
                "R-i.fashion",
                "R-i.fashion-leaky",
                "R-j",
                "R-j.leaky",
                "R-k",
            ),
            *("R-e.dlbcl", "R-e.dlbcl-leaky", "R-f.dlbcl", "R-g", "R-g.leaky", "R-h"),
            *("R-l.data", "R-l.data-all", "R-l.data-cosine", "R-l.data-cosine-all"),
            *("R-l.features", "R-l.features-all"),
        ),
        "data that may not be here",
    ),
    **dict.fromkeys(("R-a.limit", "R-a.limit-leaky", "R-m.falls"), "a limit at rest"),
    **dict.fromkeys(("R-a.rest-order", "R-a.rest-order-leaky"), "an order at rest"),
    **dict.fromkeys(("R-l.change", "R-l.dimension", "R-n.average"), "orders of five starts, and a formula"),
    "R-n.pattern": "a ratio within a twentieth of 1 for every network",
    **dict.fromkeys(
        ("R-n.mixture", "R-n.mixture-leaky"), "a ratio within a twentieth of 1 for every network"
    ),
    "R-n.leaky": "a ratio within a twentieth of 1 for every network",
    **dict.fromkeys(("R-a.rest", "R-a.rest-leaky", "R-a.rest-one", "R-b"), "a loss of 10⁻⁵⁰"),
    **dict.fromkeys(
        [
            f"O-g.{depth}{rule}"
            for depth in ("", "deep-")
            for rule in ("gd", "sign", "coordinate", "spectral", "adam")
        ],
        "one measure on two schedules",
    ),
    **dict.fromkeys(
        [claim.id for claim in find("optimisers").claims if claim.id.startswith(("O-j.mnist", "O-j.resnet"))],
        "not at smoke scale",
    ),
    **dict.fromkeys(
        ["F-n.autoattack", *(f"F-n.{way}-cifar" for way in ("readout", "pgd", "argmax", "native"))],
        "not at smoke scale",
    ),
    **dict.fromkeys(
        (each.id for each in find("co-correlation").claims if each.id.endswith(("-mnist", "-cifar"))),
        "not at smoke scale: test_acting.py",
    ),
    **dict.fromkeys(("F-v.random-mnist", "F-v.deterministic-mnist"), "not at smoke scale"),
    **dict.fromkeys(
        (claim.id for claim in find("margin").claims), "two worlds of its own, in test_margin.py"
    ),
}
"""What chance does not meet: test_growth.py, test_feature_*.py, test_stable_rank.py, test_optimisers.py,
test_margin.py and test_other_biases.py do."""


def keys_of(grid: StudyConfig) -> Mapping[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    for measure in grid.probe.measures:
        options: Mapping[str, Any] = measure
        name = options["name"]
        if name in ("robust-accuracy", "certified-accuracy"):
            found[name] = {repr(eps): "share" for eps in options["eps"]}
        elif name == "risk-bound":
            sides = {
                f"{side}@{r!r}": "any" for r in options["radii"] for side in ("gap", "bound", "adversarial")
            }
            found[name] = {"risk": "positive", "energy": "positive", **sides}
        elif name == "cluster-radius":
            native = {"native:attacked": "positive", "native:exact": "positive"}
            found[name] = {
                **found.get(name, {}),
                **(native if options.get("decision") == "native" else _RADII),
            }
        elif name == "supervision":
            ways = {"sum:gradient": [0.0], "sum:pgd": [0.0], "native": []}
            if grid.part.endswith("ten"):
                ways["max:gradient"] = [0.0]
            found[name] = {
                f"{how}@{eps}": "share" for how, clean in ways.items() for eps in (*clean, *options["eps"])
            }
        elif name == "seam-profile":
            before = f"{options['label']}:" if options["label"] else ""
            found.setdefault(name, {})
            found[name] = {
                **found[name],
                **{f"{before}{seam}:co_correlation": "share" for seam in options["seams"]},
            }
        elif name == "norm-kkt":
            found[name] = {**found.get(name, {}), **{f"total:{norm}": "share" for norm in options["norms"]}}
        elif name in ("attacker-radii", "exact-radii"):
            ends = ("exact",) if name == "attacker-radii" else ("certified", "exact", "attacked")
            found[name] = {f"{p}:{end}": "positive" for p in ("1", "2", "inf") for end in ends}
        elif name == "collaboration":
            factors = {**_FACTORS, "energy": "positive"}
            found[name] = {f"{options['seam']}:{key}": kind for key, kind in factors.items()}
        elif name in _KEYS:
            found[f"{name}@{options['split']}" if "split" in options else name] = _KEYS[name]
    return found


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_names_what_it_has(name: str) -> None:
    assert faults(find(name)) == []


@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_can_hold_and_fail(name: str) -> None:
    study = find(name)
    claims = [claim for claim in study.claims if claim.id not in TESTED_ELSEWHERE]
    met = verdicts_met(study.but(claims=claims), keys_of)
    assert met.keys() == {claim.id for claim in claims}
    checks = {claim.id for claim in claims if claim.check}
    either = {Verdict.HOLDS, Verdict.FAILS}
    stuck = {key: sorted(verdicts) for key, verdicts in met.items() if not verdicts >= either}
    assert stuck.keys() <= checks, stuck
    assert all(met[key] & either for key in checks)


def test_a_claim_that_cannot_fail_and_one_that_stumbles_are_found() -> None:
    study = find("stable-rank")
    first = study.claims[0]
    blind = study.but(
        claims=[replace(first, test=lambda frame: decide([1.0] * len(set(frame["seed"])), above=0.0))]
    )
    assert verdicts_met(blind, keys_of, tries=5) == {first.id: {Verdict.HOLDS}}
    stumbles = study.but(
        claims=[replace(first, test=lambda frame: decide(frame["no such column"].to_list(), above=0.0))]
    )
    with pytest.raises(ColumnNotFoundError):
        verdicts_met(stumbles, keys_of, tries=1)
    lost = study.but(claims=[replace(first, figure="fig-9")])
    assert faults(lost) == ["R-a.falls names a figure 'fig-9' that is not there"]
