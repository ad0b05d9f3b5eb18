"""How an iterative estimate ended."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

__all__ = ["Status"]


class Status(StrEnum):
    """How an estimate ended; ``str(status.sentence)`` says what to try.

    >>> Status.CONVERGED.ok, Status.MAX_STEPS.ok
    (True, False)
    """

    EXACT = "exact"
    CONVERGED = "converged"
    TRACKED = "tracked"
    MAX_STEPS = "max-steps"
    ROUNDING = "rounding"
    HEURISTIC = "heuristic"

    @property
    def ok(self) -> bool:
        """Whether the value is as accurate as was asked for."""
        return self in (Status.EXACT, Status.CONVERGED, Status.TRACKED)

    @classmethod
    def worst(cls, statuses: Iterable[Status]) -> Status:
        """What can be said of several estimates together.

        >>> Status.worst([Status.EXACT, Status.MAX_STEPS, Status.CONVERGED]) is Status.MAX_STEPS
        True
        """
        order = (cls.HEURISTIC, cls.ROUNDING, cls.MAX_STEPS, cls.TRACKED, cls.CONVERGED, cls.EXACT)
        return min(statuses, key=order.index)

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Status.EXACT: "Computed directly; the error is rounding alone.",
    Status.CONVERGED: "Every sample's error bound is within the tolerance asked for.",
    Status.TRACKED: (
        "Converged from a warm start: every residual is within the tolerance, but that no other direction has "
        "overtaken the one followed is inherited from the earlier call, and the error is what this one proves by "
        "itself; measure cold now and then."
    ),
    Status.MAX_STEPS: (
        "Some samples ran out of steps before their bound met rtol: raise max_steps, loosen rtol, "
        "or use dtype=torch.float64; their reported error is still valid."
    ),
    Status.ROUNDING: (
        "For some samples even float64 rounds by more than the tolerance asked for, because layers cancel or saturate, "
        "or because a sample lies on a kink, as where two entries of a max-pooling window tie, and rounding decides "
        "which slope it has: their reported error covers that, and is infinite where nothing is known; scale the "
        "network, loosen rtol, or move samples off their ties by a little noise."
    ),
    Status.HEURISTIC: "The method has no error bound; use method='krylov' for one.",
}
