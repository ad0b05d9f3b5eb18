"""The claims on the growth of co-correlation: what Theorems 5.3 and 5.5 conclude, and the powers they name."""

from __future__ import annotations

import polars

from undertow.studies.co_correlation.growth.rates import (
    OFTEN,
    exponents_of_norm,
    mean_known,
    networks,
    rates,
    slack_exponents,
)
from undertow.studies.co_correlation.setting import PAPER
from undertow.studies.kit.claim import SHARE, Finding
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.per_seed import by_value, mean, verdict
from undertow.studies.kit.readings import largest
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS"]

CLAIMS = Claims(PAPER, parts=("growth",), figure="growth-terms")
_NORM, _SLACK = {"figure": "growth-norm"}, {"figure": "growth-slack"}
_ADDED = ["remaining", "replacement"]
_COLUMN = polars.col


@CLAIMS.add(
    "C-h.rate",
    "The growth of co-correlation slows down as training goes on: its rate ends below half of its largest.",
    "Property 1",
)
def saturates(frame: polars.DataFrame) -> Finding:
    """Per seed the exact rate at the end over its largest, at the largest width and q: the larger of both kinds."""
    widest = largest(rates(frame), "width", "q").group_by("activation", "seed", maintain_order=True)
    ratio = widest.agg(value=_COLUMN("exact").last() / _COLUMN("exact").max())
    note = f"effect: rate at the end of training over its largest; {on_data(frame)}"
    return verdict(ratio, over="max", below=0.5, note=note)


@CLAIMS.add(
    "C-l.inverse",
    "Co-correlation grows faster where ‖W‖₂² (linear) or E‖DW‖₂² (ReLU) is smaller.",
    "Property 2",
    **_NORM,
)
def inverse(frame: polars.DataFrame) -> Finding:
    """Per seed the exponent of the growth in the norm, the larger one of linear and ReLU networks."""
    whole = networks(rates(frame, "linear", "relu"))
    found = exponents_of_norm(whole, "growth")
    linear, relu = (mean_known(found.filter(activation=kind)["value"]) for kind in ("linear", "relu"))
    note = (
        "effect: p in growth ∝ norm^p over widths and q, the larger of linear and ReLU",
        f"linear {linear}, ReLU {relu}",
        _left_out(whole),
        on_data(frame),
    )
    return verdict(found, over="max", below=0.0, note=note)


@CLAIMS.add(
    "C-l.linear",
    "The speed of growth is proportional to 1/‖W‖₂² (linear networks): an exponent within ¼ of −1.",
    "Theorem 5.3 (Eq. 19)",
    **_NORM,
    activation="linear",
)
@CLAIMS.add(
    "C-l.relu",
    "The speed of growth is proportional to 1/E‖DW‖₂² (ReLU networks): an exponent within ¼ of −1.",
    "Theorem 5.5",
    **_NORM,
    activation="relu",
)
def inverse_square(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the exponent of the growth in the norm, against −1 give or take a quarter."""
    whole = networks(rates(frame, activation))
    plain = mean_known(exponents_of_norm(whole, "growth")["value"])
    note = (
        "effect: p in growth ∝ drive·norm^p over widths and q, the drive being the main term's numerator",
        f"growth ∝ norm^p alone has p = {plain}",
        _left_out(whole),
        on_data(frame),
    )
    return verdict(exponents_of_norm(whole, "speed"), between=(-1.25, -0.75), note=note)


@CLAIMS.add(
    "C-m.slack",
    "What the theorem adds to the main term is O(m^-q) (linear networks).",
    "Theorem 5.3 (Eq. 19)",
    **_SLACK,
    activation="linear",
)
@CLAIMS.add(
    "C-n.slack",
    "What the theorem adds to the main term is O(m^-1/2) or O(m^-q), here the latter (ReLU networks).",
    "Theorem 5.5",
    **_SLACK,
    activation="relu",
)
def slack_falls(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the exponent in m of what the theorem calls O(m^-q), plus q: the larger over q."""
    table = rates(frame, activation)
    found = slack_exponents(table, _ADDED)
    undivided = table.with_columns(added=polars.sum_horizontal(*_ADDED) * _COLUMN("norm"))
    main = mean(slack_exponents(table, ["main"])["value"])
    before = mean(slack_exponents(undivided, ["added"])["value"])
    note = (
        "effect: exponent of m in all that the theorem adds to the main term, plus q, the larger over q",
        f"exponents {by_value(found, 'q', form='{mean:+.2f} at q = {place:g}')}",
        f"before it is divided by the norm, which falls with m, {before:+.2f}",
        f"the main term's own {main:+.2f}",
        on_data(frame),
    )
    excess = found.with_columns(_COLUMN("value") + _COLUMN("q"))
    return verdict(excess, over="max", below=0.0, note=note)


_GROWS = "The rate is positive at 95 % of the moments or more: co-correlation grows step by step"


@CLAIMS.add(
    "C-m.grows",
    f"{_GROWS} (linear networks).",
    "Theorem 5.3, conclusion C(t) ≥ 0",
    activation="linear",
)
@CLAIMS.add(
    "C-n.grows",
    f"{_GROWS} (ReLU networks).",
    "Theorem 5.5, conclusion C(t) ≥ 0",
    activation="relu",
)
def grows(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the share of readings after the first step in which the next step raises ϱ."""
    table = rates(frame, activation).filter(_COLUMN("step") > 0)
    note = f"effect: share of readings after the first step; {on_data(frame)}"
    return verdict(table.with_columns(value=_COLUMN("measured") > 0), above=OFTEN, within=SHARE, note=note)


def _left_out(whole: polars.DataFrame) -> str:
    """A phrase for the networks that an exponent cannot use."""
    shrunk = len(whole) - int(whole["grew"].sum())
    return f"{shrunk} of {len(whole)} networks did not grow and are left out" if shrunk else ""
