"""O-g: networks come near to KKT points of their own norm; O-h: each rule withstands its own attacker best."""

from __future__ import annotations

from collections.abc import Callable

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import POSITIVE, Finding, Verdict
from undertow.studies.kit.per_seed import mean, verdict
from undertow.studies.kit.readings import at_levels, side_by_side
from undertow.studies.kit.statements import Claims
from undertow.studies.optimisers.margin_tables import NETWORK, end_and_half, with_rules
from undertow.studies.optimisers.networks.parts import DEPTHS, LONG
from undertow.studies.optimisers.rules import ATTACKERS, NORMS, RULES, parts_of

__all__ = ["CLAIMS", "at_equal_loss", "at_equal_misalignment", "over_rivals", "residuals"]

SMALL = 0.1
MISALIGNED = 0.5
EARLY = -2.0
_HOMOGENEOUS = "Tsilivis et al. 2025; arXiv 2602.16340"
_RIVALS = tuple(ATTACKERS.values())
_WITHSTANDING = parts_of("radii", _RIVALS)

_AGAIN = (
    "after a first run networks were made wider, since some had died, and were trained longer; "
    "slopes at kinks are free since; no line was moved"
)
_FURTHER = (
    "after a first run networks were made wider, since some had died, and trained further; no line was moved"
)

CLAIMS = Claims(_HOMOGENEOUS)


def residuals(frame: polars.DataFrame) -> polars.DataFrame:
    """kind, rule, seed, own, step, ``total:norm`` for each norm that was measured, ``own_total`` in the rule's own."""
    table = side_by_side(with_rules(frame), "norm-kkt", by=[*NETWORK, "own", "step"])
    norms = [name.removeprefix("total:") for name in table.columns if name.startswith("total:")]
    if not norms:
        raise InputError("no network classifies every point: train longer")
    own = polars.coalesce(polars.when(polars.col("own") == norm).then(f"total:{norm}") for norm in norms)
    return table.with_columns(own_total=own).sort(*NETWORK, "step")


def near_kkt(frame: polars.DataFrame, norm: str) -> Finding:
    """Per seed 1 − ⟨θ, u⟩(1 − slackness)/(‖θ‖ ‖u‖_*) at the end, against 0.1."""
    table = residuals(frame).with_columns(share=1 - polars.col("own_total"))
    end, shrunk = end_and_half(table, "share")
    _require_all(end, frame)
    note = f"effect: 1 − ⟨θ, u⟩/(‖θ‖ ‖u‖_*) in {NORMS[norm]}, with slackness, after training"
    found = verdict(end, "own_total", below=SMALL, note=note)
    falling = found.verdict is Verdict.FAILS and shrunk < 0.9
    return found.left_open(f"it fell by {1 - shrunk:.0%} while steps doubled") if falling else found


def nearest_in_own(frame: polars.DataFrame, norm: str, rule: str) -> Finding:
    """Per seed the rule's residual in its norm over the smallest of the other rules' in that norm, against 1."""
    table = residuals(frame)
    last = table.filter(polars.col("step") == polars.col("step").max().over("rule", "seed"))
    ratio = over_rivals(last, f"total:{norm}", rule, polars.Expr.min)
    _require_all(ratio, frame)
    note = f"effect: residual in {NORMS[norm]}, over the smallest of the other rules' in it"
    return verdict(ratio, below=1.0, within=POSITIVE, note=note)


def _require_all(table: polars.DataFrame, frame: polars.DataFrame) -> None:
    """Leaving out networks that did not come so far would choose among seeds."""
    missing = frame["seed"].n_unique() - table["seed"].n_unique()
    if missing:
        raise InputError(
            f"of {missing} seeds a network did not come that far, or misclassifies a point: train longer"
        )


def at_equal_misalignment(frame: polars.DataFrame) -> polars.DataFrame:
    """Radii when the residual in the rule's own norm is 0.5, or first known where it is smaller already."""
    table = residuals(frame).drop("own").join(_radii(frame), on=[*NETWORK, "step"])
    return at_levels(table.drop_nulls("own_total"), [MISALIGNED], of="own_total", by=NETWORK)


def at_equal_loss(frame: polars.DataFrame) -> polars.DataFrame:
    """Radii when the summed loss is 10^-2: early, but every point is classified correctly by then."""
    losses = side_by_side(with_rules(frame), "norm-margins", by=[*NETWORK, "step"], keys=["log10-loss"])
    return at_levels(losses.join(_radii(frame), on=[*NETWORK, "step"]), [EARLY], of="log10-loss", by=NETWORK)


def _radii(frame: polars.DataFrame) -> polars.DataFrame:
    return side_by_side(with_rules(frame), "exact-radii", by=[*NETWORK, "step"])


def over_rivals(
    table: polars.DataFrame, column: str, rule: str, best: Callable[[polars.Expr], polars.Expr]
) -> polars.DataFrame:
    """seed and ``value``: the rule's number over the best of the other rules'."""
    own = table.filter(polars.col("rule") == rule).select("seed", own=column)
    rivals = table.filter(polars.col("rule") != rule).group_by("seed").agg(best=best(polars.col(column)))
    return own.join(rivals, on="seed").with_columns(value=polars.col("own") / polars.col("best"))


def withstands(
    frame: polars.DataFrame, attacker: str, early: bool, rule: str = "", side: str = "exact"
) -> Finding:
    """Per seed the rule's radius against its attacker over its best rival's, against 1; of all sides in the note.

    A seed whose network did not come so far is put on the line: it counts for neither side, and the test is the harder.
    """
    table = (at_equal_loss if early else at_equal_misalignment)(frame)
    protector = rule or ATTACKERS[attacker]
    ratios = {
        each: over_rivals(table, f"{attacker}:{each}", protector, polars.Expr.max)
        for each in ("certified", "exact", "attacked")
    }
    absent = frame.filter(~polars.col("seed").is_in(ratios[side]["seed"].to_list())).select("seed").unique()
    judged = polars.concat([ratios[side].select("seed", "value"), absent.with_columns(value=polars.lit(1.0))])
    where = "at a loss of 0.01" if early else "at a residual of 0.5"
    others = {each: table["value"] for each, table in ratios.items() if each != side and len(table)}
    beside = [f"{each} {mean(values):.3f}" for each, values in others.items()]
    missing = frame.select("part", "seed").unique().height - table.height
    left_out = f"{missing} networks did not come so far" if missing else ""
    note = (
        f"effect: mean {side} radius over the best rival's, {where}",
        f"in the mean {', '.join(beside)}" if beside else "",
        left_out,
        f"{len(absent)} seeds count for neither side" if len(absent) else "",
    )
    return verdict(judged, above=1.0, within=POSITIVE, note=note)


for _rule in LONG:
    _norm = RULES[_rule].norm
    for _kind, _layers in DEPTHS.items():
        CLAIMS.add(
            f"O-g.{'' if _kind == 'long' else 'deep-'}{_rule}",
            f"{RULES[_rule].title[0].upper()}{RULES[_rule].title[1:]} comes near to a KKT point of {NORMS[_norm]} "
            f"({_layers}).",
            parts=(f"{_kind}-{_rule}",),
            figure="kkt-in-norms",
            hindsight=_AGAIN,
            norm=_norm,
        )(near_kkt)
for _rule in ("gd", "sign", "coordinate", "spectral"):
    for _kind, _layers in DEPTHS.items():
        CLAIMS.add(
            f"O-g.{'' if _kind == 'long' else 'deep-'}{_rule}-own",
            f"In {NORMS[RULES[_rule].norm]} no other rule comes as near to one as {RULES[_rule].title} ({_layers}).",
            parts=parts_of(_kind, ("gd", "sign", "coordinate", "spectral")),
            figure="kkt-table",
            hindsight=_AGAIN,
            norm=RULES[_rule].norm,
            rule=_rule,
        )(nearest_in_own)
_WHEN = {
    "network": ("At equal misalignment", False, "exact"),
    "certified": ("By what is proved, at equal misalignment,", False, "certified"),
    "early": ("Stopped early, at equal loss and accuracy,", True, "exact"),
}
for _attacker, _rule in ATTACKERS.items():
    for _ending, (_when, _early, _side) in _WHEN.items():
        CLAIMS.add(
            f"O-h.l{_attacker}-{_ending}",
            f"{_when} {RULES[_rule].title} withstands the {NORMS[_attacker]} attacker best (two-layer networks).",
            parts=_WITHSTANDING,
            figure="radii-early" if _early else "radii-misaligned",
            hindsight=_FURTHER,
            attacker=_attacker,
            early=_early,
            side=_side,
        )(withstands)
CLAIMS.add(
    "O-h.adam",
    "At equal misalignment Adam withstands the L1 attacker better than gradient descent (two-layer networks).",
    parts=parts_of("radii", ("gd", "adam")),
    figure="radii-misaligned",
    hindsight=_FURTHER,
    attacker="1",
    early=False,
    rule="adam",
)(withstands)
