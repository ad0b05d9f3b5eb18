"""DistributedDataParallel on two processes (gloo): the network inside the wrapper is measured, nothing hangs.

Rank 0 measures alone; with ``spread=True`` the ranks take the measures in turn, and all have all records.
"""

from __future__ import annotations

import os
import tempfile

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import undertow as ut
from undertow.probe import Accuracy, Energy


def train(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = DistributedDataParallel(
        nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(rank))
    y = (x[:, 0] > 0).long()
    probe = ut.Probe(net, x, y, measures=[Energy()], every=2)
    shared = ut.Probe(net, x, y, measures=[Energy(), Accuracy()], every=3, spread=True)
    for _ in range(6):
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
        shared.step()
    shared.training_end()
    print(f"rank {rank}: together {[(record.step, record.measure) for record in shared.records]}")
    print(f"rank {rank}: steps measured {[record.step for record in probe.records]}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (os.path.join(tempfile.mkdtemp(), "store"),), nprocs=2)
