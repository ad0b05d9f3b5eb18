"""No change to the loop at all: the probe follows the optimiser, and counts its steps, not batches."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn

import undertow as ut
from undertow.probe import StableRank
from undertow.probe.adapters import Csv, follow

torch.manual_seed(0)
x = torch.randn(64, 8)
y = (x[:, 0] * x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

path = Path(tempfile.mkdtemp()) / "records.csv"
probe = ut.Probe(net, x, y, measures=[StableRank()], every=50, sinks=[Csv(path)])
with follow(optimizer, probe):
    for batch in range(400):
        nn.functional.cross_entropy(net(x), y).backward()
        if batch % 2:  # two batches to a step
            optimizer.step()
            optimizer.zero_grad()
print(path.read_text())
