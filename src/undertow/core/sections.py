"""Groups of settings: frozen, strict about types, and refusing names they do not know."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Count", "Fraction", "NonNegative", "Positive", "Real", "Section", "Seed", "Switch", "Text"]

# Strict, so that `epochs = true` or "5" are mistakes and not the numbers 1 and 5.
Count = Annotated[int, Field(strict=True, ge=1, le=10**9)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Positive = Annotated[float, Field(strict=True, gt=0, le=1e300)]
NonNegative = Annotated[float, Field(strict=True, ge=0, le=1e300)]
Fraction = Annotated[float, Field(strict=True, ge=0, lt=1)]
Real = Annotated[float, Field(strict=True, ge=-1e3, le=1e3)]
Text = Annotated[str, Field(strict=True, min_length=1, max_length=4096)]
Switch = Annotated[bool, Field(strict=True)]


class Section(BaseModel):
    """A frozen group of settings that refuses names it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
