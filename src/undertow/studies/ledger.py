"""The ledger: every claim of every study in a store, with its verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from undertow.errors import InputError
from undertow.runs.store import Store, StoredStudy
from undertow.studies import STUDIES, find
from undertow.studies.claims import Claim, Finding, Verdict

__all__ = ["Entry", "ledger"]


@dataclass(frozen=True)
class Entry:
    """One claim, judged on one variant of a study at one scale."""

    claim: Claim
    study: str
    variant: str
    scale: str
    finding: Finding

    def row(self) -> dict[str, Any]:
        """The entry as plain data, for JSON."""
        return {
            "id": self.claim.id,
            "text": self.claim.text,
            "source": self.claim.source,
            "study": self.study,
            "variant": self.variant,
            "scale": self.scale,
            "verdict": str(self.finding.verdict),
            "effect": self.finding.effect,
            "interval": None if self.finding.interval is None else list(self.finding.interval),
            "n": self.finding.n,
            "note": self.finding.note,
        }


def ledger(store: Store, study: StoredStudy | None = None) -> list[Entry]:
    """The verdicts on every claim of the studies in the store, or of one of them."""
    return [entry for each in ([study] if study else store.studies()) for entry in _judge(store, each)]


def _judge(store: Store, stored: StoredStudy) -> Iterator[Entry]:
    config = stored.config
    if config.name not in STUDIES:
        return  # a study of one's own, from a file, brings no claims
    frame = store.frame(stored)
    missing = sum(trial not in store for trial, _ in stored.trials)
    for claim in find(config.name).claims:
        if frame.is_empty():
            finding = Finding(Verdict.UNDECIDED, None, None, 0, "no trial is finished yet")
        else:
            try:
                finding = claim.test(frame)
            except InputError as error:
                finding = Finding(Verdict.UNDECIDED, None, None, 0, str(error))
        if missing:
            # What is there so far may be a biased selection: evidence, but no verdict.
            note = f"{missing} of {len(stored.trials)} trials are missing"
            note = f"{finding.note}; {note}" if finding.note else note
            finding = Finding(Verdict.UNDECIDED, finding.effect, finding.interval, finding.n, note)
        yield Entry(claim, config.name, config.variant, config.scale, finding)
