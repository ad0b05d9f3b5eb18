"""DistributedDataParallel on two processes (gloo): rank 0 measures the network inside the wrapper, nothing hangs."""

from __future__ import annotations

import os
import tempfile

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import undertow as ut
from undertow.probe import Energy


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
    for _ in range(6):
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
    print(f"rank {rank}: steps measured {[record.step for record in probe.records]}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (os.path.join(tempfile.mkdtemp(), "store"),), nprocs=2)
