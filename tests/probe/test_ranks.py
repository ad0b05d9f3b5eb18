"""Processes that train together and take measures in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn

import undertow as ut
from undertow.measures.reading import Reading


class Numbered:
    """A measure that costs so much of a made-up clock, and says which rank took it."""

    def __init__(self, name: str, cost: float, clock: list[float]) -> None:
        self.name, self.cost, self.clock = name, cost, clock

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        self.clock[0] += self.cost
        yield "rank", float(distributed.get_rank()), None


def _train(rank: int, folder: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    clock = [0.0]
    measures = [Numbered("cheap", 0.0, clock), Numbered("dear", 4.0, clock)]
    probe = ut.Probe(
        nn.Linear(2, 1),
        torch.ones(8, 2),
        measures=measures,
        every=1,
        at_start=False,
        budget=0.5,
        spread=True,
    )
    assert probe.budget is not None
    probe.budget.clock, probe.budget._begun = (lambda: clock[0]), 0.0
    for _ in range(25):
        clock[0] += 1.0
        probe.step()  # of the second measure no more than pilots are affordable, which its own rank alone knows
    probe.training_end()
    found = [(each.step, each.measure, each.value) for each in probe.records if each.measure != "budget"]
    (Path(folder) / f"rank{rank}").write_text(repr(found))
    distributed.destroy_process_group()


@pytest.mark.skipif(not distributed.is_available(), reason="this PyTorch has no torch.distributed")
def test_ranks_gather_at_the_end_what_one_of_them_could_not_afford_before(tmp_path: Path) -> None:
    team = spawn(_train, args=(str(tmp_path),), nprocs=2, join=False)
    try:
        late = time.monotonic() + 60
        while not team.join(timeout=5):  # returns as soon as one of them has ended
            assert time.monotonic() < late, "a rank waits for one that has nothing to gather"
    finally:
        for process in team.processes:
            process.kill()
    told = [(tmp_path / f"rank{rank}").read_text() for rank in range(2)]
    # From step 10/0.5 on there are pilots, on one, two and four points; the end has what is left.
    expected = [*((step, "cheap", 0.0) for step in (22, 23, 24, 25)), (25, "dear", 1.0)]
    assert told == [repr(expected)] * 2
