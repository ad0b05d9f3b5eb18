"""Packed records come back as they were, to the precision of float32."""

from __future__ import annotations

import base64

import numpy as np
import polars

from undertow.report.series import pack_grid, points_that_fit


def records(**columns: object) -> polars.DataFrame:
    schema = {"trial": polars.String, "step": polars.Int64, "epoch": polars.Int64, "measure": polars.String}
    schema |= {"key": polars.String, "value": polars.Float64, "error": polars.Float64}
    return polars.DataFrame(columns, schema=schema)


def unpacked(document: dict[str, str], name: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(document[name]), dtype=kind)


def test_every_value_is_found_by_trial_measure_and_moment() -> None:
    rows = [
        (
            trial,
            10 * epoch,
            epoch,
            measure,
            key,
            100 * number + epoch + 0.1,
            None if measure == "loss" else 0.5,
        )
        for number, trial in enumerate(("b", "a"))
        for epoch in range(4)
        for measure, key in (("loss", "mean"), ("energy", ""))
    ]
    names = ("trial", "step", "epoch", "measure", "key", "value", "error")
    frame = records(**{name: [row[i] for row in rows] for i, name in enumerate(names)})
    document = pack_grid(frame, ["a", "b"]).document()
    index = unpacked(document, "index", "<i4").reshape(-1, 3)
    values = unpacked(document, "values", "<f4").reshape(-1, 4)
    errors = unpacked(document, "errors", "<f4").reshape(-1, 4)
    assert document["moments"] == [[(0, 0), (10, 1), (20, 2), (30, 3)]]
    found = {
        ("ab"[trial], *document["names"][name]): (values[i], errors[i])
        for i, (trial, name, _) in enumerate(index)
    }
    assert len(found) == 4
    np.testing.assert_allclose(found["a", "loss", "mean"][0], [100.1, 101.1, 102.1, 103.1], rtol=1e-6)
    np.testing.assert_allclose(found["b", "energy", ""][0], [0.1, 1.1, 2.1, 3.1], rtol=1e-6)
    assert np.isnan(found["a", "loss", "mean"][1]).all()
    assert (found["b", "energy", ""][1] == 0.5).all()


def test_trials_without_records_and_unknown_ones_do_no_harm() -> None:
    frame = records(trial=["x"], step=[0], epoch=[0], measure=["loss"], key=[""], value=[1.0], error=[None])
    grid = pack_grid(frame, ["a", "x"])
    assert grid.index.tolist() == [1, 0, 0]
    assert grid.errors.size == 0
    assert pack_grid(frame, ["a"]).values.size == 0


def test_thinned_curves_keep_their_ends() -> None:
    steps = list(range(1000))
    columns = {"trial": ["a"] * 1000, "measure": ["m"] * 1000, "key": [""] * 1000, "error": [None] * 1000}
    frame = records(**columns, step=steps, epoch=steps, value=[float(step) for step in steps])
    grid = pack_grid(frame, ["a"], points=7)
    assert [step for step, _ in grid.moments[0]] == grid.values.astype(int).tolist()
    assert grid.values[0] == 0
    assert grid.values[-1] == 999
    assert len(grid.values) == 7


def test_the_budget_is_kept_and_used() -> None:
    lengths = [1000] * 10 + [3] * 100
    points = points_that_fit(lengths, budget=2000)
    assert points is not None
    assert sum(min(length, points) for length in lengths) <= 2000
    assert sum(min(length, points + 1) for length in lengths) > 2000


def test_numbers_that_are_none_survive() -> None:
    value = [float("nan"), float("inf"), 1e300]
    frame = records(
        trial=["a"] * 3,
        step=[0, 1, 2],
        epoch=[0, 1, 2],
        measure=["m"] * 3,
        key=[""] * 3,
        value=value,
        error=[None] * 3,
    )
    packed = pack_grid(frame, ["a"]).values
    assert np.isnan(packed[0])
    assert np.isinf(packed[1:]).all()
