"""Options that came after the first trials were stored: no identity may change for them, and a grid may name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from undertow.config.grid import StudyConfig
from undertow.config.trial import TrialConfig, validate
from undertow.core.sections import WithLaterOptions

MIXTURE = {"name": "kou-mixture", "d": 5, "n": 6}
SINES = {"name": "fourier-sum", "frequencies": [1, 2]}


def sections(above: type[WithLaterOptions] = WithLaterOptions) -> Iterator[type[WithLaterOptions]]:
    for section in above.__subclasses__():
        yield section
        yield from sections(section)


def trial(**instead: Any) -> dict[str, Any]:
    return {"data": MIXTURE, "model": {"name": "two-layer", "width": 4}, **instead}


@pytest.mark.parametrize(
    ("document", "identity"),
    [
        (trial(), "b19167695adeb8eb"),
        (
            trial(data=SINES, model={"name": "mlp", "widths": [4, 3]}, training={"loss": "square"}),
            "d028d0cbc7e2023c",
        ),
        (trial(data={"name": "mnist", "limit": 10}), "2e6a55949333d1a1"),
        (
            trial(training={"optimizer": {"name": "sgd"}, "batch_size": 2, "learning_rate": 0.5}),
            "7ac3e99fb3974fe6",
        ),
        (
            trial(
                training={
                    "rate": "scheduled",
                    "stop_below": -3.0,
                    "penalty": {"name": "jacobian", "weight": 0.1},
                }
            ),
            "a23a452d14767b7e",
        ),
        (trial(probe={"measures": ["kkt", "sharpness", "stable-rank"], "every": "log"}), "08678dd664fa457a"),
        (
            trial(
                probe={"measures": [{"name": "kkt", "method": "gram"}, {"name": "sharpness", "atol": 0.1}]}
            ),
            "39e4ca8471d4da57",
        ),
    ],
)
def test_trials_keep_the_identities_that_they_have_on_disks(document: dict[str, Any], identity: str) -> None:
    assert validate(TrialConfig, document).id == identity


@pytest.mark.parametrize("section", list(sections()), ids=lambda section: section.__name__)
def test_every_later_option_is_a_field_with_a_default(section: type[WithLaterOptions]) -> None:
    for name in section.LATER:
        assert not section.model_fields[name].is_required(), f"{section.__name__}.{name}"


@pytest.mark.parametrize(
    ("document", "axis", "values"),
    [
        (trial(model={"name": "mlp", "widths": [4]}), "bias", [False, True]),
        (trial(data=SINES, training={"loss": "square"}), "data.stretch", [None, 2.0]),
        (trial(), "stop_below", [None, -3.0]),
        (trial(), "keep", [None, "epoch"]),
    ],
)
def test_a_grid_may_name_them(document: dict[str, Any], axis: str, values: list[Any]) -> None:
    usual, other = validate(StudyConfig, {**document, "name": "later", "grid": {axis: values}}).points
    assert usual.trial.id == validate(TrialConfig, document).id
    assert other.trial.id != usual.trial.id
