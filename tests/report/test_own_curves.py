"""Curves of a study that brings no figures: over epochs or steps, and said over what the mean is."""

from __future__ import annotations

import polars
import pytest

from undertow.report.own_curves import curves_of_measures


def records(
    moments: list[tuple[int, int]], *, measure: str = "loss", key: str = "mean", error: float | None = None
) -> polars.DataFrame:
    return polars.DataFrame(
        [
            {"trial": f"{width}-{seed}", "step": step, "epoch": epoch, "measure": measure, "key": key,
             "value": float(width + seed + step), "error": error, "width": width, "seed": seed}
            for width in (4, 8) for seed in (0, 1) for step, epoch in moments
        ]
    )  # fmt: skip


def test_several_moments_of_one_epoch_are_not_averaged() -> None:
    ((_, _, figure),) = curves_of_measures(records([(0, 0), (1, 0), (2, 0), (3, 1)]), ["width", "seed"])
    rows = [row for row in figure["data"]["values"] if row["width"] == 4]
    assert figure["spec"]["encoding"]["x"]["field"] == "step"
    assert [(row["step"], row["low"], row["mean"], row["high"]) for row in rows] == [
        (step, 4.0 + step, 4.5 + step, 5.0 + step) for step in range(4)
    ]


def test_one_moment_an_epoch_is_drawn_over_epochs_and_the_caption_says_what_the_mean_is() -> None:
    ((name, caption, figure),) = curves_of_measures(records([(0, 0), (3, 1)]), ["width", "seed"])
    assert (name, figure["spec"]["encoding"]["x"]["field"]) == ("loss", "epoch")
    assert caption == "loss over training, by width; mean over seed, with smallest to largest"
    assert not figure["spec"]["layer"][1]["mark"]["point"]


def test_what_was_measured_once_is_a_point() -> None:
    ((_, _, figure),) = curves_of_measures(records([(3, 1)]), ["width", "seed"])
    assert figure["spec"]["layer"][1]["mark"]["point"]


@pytest.mark.parametrize(
    ("measure", "key", "error", "shown"),
    [
        ("robust-accuracy", "0.5", None, "0.5 (≤)"),
        ("cluster-radius", "certified", None, "certified (≥)"),
        ("cluster-radius", "exact", None, "exact"),
        ("energy", "", 1e-3, ""),
    ],
)
def test_bounds_whose_error_nobody_knows_have_their_sign(
    measure: str, key: str, error: float | None, shown: str
) -> None:
    frame = records([(0, 0), (3, 1)], measure=measure, key=key, error=error)
    ((_, _, figure),) = curves_of_measures(frame, ["width", "seed"])
    assert {row["key"] for row in figure["data"]["values"]} == {shown}
