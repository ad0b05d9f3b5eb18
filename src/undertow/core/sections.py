"""Groups of settings: frozen, strict about types, and refusing names they do not know."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
)

__all__ = [
    "EVERY_OPTION",
    "Count",
    "Fraction",
    "NonNegative",
    "Positive",
    "Real",
    "Section",
    "Seed",
    "Switch",
    "Text",
    "WithLaterOptions",
]

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


class WithLaterOptions(Section):
    """A section that has got options since trials with it were first stored; ``LATER`` names them.

    At its default such an option is left out of the written form, so that stored trials keep their identities. With
    ``model_dump(context=EVERY_OPTION)`` it is written as well.

    >>> class Walk(WithLaterOptions):
    ...     LATER = ("uphill",)
    ...     steps: Count = 3
    ...     uphill: Switch = False
    >>> Walk().model_dump(), Walk(uphill=True).model_dump(), Walk().model_dump(context=EVERY_OPTION)
    ({'steps': 3}, {'steps': 3, 'uphill': True}, {'steps': 3, 'uphill': False})
    """

    LATER: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_later_defaults(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        if info.context is EVERY_OPTION:
            return written
        fields = type(self).model_fields
        return {
            name: value
            for name, value in written.items()
            if name not in self.LATER or getattr(self, name) != fields[name].default
        }


EVERY_OPTION = object()
"""The context in which a section writes out later options at their defaults too."""
