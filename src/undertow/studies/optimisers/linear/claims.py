"""O-a to O-d: each rule's margin in its own norm reaches the optimum; O-h on linear networks: whom it protects from."""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import POSITIVE, Finding, Verdict
from undertow.studies.kit.per_seed import mean, verdict
from undertow.studies.kit.readings import at_levels, compared, side_by_side
from undertow.studies.kit.statements import Claims
from undertow.studies.optimisers.margin_tables import NETWORK, end_and_half, progress, with_rules
from undertow.studies.optimisers.rules import ATTACKERS, DECAY, NORMS, RULES, parts_of

__all__ = ["CLAIMS", "at_equal_progress"]

NEAR = 0.98
"""Within 2 % of the optimum."""
ALIKE = 0.02
BOX = 0.05
"""How far λ‖w‖_∞ may be from 1 under AdamW."""
RESTING = 0.9
"""A gap that has shrunk by less than a tenth while the steps doubled is not on its way to 0."""
EQUAL = 0.9
"""Networks are compared when each has this share of its own norm's largest margin."""
_RIVALS = tuple(ATTACKERS.values())
_STEEPEST = "Gunasekar et al. 2018; Tsilivis et al. 2025"
_ADAM = "Zhang, Zou & Cao 2024"
_BAEK = "Baek et al. 2025"
_MOMENTUM = "Wang et al. 2022"
_MUON = "Fan, Schmidt & Thrampoulidis 2025"

_MARGINS = (
    ("O-a.two", "Gradient descent's margin reaches the largest in L2.", "binary-gd", _STEEPEST),
    ("O-a.four", "Gradient descent's, four classes.", "classes-gd", _STEEPEST),
    ("O-a.momentum", "With momentum it reaches it too.", "binary-momentum", _MOMENTUM),
    ("O-a.momentum-four", "With momentum, four classes.", "classes-momentum", _MOMENTUM),
    ("O-b.two", "Sign descent's margin reaches the largest in L∞.", "binary-sign", _STEEPEST),
    ("O-b.four", "Sign descent's, four classes.", "classes-sign", _STEEPEST),
    ("O-b.adam", "Adam's reaches the largest in L∞ too, with ε = 0.", "binary-adam", _ADAM),
    ("O-b.adam-four", "Adam's, four classes.", "classes-adam", _ADAM),
    ("O-b.uncorrected", "Without bias correction Adam's does so too.", "binary-uncorrected", _ADAM),
    ("O-b.signum", "Signum's reaches the largest in L∞ too.", "binary-signum", _BAEK),
    ("O-b.signum-four", "Signum's, four classes.", "classes-signum", _BAEK),
    ("O-c.two", "Coordinate descent's margin reaches the largest in L1.", "binary-coordinate", _STEEPEST),
    ("O-c.four", "Coordinate descent's, four classes.", "classes-coordinate", _STEEPEST),
    (
        "O-d.spectral",
        "Spectral descent's reaches the largest in the spectral norm.",
        "classes-spectral",
        _MUON,
    ),
    ("O-d.muon", "Muon's does so too, with momentum and five Newton–Schulz steps.", "classes-muon", _MUON),
    ("O-d.polar", "Muon's does so with exact polar factors.", "classes-polar", _MUON),
)
_PROTECTION = (
    ("l1", "At equal progress sign descent withstands the L1 attacker best", "1"),
    ("l2", "At equal progress gradient descent withstands the L2 attacker best", "2"),
    ("linf", "At equal progress coordinate descent withstands the L∞ attacker best", "inf"),
)

_LONGER = (
    "a first run left it open; it then had more steps and a rate chosen on other problems; no line was moved"
)
_STEPS = "a first run had a quarter of the steps; no line was moved"

CLAIMS = Claims()


def reaches(frame: polars.DataFrame, part: str) -> Finding:
    """Per problem the margin in the rule's own norm after training, as a share of the largest there is, against 0.98.

    The claim is about t → ∞: a margin below the line contradicts it only once its gap has come to rest.
    """
    norm = RULES[part.partition("-")[2]].norm
    end, shrunk = end_and_half(progress(frame), norm)
    found = verdict(end, norm, above=NEAR, note=f"effect: margin in {NORMS[norm]} as a share of the largest")
    resting = found.verdict is not Verdict.FAILS or shrunk > RESTING
    return found if resting else found.left_open(f"its gap fell by {1 - shrunk:.0%} while steps doubled")


@CLAIMS.add(
    "O-d.steps",
    "Five Newton–Schulz steps end where exact polar factors do: within 2 % of their margin.",
    source="Jordan et al. 2024",
    parts=("classes-muon", "classes-polar"),
    figure="margins-classes",
)
def as_exact(frame: polars.DataFrame) -> Finding:
    """Per problem the margin in the spectral norm by Muon over that by Muon with polar factors, within 2 % of 1."""
    end, _ = end_and_half(progress(frame), "spectral")
    both = compared(end, "rule", "muon", "polar", value="spectral", on=["seed"])
    note = "effect: margin in the spectral norm with five Newton–Schulz steps, over that with exact polar factors"
    return verdict(both, "ratio", between=(1 - ALIKE, 1 + ALIKE), note=note)


@CLAIMS.add(
    "O-b.adamw",
    "AdamW stays in the box that its decay draws, and fills it: ‖w‖_∞ goes to 1/λ.",
    source="Xie & Li 2024",
    parts=("binary-adamw",),
    figure="margins-binary",
)
def fills_its_box(frame: polars.DataFrame) -> Finding:
    """Per problem λ‖w‖_∞ after training, within 5 % of 1."""
    end, _ = end_and_half(progress(frame), "inf")
    size = DECAY * polars.col("smallest") / polars.col("margin:inf")
    note = ("effect: λ‖w‖_∞", f"its margin in L∞ is {mean(end['inf']):.3f} of the largest")
    return verdict(end.with_columns(value=size), between=(1 - BOX, 1 + BOX), note=note)


def protects(frame: polars.DataFrame, attacker: str) -> Finding:
    """Per problem the rule's mean radius against its attacker over that of its best rival, against 1."""
    column, rule = f"{attacker}:exact", polars.col("rule")
    table = at_equal_progress(frame)
    own = table.filter(rule == ATTACKERS[attacker]).select("seed", own=column)
    rivals = table.filter(rule != ATTACKERS[attacker]).group_by("seed").agg(best=polars.col(column).max())
    both = own.join(rivals, on="seed").with_columns(value=polars.col("own") / polars.col("best"))
    if both["seed"].n_unique() < frame["seed"].n_unique():
        raise InputError(f"not every network came to {EQUAL:.0%} of its largest margin: train longer")
    note = f"effect: mean radius in {NORMS[attacker]} over the best rival's, each at {EQUAL:.0%} of its own margin"
    return verdict(both, above=1.0, within=POSITIVE, note=note)


def at_equal_progress(frame: polars.DataFrame) -> polars.DataFrame:
    """Radii of every network when its margin in its own norm first has 90 % of the largest."""
    named = with_rules(frame)
    radii = side_by_side(named, "attacker-radii", by=[*NETWORK, "step"])
    table = progress(frame).join(radii, on=[*NETWORK, "step"])
    share = polars.coalesce(
        polars.when(polars.col("own") == norm).then(norm) for norm in ("1", "2", "inf", "spectral")
    )
    return at_levels(table.with_columns(behind=-share).drop("own"), [-EQUAL], of="behind", by=NETWORK)


for _id, _text, _part, _source in _MARGINS:
    _kind = _part.partition("-")[0]
    CLAIMS.add(
        _id,
        _text,
        source=_source,
        parts=(_part,),
        figure=f"margins-{_kind}",
        hindsight=_LONGER if _part.partition("-")[2] in ("adam", "uncorrected", "signum", "muon") else _STEPS,
        part=_part,
    )(reaches)
for _name, _text, _attacker in _PROTECTION:
    for _kind, _count in {"binary": "two", "classes": "four"}.items():
        CLAIMS.add(
            f"O-h.{_name}-{_count}",
            f"{_text} (linear, {_count} classes).",
            source="Faghri et al. 2021",
            parts=parts_of(_kind, _RIVALS),
            figure=f"protection-{_kind}",
            attacker=_attacker,
        )(protects)
