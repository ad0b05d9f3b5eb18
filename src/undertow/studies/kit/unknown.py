"""Numbers that are not known: a verdict must not depend on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from undertow.studies.kit.claim import Claim, Finding

if TYPE_CHECKING:
    import polars

__all__ = ["depends_on_unknown"]


def depends_on_unknown(claim: Claim, frame: polars.DataFrame, finding: Finding) -> str:
    """A phrase where the finding depends on readings that are NaN, else nothing.

    A test need not see them: in a comparison NaN passes for larger than everything, and filters drop it. So the test
    is asked again with numbers in their place, below and above all others of their kind. Whoever never looks at them
    finds the same three times.
    """
    value = frame["value"]
    unknown = value.is_nan()
    if not unknown.any():
        return ""
    kind = ["measure", "key"]
    finite = frame.filter(value.is_finite()).select(*kind, "value").group_by(kind)
    ends = finite.min().rename({"value": "low"}).join(finite.max().rename({"value": "high"}), on=kind)
    placed = frame.select(kind).join(ends, on=kind, how="left", maintain_order="left")
    low, high = placed["low"].fill_null(0.0), placed["high"].fill_null(0.0)
    far = high - low + 1.0
    for other in (low - far, high + far):
        filled = frame.with_columns(value.zip_with(~unknown, other).alias("value"))
        if _again(claim, filled) != repr(finding):
            kinds = frame.filter(unknown).select("measure", "key").unique().sort("measure", "key").rows()
            named = ", ".join(" ".join(filter(None, kind)) for kind in kinds[:3])
            more = f" and {len(kinds) - 3} more" if len(kinds) > 3 else ""
            return f"{int(unknown.sum())} of its readings are not known ({named}{more})"
    return ""


def _again(claim: Claim, frame: polars.DataFrame) -> str:
    try:
        return repr(claim.test(frame))
    except Exception as error:  # such numbers cannot be: the test did look at them
        return repr(error)
