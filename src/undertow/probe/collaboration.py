"""Co-correlation as a measure for probes, of one network or of many at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from undertow.core.errors import ConfigError
from undertow.probe.reading import Reading

if TYPE_CHECKING:
    from torch import Tensor, nn

    from undertow.measures.chain import ChainNorms
    from undertow.measures.seam import Collaboration as Result

__all__ = ["Collaboration"]

_KEYS = ("linear_correlation", "relative_std", "energy_head", "energy_tail", "energy", "identity_gap")


@dataclass(frozen=True)
class Collaboration:
    """Co-correlation ϱ of head and tail at ``seam``, with the other factors of the decomposition.

    ``rtol`` bounds the error of every Jacobian norm that is not computed exactly. With ``warm`` the tail's norms
    start from the directions found at the moment before, which takes about half the steps. The values are as
    accurate; the recorded error is what each measurement proves by itself, a few per cent. Every ``cold_every``-th
    measurement starts afresh and is proved to ``rtol``.
    """

    name: ClassVar[str] = "collaboration"
    seam: str
    rtol: float = 1e-3
    warm: bool = False
    cold_every: int = 10

    def __post_init__(self) -> None:
        if isinstance(self.rtol, bool) or not isinstance(self.rtol, int | float) or not 0 < self.rtol < 1:
            raise ConfigError(f"rtol = {self.rtol!r} of {self.name} must lie between 0 and 1.")
        if not isinstance(self.warm, bool):
            raise ConfigError(f"warm = {self.warm!r} of {self.name} must be true or false.")
        if isinstance(self.cold_every, bool) or not isinstance(self.cold_every, int) or self.cold_every < 1:
            raise ConfigError(f"cold_every = {self.cold_every!r} of {self.name} must be a number, 1 or more.")

    @property
    def remembers(self) -> bool:
        """Whether one measurement depends on the one before it."""
        return self.warm

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> _Warm:  # noqa: ARG002
        return _Warm(self)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        from undertow.measures.collaboration import collaboration

        return self._readings(collaboration(net, x, seam=self.seam, rtol=self.rtol))

    def together(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks' Jacobians as one batch."""
        return self._from(self._norms(networks, x), networks, x, y)

    def _norms(self, networks: Sequence[nn.Module], x: Tensor, **options: Any) -> list[ChainNorms]:
        from undertow.measures.chain import batched_chain_norms

        return batched_chain_norms(networks, x, seams=[self.seam], rtol=self.rtol, **options)

    def _from(
        self, several: Sequence[ChainNorms], networks: Sequence[nn.Module], x: Tensor, y: Tensor | None
    ) -> list[list[Reading]]:
        from undertow.measures.chain import along_chain

        found = [along_chain(each, seams=[self.seam]).links[0] for each in several]
        if not all(math.isfinite(each.energy_tail * each.energy) for each in found):
            return [
                list(self(net, x, y)) for net in networks
            ]  # one by one it is told what is wrong with which
        return [list(self._readings(each)) for each in found]

    def _readings(self, result: Result) -> Iterator[Reading]:
        yield f"{self.seam}:co_correlation", result.co_correlation, result.error
        for key in _KEYS:
            yield f"{self.seam}:{key}", float(getattr(result, key)), None


class _Warm:
    """One network's collaboration over time: each measurement starts from the directions of the one before."""

    observes = False

    def __init__(self, options: Collaboration) -> None:
        self.options = options
        self.taken = 0
        self.vectors: Tensor | None = None

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        return iter(self.together([self], [net], x, y)[0])

    @staticmethod
    def together(
        trackers: Sequence[_Warm], networks: Sequence[nn.Module], x: Tensor, y: Tensor | None
    ) -> list[list[Reading]]:
        """All networks as one batch; they have been measured equally often."""
        options = trackers[0].options
        vectors = [tracker.vectors for tracker in trackers if tracker.vectors is not None]
        cold = trackers[0].taken % options.cold_every == 0 or len(vectors) < len(trackers)
        # Where norms are computed exactly there is nothing to start from, as the first measurement shows.
        keep = trackers[0].taken == 0 or bool(vectors)
        several = options._norms(networks, x, start=None if cold else vectors, keep_vectors=keep)
        for tracker, norms in zip(trackers, several, strict=True):
            tracker.taken += 1
            tail = norms.modules[0]
            found = tail.vectors if tail.method == "krylov" else None
            # Half the memory, and a checkpoint of half the size: a start need not be exact.
            tracker.vectors = None if found is None else found.half()
        return options._from(several, networks, x, y)

    def state(self) -> dict[str, Tensor]:
        import torch

        kept = {} if self.vectors is None else {"vectors": self.vectors}
        return {"taken": torch.tensor(self.taken), **kept}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.taken = int(state["taken"])
        self.vectors = state.get("vectors")
