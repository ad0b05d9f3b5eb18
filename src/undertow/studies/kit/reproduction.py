"""What a store holds of a study: its parts in one variant at one scale, and their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from undertow.config.study_names import OWN_SEEDS
from undertow.probe.records import COLUMNS
from undertow.store.store import Store
from undertow.store.stored_study import StoredStudy
from undertow.studies import STUDIES, find
from undertow.studies.kit.study import SCALES, Study

if TYPE_CHECKING:
    import polars

__all__ = ["Reproduction", "reproductions"]


@dataclass(frozen=True)
class Reproduction:
    """A study in a store, in one variant at one scale on one set of seeds: what figures and claims are about.

    Other seeds are another reproduction of the same study, drawn and judged by itself.
    """

    store: Store
    study: Study
    variant: str
    scale: str
    parts: tuple[StoredStudy, ...]
    seed_set: str = OWN_SEEDS

    @property
    def label(self) -> str:
        """Its name on disk."""
        return self.parts[0].whole if self.parts else f"{self.study.name}.{self.variant}.{self.scale}"

    def seeds(self, parts: Sequence[str]) -> tuple[int, ...]:
        """The seeds of some of the parts."""
        chosen = [each for each in self.parts if each.part in parts]
        return tuple(sorted({seed for each in chosen for seed in each.seeds}))

    def frame(self, parts: Sequence[str], *, so_far: bool = False) -> polars.DataFrame:
        """The records of some of the parts; grid columns that none of them has are left out.

        With ``so_far`` also those of networks that are still being trained.
        """
        asked = frozenset(parts), so_far
        if asked not in self._chosen:  # figures and claims ask for the same few parts again and again
            records = self._records_so_far if so_far else self._records
            chosen = records.filter(records["part"].is_in(list(parts)))
            kept = [each.name for each in chosen if each.name in COLUMNS or each.null_count() < len(each)]
            self._chosen[asked] = chosen.select(kept)
        return self._chosen[asked]

    def files(self, parts: Sequence[str]) -> tuple[str, ...]:
        """The names of the tables of the reader's own that some of the parts ran on."""
        data = [each.settings.get("data", {}) for each in self.parts if each.part in parts]
        return tuple(dict.fromkeys(Path(str(own["path"])).name for own in data if own.get("path")))

    def begun(self, parts: Sequence[str]) -> bool:
        """Whether all of these parts were asked for."""
        return {part.part for part in self.parts}.issuperset(parts)

    def missing(self, parts: Sequence[str]) -> tuple[int, int]:
        """How many trials of these parts are not finished, and how many there should be."""
        trials = [trial for each in self.parts if each.part in parts for trial, _ in each.trials]
        return sum(trial not in self.store for trial in trials), len(trials)

    @cached_property
    def _chosen(self) -> dict[tuple[frozenset[str], bool], polars.DataFrame]:
        return {}

    @cached_property
    def _records(self) -> polars.DataFrame:
        return self.store.frame(*self.parts)

    @cached_property
    def _records_so_far(self) -> polars.DataFrame:
        return self.store.frame(*self.parts, so_far=True)


def reproductions(store: Store) -> list[Reproduction]:
    """Every study that undertow knows in the store, its parts put together."""
    found: dict[tuple[str, str, str, str], list[StoredStudy]] = {}
    for stored in store.studies():
        if _is_known(stored):  # a study of one's own, from a file, brings no figures and no claims
            names = stored.name, stored.variant, stored.scale, stored.seed_set
            found.setdefault(names, []).append(stored)
    return [
        Reproduction(store, find(name), variant, scale, _in_order(find(name), parts), seed_set)
        for (name, variant, scale, seed_set), parts in found.items()
    ]


def _is_known(stored: StoredStudy) -> bool:
    """Whether the settings can be those of a study that undertow knows: one's own may have the same name."""
    return stored.name in STUDIES and stored.variant in find(stored.name).variants and stored.scale in SCALES


def _in_order(study: Study, parts: list[StoredStudy]) -> tuple[StoredStudy, ...]:
    order = list(study.parts)
    known = [each for each in parts if each.part in order]
    return tuple(sorted(known, key=lambda each: order.index(each.part)))
