"""The section ``probe`` of a configuration: what is measured, how often, and on which points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field, field_validator

from undertow.core.config_errors import shown
from undertow.core.sections import Count, WithLaterOptions
from undertow.data.data_section import Split
from undertow.measures import MEASURES, measure
from undertow.probe.schedule import LEVELS, Every, Schedule

if TYPE_CHECKING:
    from undertow.measures.reading import Measure

__all__ = ["ProbeConfig"]

_Words = Literal["epoch", "log", "doublings", "ends", "end"]
_Moments = Literal["epoch", "log", "doublings"]  # the end's network is kept anyway


class ProbeConfig(WithLaterOptions):
    """What is measured, how often, and on which points.

    ``every`` is "epoch", "log", "doublings", a number of steps, "ends" (before training and after it) or "end"; by the
    training loss "decade", "10 decades" or "at 10, 15 decades", and by t = Σ η "0.5 time-decades" (see
    ``undertow.probe.Schedule``). A
    measure may have its own: ``{"name": "robust-accuracy", "every": "end"}``. At the end of training everything is
    measured. A costly measure may have its own ``limit`` too: it then takes the first of the points only. In a grid
    ``{"name": …, "only": {"activation": "relu"}}`` is taken of the trials with these settings alone, which are named
    like the axes of a grid. A measure with a ``split`` of its own is taken there too, and its records are called so:
    ``{"name": "accuracy", "split": "test"}`` gives those of ``accuracy@test``.
    The points are the first ``limit`` of the points trained on, or of another ``split`` of the same data, with
    the same normalisation and task. ``examples`` is for how many of them the closest adversarial example of
    the trained network is kept.

    ``keep`` says when the network itself is kept, in the words of ``every`` or a number of steps: with
    "at 10, 20 decades" as it is where the training loss has passed 10^-10 and 10^-20. The trained one is stored in any
    case (``Store.trial(id).weights``), these beside it (``.kept``).
    """

    LATER = ("keep",)

    measures: tuple[dict[str, Any], ...] = ({"name": "loss", "kind": "auto"},)
    every: _Words | Count | Annotated[str, Field(pattern=LEVELS)] = "epoch"
    limit: Count | None = None
    split: Split | None = None
    examples: Annotated[int, Field(strict=True, ge=0, le=64)] = 0
    keep: _Moments | Count | Annotated[str, Field(pattern=LEVELS)] | None = None

    @field_validator("measures", mode="before")
    @classmethod
    def _written_out(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"{shown(value)} is no list of measures; write e.g. ['stable-rank', 'loss']")
        return tuple(_written_out(each) for each in value)

    @property
    def splits(self) -> tuple[Split | None, ...]:
        """For each measure the split that it is taken on."""
        return tuple(each.get("split", self.split) for each in self.measures)

    @property
    def names(self) -> tuple[str, ...]:
        """What the records of each measure are called."""
        return tuple(
            f"{each['name']}@{each['split']}" if "split" in each else each["name"] for each in self.measures
        )

    def build(self) -> tuple[tuple[Measure, Every], ...]:
        """The measures themselves, each with when it is taken."""
        return tuple(
            (
                measure(**{key: value for key, value in each.items() if key not in _OWN}),
                each.get("every", self.every),
            )
            for each in self.measures
        )


_OWN = ("every", "limit", "only", "split")
"""What the probe decides about a measure, not the measure itself."""


def _written_out(given: Any) -> dict[str, Any]:
    """A measure with every option, from its name alone or from a table with a name.

    A schedule is written only where it was given: without one, the probe's own decides.
    """
    table = {"name": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ValueError(f"{shown(given)} is not a measure; write one of {', '.join(MEASURES)}")
    for key, value in table.items():
        if key != "only" and not _are_plain(value if isinstance(value, list | tuple) else (value,)):
            raise ValueError(
                f"the measure's {key} = {shown(value)} must be a word, a number or a list of them"
            )
    options = dict(table)
    own = {key: options.pop(key) for key in _OWN if key in options}
    if "every" in own:
        Schedule(own["every"])  # an error where it is none
    if "limit" in own and (type(own["limit"]) is not int or own["limit"] < 1):
        raise ValueError(f"the measure's limit = {shown(own['limit'])} must be a number of points, 1 or more")
    if own.get("split", "test") not in get_args(Split):
        raise ValueError(f"the measure's split = {shown(own['split'])} must be one of {get_args(Split)}")
    if "only" in own:
        own["only"] = _settings_named(own["only"])
    made: Any = measure(**options)
    return {"name": table["name"], **made.model_dump(exclude_none=True), **own}


def _settings_named(only: Any) -> dict[str, Any]:
    names, values = (list(only), list(only.values())) if isinstance(only, Mapping) else ([], [])
    if not names or not all(isinstance(name, str) for name in names) or not _are_plain(values):
        raise ValueError(
            f"the measure's only = {shown(only)} must be a table of settings, such as {{activation = 'relu'}}"
        )
    return dict(only)


def _are_plain(values: Iterable[Any]) -> bool:
    """Whether all are words or numbers."""
    return all(isinstance(each, str | int | float) and each == each for each in values)
