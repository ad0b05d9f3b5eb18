"""The ledger: every claim of every study in a store, with its verdict among the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from undertow.core.errors import InputError
from undertow.store.store import Store
from undertow.studies.kit.claim import Claim, Finding, Verdict
from undertow.studies.kit.exact_tests import sign_test
from undertow.studies.kit.multiplicity import LEVEL, adjusted, expected_false
from undertow.studies.kit.reproduction import Reproduction, reproductions
from undertow.studies.kit.unknown import depends_on_unknown

__all__ = ["Entry", "Family", "judge", "ledger"]

_DECIDED = (Verdict.HOLDS, Verdict.FAILS)


@dataclass(frozen=True)
class Family:
    """The claims of a study, in one variant at one scale on one set of seeds, that were judged together.

    Of ``claims`` with a p, ``decided`` hold or fail together and ``decided_alone`` would each by itself. At most
    ``expected_false`` of the former are expected to be false, and ``expected_false_alone`` of the latter if no claim
    had anything to it. It is ``complete`` when no trial is missing: until then claims may join it.
    """

    claims: int
    decided: int
    decided_alone: int
    expected_false_alone: float
    complete: bool

    @property
    def expected_false(self) -> float:
        """How many of the verdicts may be false."""
        return expected_false(self.decided)


@dataclass(frozen=True)
class Entry:
    """One claim, judged among all claims of its study in one variant at one scale.

    ``finding`` is what it would be alone; ``verdict`` and ``p_adjusted`` are what it is among the others of its
    ``family``. ``seed_set`` is "own" for the seeds that the study itself names, and ``seeds`` are all that there are.
    """

    claim: Claim
    study: str
    variant: str
    scale: str
    finding: Finding
    verdict: Verdict
    family: Family
    p_adjusted: float | None = None
    seed_set: str = "own"
    seeds: tuple[int, ...] = ()

    @property
    def is_check(self) -> bool:
        """Whether it is apart from the count of verdicts."""
        return bool(self.claim.check)

    def row(self) -> dict[str, Any]:
        """The entry as plain data, for JSON."""
        found = self.finding
        return {
            "id": self.claim.id,
            "text": self.claim.text,
            "source": self.claim.source,
            "study": self.study,
            "variant": self.variant,
            "scale": self.scale,
            "verdict": str(self.verdict),
            "verdict_alone": str(self.verdict if self.is_check else found.verdict),
            "effect": found.effect,
            "estimand": f"{found.estimand} of seeds",
            "interval": None if found.interval is None else list(found.interval),
            "coverage": found.coverage,
            "n": found.n,
            "p": found.p,
            "p_adjusted": self.p_adjusted,
            "seeds_on_its_side": found.agree,
            "seeds_against": found.against,
            "ties": found.ties,
            "line": found.line,
            "side": found.side,
            "note": found.note,
            "figure": self.claim.figure,
            "check": self.claim.check,
            "hindsight": self.claim.hindsight,
            "seed_set": self.seed_set,
            "seeds": list(self.seeds),
            "family": {
                "claims": self.family.claims,
                "decided": self.family.decided,
                "expected_false": self.family.expected_false,
                "decided_alone": self.family.decided_alone,
                "expected_false_alone": self.family.expected_false_alone,
                "complete": self.family.complete,
            },
        }


def ledger(store: Store) -> list[Entry]:
    """The verdicts on every claim of the studies in the store."""
    return [entry for each in reproductions(store) for entry in judge(each)]


def judge(reproduction: Reproduction) -> list[Entry]:
    """The verdict on each of the study's claims whose parts were begun, all judged together.

    Benjamini & Hochberg at 5 % over the claims that can fail and were tested decides which hold and which fail. Those
    that wait for trials or seeds, or cannot be tested on what is there, have no p and are not among them; nor are
    checks.
    """
    claims = [claim for claim in reproduction.study.claims if reproduction.begun(claim.parts)]
    findings = [_test(claim, reproduction) for claim in claims]
    members = [i for i, claim in enumerate(claims) if not claim.check and findings[i].p is not None]
    among = dict(zip(members, adjusted([_p(findings[i]) for i in members]), strict=True))
    verdicts = [
        _check(finding)
        if claim.check
        else finding.verdict
        if among.get(i, 1.0) <= LEVEL
        else Verdict.UNDECIDED
        for i, (claim, finding) in enumerate(zip(claims, findings, strict=True))
    ]
    family = Family(
        claims=len(members),
        decided=sum(verdicts[i] in _DECIDED for i in members),
        decided_alone=sum(findings[i].verdict in _DECIDED for i in members),
        expected_false_alone=sum(_size(findings[i]) for i in members),
        complete=not reproduction.missing([part.part for part in reproduction.parts])[0],
    )
    names = reproduction.study.name, reproduction.variant, reproduction.scale
    return [
        Entry(
            claim,
            *names,
            finding,
            verdict,
            family,
            among.get(i),
            reproduction.seed_set,
            reproduction.seeds(claim.parts),
        )
        for i, (claim, finding, verdict) in enumerate(zip(claims, findings, verdicts, strict=True))
    ]


def _p(finding: Finding) -> float:
    """What counts among the others: 1 where the test keeps back a verdict that its p would allow.

    A p that is too large is always safe; a small one that may not decide would make room for others.
    """
    assert finding.p is not None
    withheld = finding.p <= LEVEL and finding.verdict not in _DECIDED
    return 1.0 if withheld else finding.p


def _size(finding: Finding) -> float:
    """The chance that a claim with nothing to it is decided alone: signs come in steps, so 2.1 % at ten seeds."""
    if finding.estimand == "share":
        return LEVEL
    n = finding.n
    return max((p for k in range(n + 1) if (p := sign_test(k, n - k, n)) <= LEVEL), default=0.0)


def _check(finding: Finding) -> Verdict:
    """A check is kept where every seed keeps it, be they many or few, and violated by any one that does not."""
    if finding.against:
        return Verdict.VIOLATED
    return Verdict.KEPT if finding.n and finding.agree + finding.ties == finding.n else Verdict.UNDECIDED


def _test(claim: Claim, reproduction: Reproduction) -> Finding:
    frame = reproduction.frame(claim.parts)
    if frame.is_empty():
        return Finding(Verdict.UNDECIDED, None, None, 0, "no trial is finished yet")
    missing, trials = reproduction.missing(claim.parts)
    diverged = frame.filter(frame["status"] == "diverged")["trial"].n_unique()
    unknown = ""
    try:
        finding = claim.test(frame)
        unknown = depends_on_unknown(claim, frame, finding)
    except InputError as error:
        finding = Finding(Verdict.UNDECIDED, None, None, 0, str(error))
    except Exception as error:
        # Half a grid can lack whatever a test relies on; a whole one that cannot be judged is a mistake of ours.
        if not (missing or diverged):
            raise
        why = f"it cannot be judged on what is there ({type(error).__name__}: {error})"
        finding = Finding(Verdict.UNDECIDED, None, None, 0, why)
    # Nothing is measured of a network after it diverged: claims about the end of training are about the others.
    on = [
        f"on {file}" for file in reproduction.files(claim.parts)
    ]  # "the table that was given" is one of many
    notes = [*on, finding.note, f"{diverged} of {trials} trials diverged" if diverged else "", unknown]
    if missing:
        # What is there so far may be a biased selection: evidence, but no verdict.
        notes.append(f"{missing} of {trials} trials are missing")
    finding = replace(finding, note=_joined(notes))
    return _open(finding) if missing or unknown else finding


def _open(finding: Finding) -> Finding:
    """The evidence without a verdict, and without a p that would stand for one."""
    return replace(finding, verdict=Verdict.UNDECIDED, p=None, agree=0, against=0, ties=0)


def _joined(notes: Sequence[str]) -> str:
    return "; ".join(filter(None, notes))
