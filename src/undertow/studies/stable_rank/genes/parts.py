"""Gene expression: patients that lived, and persons with autism; all of the data in every step."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.lacking import LackingDataError
from undertow.studies.kit.presence import present
from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.settings import gradient_descent
from undertow.studies.kit.study import Part, Scale
from undertow.studies.stable_rank.starts import (
    ACTIVATIONS,
    IN_SPAN,
    TEN_SEEDS,
    start_axis,
    starts,
    trained_head,
)

__all__ = ["PARTS"]

_PATIENTS = by_scale(width=(8, 40, 1000), epochs=(10, 60, 500), every=(2, 4, 10))
_PERSONS = by_scale(width=(16, 128, 128), epochs=(500, 5000, 5000), every=(25, 50, 20))


def _patients(name: str, scale: Scale, variant: str) -> dict[str, Any]:
    size = _PATIENTS[scale]
    if not present(name):
        raise LackingDataError(name)
    settings = _table(name, size.width, 0.22, size.epochs, size.every, variant, scale)
    return {**settings, "training": {**settings["training"], **IN_SPAN}}


def dlbcl(scale: Scale, variant: str) -> dict[str, Any]:
    """240 lymphoma patients × 7,399 genes, with the settings for neuroblastoma: an extension of Fig 2."""
    return _patients("dlbcl", scale, variant)


def neuroblastoma(scale: Scale, variant: str) -> dict[str, Any]:
    """Fig 2, on the user's copy; patients whose three years are unknown are left out."""
    return _patients("neuroblastoma", scale, variant)


def autism(scale: Scale, variant: str) -> dict[str, Any]:
    """Fig 3: five genes."""
    size = _PERSONS[scale]
    if not present("autism"):
        raise LackingDataError("autism")
    return _table("autism", size.width, 0.01, size.epochs, size.every, variant, scale)


def own_table(scale: Scale, variant: str) -> dict[str, Any]:
    """A table of the reader's, trained on as autism's; its columns, in any units, are standardised first."""
    size = _PERSONS[scale]
    settings = _table("table", size.width, 0.01, size.epochs, size.every, variant, scale)
    known = {"name": "near-orthogonality", "split": "train", "every": "end"}
    return {
        **settings,
        "data": {"name": "table", "normalise": "standardised"},
        "probe": {**settings["probe"], "measures": [*settings["probe"]["measures"], known]},
    }


def _table(
    name: str, width: int, rate: float, epochs: int, every: int, variant: str, scale: Scale
) -> dict[str, Any]:
    return {
        "data": {"name": name},
        "model": trained_head(width, variant),
        "training": gradient_descent(rate, epochs, loss="cross-entropy"),
        "probe": {"measures": ["stable-rank", "loss", "accuracy"], "every": every, "split": "test"},
        "grid": {"activation": ACTIVATIONS, "seed": TEN_SEEDS, start_axis(variant): starts(scale)},
    }


PARTS: dict[str, Part] = {
    "dlbcl": dlbcl,
    "neuroblastoma": neuroblastoma,
    "autism": autism,
    "table": own_table,
}
