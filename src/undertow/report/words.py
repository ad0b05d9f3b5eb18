"""The sentences of a report: how far a study is, what it cost, what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from undertow.report.origins import spoken_duration
from undertow.studies.kit.multiplicity import LEVEL

if TYPE_CHECKING:
    from undertow.report.contents import Contents, Run
    from undertow.studies.kit.claim import Finding
    from undertow.studies.kit.ledger import Entry, Family

__all__ = [
    "among",
    "asides",
    "cost",
    "facts",
    "family",
    "finding",
    "headline",
    "lead",
    "listed",
    "origins",
    "plural",
    "seeds",
    "trials",
]


def plural(number: int, noun: str) -> str:
    """A number with its noun.

    >>> plural(1, "trial"), plural(1200, "study")
    ('1 trial', '1,200 studies')
    """
    several = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else several}"


def listed(words: Sequence[str]) -> str:
    """Words in a row, as one says them.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else "none"


def headline(contents: Contents) -> str:
    """The one sentence at the top."""
    verdicts: Counter[str] = sum((run.verdicts for run in contents.runs), Counter())
    number = sum(verdicts.values())
    if not number:
        total = sum(contents.networks.values())
        studies = len({run.study for run in contents.runs})
        return (
            f"{plural(total, 'trial')} of {plural(studies, 'study')}" if total else "Nothing has been run yet"
        )
    said = []
    for verdict, one, several in (("holds", "holds", "hold"), ("fails", "fails", "fail")):
        if verdicts[verdict]:
            said.append(f"{verdicts[verdict]} {one if verdicts[verdict] == 1 else several}")
    if verdicts["undecided"]:
        said.append(f"{verdicts['undecided']} {'is' if verdicts['undecided'] == 1 else 'are'} undecided")
    return f"Of {plural(number, 'verdict')}, {listed(said)}"


def lead(contents: Contents) -> str:
    """What the headline is about, for someone who sees such a report for the first time."""
    if not any(run.entries for run in contents.runs):
        return (
            "Networks trained and measured by undertow: their curves, their configurations, and where each number "
            "comes from."
        )
    variants = {run.variant for run in contents.runs if run.entries}
    sides = (
        " Where a paper's text and its authors' code differ, each is a variant with a verdict of its own."
        if len(variants) > 1
        else ""
    )
    smoke = (
        " Scale smoke shows that everything works and no more: verdicts that count come from laptop and paper."
        if any(run.scale == "smoke" for run in contents.runs if run.entries)
        else ""
    )
    return (
        "Each claim is a sentence of a paper about what gradient descent does to networks, tested on networks trained "
        "for this report: is the median seed on the claimed side of the line? An exact sign test over seeds decides "
        f"for all claims of a study together, and at most 5 % of its verdicts are expected to be false.{sides}{smoke}"
    )


def facts(contents: Contents) -> list[tuple[str, str]]:
    """The numbers below the summary."""
    total = sum(contents.networks.values())
    there = contents.networks["finished"] + contents.networks["diverged"]
    machines = contents.origin.machines
    rows = [("Networks trained", f"{there:,}" if there == total else f"{there:,} of {total:,}")]
    rows.append(("Computing time", spoken_duration(contents.origin.seconds)))
    if machines:
        first = machines[0].split(",")[0]
        more = f" and {plural(len(machines) - 1, 'other machine')}" if len(machines) > 1 else ""
        rows.append(("On", first + more))
    data = list(dict.fromkeys(line.split(",")[0] for line in contents.origin.data))
    if data:
        rows.append(("Data", listed(data[:4]) + (" …" if len(data) > 4 else "")))
    return rows


def finding(found: Finding) -> str:
    """Effect, interval, number of seeds, and what the claim says of the effect.

    >>> from undertow.studies.kit.claim import decide, decide_share
    >>> finding(decide([1.0, 1.5, 1.0, 1.2, 1.1, 1.0, 1.0, 0.9, 1.3, 1.0], above=0.0))
    'effect 1, [1, 1.3], covers 97.9 %, n = 10; claimed: above 0'
    >>> finding(decide_share([True] * 6, above=0.5))
    'effect 1 (share of seeds), [0.5407, 1], covers at least 95 %, n = 6; claimed: above 0.5'
    """
    known = (found.effect, *(found.interval or ()), found.line)
    numbers = [number for number in known if number is not None]
    # Four digits, unless they make different numbers look the same.
    digits = next((d for d in (4, 6) if len({f"{n:.{d}g}" for n in numbers}) == len(set(numbers))), 8)
    parts = []
    if found.effect is not None:
        share = " (share of seeds)" if found.estimand == "share" else ""
        parts.append(f"effect {found.effect:.{digits}g}{share}")
    if found.interval is not None and found.coverage is not None:
        low, high = found.interval
        least = "at least " if found.estimand == "share" else ""
        parts.append(f"[{low:.{digits}g}, {high:.{digits}g}], covers {least}{100 * found.coverage:.3g} %")
    parts.append(f"n = {found.n}")
    if found.ties:
        parts.append(f"{found.ties} of them on the line")
    claimed = "" if found.side is None else f"; claimed: {found.side} {found.line:.{digits}g}"
    return (", ".join(parts) + claimed).replace("-", "−")


def among(entry: Entry) -> str:
    """Both p, and what the claim would be alone where that is something else; nothing where there is no p."""
    p, together = entry.finding.p, entry.p_adjusted
    if p is None or together is None:
        return ""
    claims = plural(entry.family.claims, "claim")
    alone = entry.finding.verdict
    if p <= LEVEL and alone == "undecided":
        return f"p = {p:.2g} alone, but kept back"
    other = "" if alone == entry.verdict else f": {'holds' if alone == 'holds' else 'fails'} alone"
    return f"p = {p:.2g} alone, {together:.2g} among {claims}{other}"


def asides(entry: Entry) -> list[str]:
    """What else there is to know of a claim: why it is a check, and what was settled after a look."""
    said = []
    if entry.claim.check:
        why = f": {entry.claim.check}" if isinstance(entry.claim.check, str) else ""
        said.append(f"a check, not counted among the verdicts{why}")
    if entry.claim.hindsight:
        said.append(f"settled after a look at its records: {entry.claim.hindsight}")
    return said


def family(judged: Family) -> str:
    """How many claims were judged together, and how many of the verdicts may be false.

    >>> from undertow.studies.kit.ledger import Family
    >>> print(family(Family(claims=1, decided=1, decided_alone=1, expected_false_alone=0.02, complete=True))[:51])
    1 claim judged together: 1 decided, at most 0.05 of
    """
    if not judged.claims:
        return "No claim could be tested yet." if not judged.complete else "No claim could be tested."
    more = "" if judged.complete else " Trials are missing: with them more claims join, and this may change."
    return (
        f"{plural(judged.claims, 'claim')} judged together: {judged.decided} decided, at most "
        f"{judged.expected_false:.2g} of these expected to be false. Alone, {judged.decided_alone} would be decided, "
        f"{judged.expected_false_alone:.2g} by chance if every claim were on its line.{more}"
    )


def seeds(seed_set: str) -> str:
    """Which seeds a replication has, to stand behind the names of its study; nothing for the study's own.

    >>> seeds("100-109"), seeds("own")
    ('seeds 100-109', '')
    """
    return "" if seed_set == "own" else f"seeds {seed_set}"


def trials(run: Run) -> str:
    """How far a study is."""
    counts = run.counts
    rest = [f"{counts[how]:,} {how}" for how in ("diverged", "missing", "damaged") if counts[how]]
    said = listed([f"{counts['finished']:,} finished", *rest]) if rest else "all finished"
    return f"{plural(run.trials, 'trial')}, {said}"


def cost(run: Run) -> str:
    """What it took."""
    restarts = run.origin.restarts
    again = f", {plural(restarts, 'restart')} after an interruption" if restarts else ""
    return f"{spoken_duration(run.origin.seconds)} of computing{again}"


def origins(run: Run) -> list[tuple[str, tuple[str, ...]]]:
    """The rest of the provenance, where there is any."""
    found = run.origin
    named = [
        ("Code", found.code),
        ("Packages", found.packages),
        ("Machine", found.machines),
        ("Data", found.data),
    ]
    return [(name, values) for name, values in named if values]
