"""The grids of a store for the browser of a report: every trial with its place, end, configuration and curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars

from undertow.measures.bounds import error_side
from undertow.report.pairs import picture_pairs
from undertow.report.series import BUDGET, pack_grid, points_that_fit

if TYPE_CHECKING:
    from undertow.store.stored_study import StoredStudy
    from undertow.store.tolerant import ReadableStore

__all__ = ["browsable"]

_PIXELS = 1_500_000
"""How many pixels of adversarial examples a report carries at most, in all."""


def browsable(
    store: ReadableStore, studies: Sequence[StoredStudy], *, budget: int = BUDGET
) -> tuple[list[dict[str, Any]], list[str]]:
    """The grids as plain data, and sentences about what was left out of them to keep the report small."""
    frames = [store.frame(study) for study in studies]
    lengths = [
        length
        for frame in frames
        if not frame.is_empty()
        for length in frame.group_by("trial", "measure", "key").agg(polars.len())["len"].to_list()
    ]
    points = points_that_fit(lengths, budget=budget)
    pictures = _pictures_that_fit(store, studies)
    notes = []
    if points is not None:
        notes.append(
            f"The grid browser shows at most {points} moments of each curve; figures and verdicts used all of them."
        )
    grids = [
        _grid(
            store,
            study,
            pack_grid(frame, [trial for trial, _ in study.trials], points=points).document(),
            pictures,
        )
        for study, frame in zip(studies, frames, strict=True)
    ]
    return grids, notes


def _grid(store: ReadableStore, study: StoredStudy, series: dict[str, Any], pictures: int) -> dict[str, Any]:
    # Stored columns are in the order of the alphabet; the seed is what one asks for last.
    axes = sorted(study.trials[0][1], key=lambda axis: (axis == "seed", axis)) if study.trials else []
    documents = [
        _flat(json.loads(store.trial(t).files["config.json"])) for t, _ in study.trials if t in store
    ]
    shared, own = _split(documents)
    ends, configs = [], iter(own)
    pairs: dict[str, Any] = {}
    for place, (trial, columns) in enumerate(study.trials):
        end: dict[str, Any] = {"id": trial, "at": [columns[axis] for axis in axes]}
        if trial in store:
            stored = store.trial(trial)
            end |= {**stored.status, "own": next(configs)}
            examples = stored.examples if pictures else None
            if examples is not None and (shown := picture_pairs(examples, most=pictures)):
                pairs[str(place)] = shown
        else:
            end["status"] = "damaged" if trial in store.problems else "missing"
        ends.append(end)
    return {
        "study": study.name,
        "variant": study.variant,
        "scale": study.scale,
        "part": study.part,
        "seed_set": study.seed_set,
        "axes": axes,
        "trials": ends,
        "config": shared,
        "series": series,
        "sides": [error_side(*name) for name in series["names"]],
        "pairs": pairs,
    }


def _flat(document: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested tables as one, its keys paths.

    >>> _flat({"model": {"width": 16, "init": {"name": "he"}}})
    {'model.width': 16, 'model.init.name': 'he'}
    """
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[before + key] = value
    return flat


def _split(documents: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What all documents share, and what each has for itself."""
    if not documents:
        return {}, []
    shared = {
        key: value
        for key, value in documents[0].items()
        if all(key in other and other[key] == value for other in documents)
    }
    return shared, [{key: value for key, value in each.items() if key not in shared} for each in documents]


def _pictures_that_fit(store: ReadableStore, studies: Sequence[StoredStudy]) -> int:
    """How many examples of each trial the report can show."""
    pixels = 0
    trials = {trial for study in studies for trial, _ in study.trials if trial in store}
    for trial in trials:
        data = store.trial(trial).files.get("examples.safetensors")
        if data is not None:  # x and adversarial, float32, make up nearly all of the file
            pixels += len(data) // 4
    if not pixels:
        return 0
    return 64 if pixels <= _PIXELS else max(1, 8 * _PIXELS // pixels)
