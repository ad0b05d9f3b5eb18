"""Features on D_binary; and networks trained on relabelled points, moved and not, of three data sets."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.feature_averaging.cluster_grids import cell
from undertow.studies.kit.presence import present
from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import after_training_on_test
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS", "RADII", "SOURCES", "STRENGTH"]

SOURCES = ("clusters", "digits", "mnist")
STRENGTH = 0.75
"""The attacker of F-u, in units of √d: beyond the average's 1/√k for every k of the study, within a centre's 1."""
RADII = {"digits": [0.0, 0.5, 1.0], "mnist": [0.0, 1.5, 3.0]}
"""L2, raw pixels; on clusters they are 0, 1 and 2 times √(d/k)."""
_SIZES = by_scale(
    d=(100, 400, 3072),
    n=(200, 1000, 2000),
    k=(4, 10, 10),
    width=(16, 64, 256),
    epochs=(10, 20, 30),
    steps=(10, 30, 50),
    seen=(300, 2000, 20_000),
    points=(200, 1000, 10_000),
)


def features(scale: Scale, variant: str) -> dict[str, Any]:
    """The ±1/m network of the averaging grids, and the features beside it."""
    here = cell(scale, variant, divide=2)
    measures = [{"name": "useful-features", "eps": STRENGTH, "limit": 50 * here.k}]
    settings = here.binary(measures, here.axes)
    return settings | {"probe": after_training_on_test(measures, 50 * here.k)}


def relabelled(scale: Scale, *, source: str) -> dict[str, Any] | None:
    """Targets by radii by seeds; radius 0 is the control."""
    size = _SIZES[scale]
    if source == "mnist" and (scale == "smoke" or (scale == "laptop" and not present("mnist"))):
        return None
    if source == "clusters":
        of: dict[str, Any] = {"name": "d-binary", "n": size.n, "d": size.d, "k": size.k}
        unit = (size.d / size.k) ** 0.5
        radii = [0.0, round(unit, 6), round(2 * unit, 6)]
    else:
        of, radii = {"name": source, "limit": size.seen}, RADII[source]
    attacked = {"width": size.width, "epochs": size.epochs, "steps": size.steps}
    training = {"optimizer": "adam", "learning_rate": 0.003, "batch_size": 100, "epochs": size.epochs}
    return {
        "data": {"name": "relabelled", "of": of, **attacked},
        "model": {"name": "mlp", "widths": [size.width]},
        "training": training,
        "probe": after_training_on_test(["accuracy"], size.points),
        "grid": {
            "data.of.name": [of["name"]],
            "data.targets": ["random", "deterministic"],
            "data.eps": radii,
            "seed": list(range(10)),
        },
    }


PARTS: dict[str, Part] = {
    "useful-features": features,
    **{f"relabelled-{source}": only_in("paper")(partial(relabelled, source=source)) for source in SOURCES},
}
