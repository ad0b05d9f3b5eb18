"""The grid's ReLU networks once more, with everything that is compared read after training."""

from __future__ import annotations

from typing import Any

from undertow.studies.co_correlation.grid.parts import PARTS as GRID
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]


def constants(scale: Scale, variant: str) -> dict[str, Any] | None:
    """Data, networks and training of the part ``grid``; energies and constants on the points that are attacked."""
    settings = GRID["grid"](scale, variant)
    assert settings is not None
    (robust,) = (each for each in settings["probe"]["measures"] if each["name"] == "robust-accuracy")
    robust = {name: value for name, value in robust.items() if name != "only"}
    steepness = {"name": "steepness", "loss": settings["training"]["loss"], "limit": robust["limit"]}
    return {
        **settings,
        "probe": {**settings["probe"], "measures": [steepness, "accuracy", robust], "every": "end"},
        "grid": {**settings["grid"], "activation": ["relu"]},
    }


PARTS: dict[str, Part] = {"constants": constants}
