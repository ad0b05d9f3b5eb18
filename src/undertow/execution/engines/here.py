"""The engine that runs groups one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from undertow.config.grid import Group
from undertow.execution.engines.worker import CHECKPOINT_SECONDS, attempt
from undertow.execution.group import GroupOutcome
from undertow.execution.watch import Watch
from undertow.store.store import Store

__all__ = ["Here"]


@dataclass(frozen=True)
class Here:
    """Groups one after the other, in this process, with all of torch's threads."""

    checkpoint_seconds: float = CHECKPOINT_SECONDS
    keep_weights: bool = True

    def run(
        self, store: Store, groups: list[Group], *, stop: Callable[[], bool], watch: Watch
    ) -> Iterator[GroupOutcome]:
        """See ``Engine.run``."""
        for group in groups:
            if stop():
                return
            yield attempt(
                store,
                group,
                stop=stop,
                on_progress=partial(watch.progress, group),
                checkpoint_seconds=self.checkpoint_seconds,
                keep_weights=self.keep_weights,
            )
