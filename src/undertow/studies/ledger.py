"""The ledger: every claim of every study in a store, with its verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from undertow.errors import InputError
from undertow.runs.store import Store
from undertow.studies.claims import Claim, Finding, Verdict
from undertow.studies.reproduction import Reproduction, reproductions

__all__ = ["Entry", "judge", "ledger"]


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
            "line": self.finding.line,
            "side": self.finding.side,
            "note": self.finding.note,
            "figure": self.claim.figure,
        }


def ledger(store: Store) -> list[Entry]:
    """The verdicts on every claim of the studies in the store."""
    return [entry for each in reproductions(store) for entry in judge(each)]


def judge(reproduction: Reproduction) -> list[Entry]:
    """The verdict on each of the study's claims whose parts were begun."""
    names = reproduction.study.name, reproduction.variant, reproduction.scale
    return [
        Entry(claim, *names, _test(claim, reproduction))
        for claim in reproduction.study.claims
        if reproduction.begun(claim.parts)
    ]


def _test(claim: Claim, reproduction: Reproduction) -> Finding:
    frame = reproduction.frame(claim.parts)
    if frame.is_empty():
        return Finding(Verdict.UNDECIDED, None, None, 0, "no trial is finished yet")
    missing, trials = reproduction.missing(claim.parts)
    diverged = frame.filter(frame["status"] == "diverged")["trial"].n_unique()
    try:
        finding = claim.test(frame)
    except InputError as error:
        finding = Finding(Verdict.UNDECIDED, None, None, 0, str(error))
    except Exception as error:
        # Half a grid can lack whatever a test relies on; a whole one that cannot be judged is a mistake of ours.
        if not (missing or diverged):
            raise
        why = f"it cannot be judged on what is there ({type(error).__name__}: {error})"
        finding = Finding(Verdict.UNDECIDED, None, None, 0, why)
    # Nothing is measured of a network after it diverged: claims about the end of training are about the others.
    notes = [finding.note, f"{diverged} of {trials} trials diverged" if diverged else ""]
    if not missing:
        return replace(finding, note="; ".join(filter(None, notes)))
    # What is there so far may be a biased selection: evidence, but no verdict.
    notes.append(f"{missing} of {trials} trials are missing")
    return replace(finding, verdict=Verdict.UNDECIDED, note="; ".join(filter(None, notes)))
