"""Records as scalars of TensorBoard, with names that nest: undertow/collaboration/1/co_correlation."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import nn
from torch.utils import tensorboard

import undertow as ut
from undertow.probe import Collaboration
from undertow.probe.adapters import TensorBoard, follow

folder = tempfile.mkdtemp()
writer: Any = tensorboard.SummaryWriter(folder)  # type: ignore[no-untyped-call,unused-ignore]
torch.manual_seed(0)
x = torch.randn(64, 8)
y = (x[:, 0] > 0).long()
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
probe = ut.Probe(net, x, y, measures=[Collaboration(seam="1")], every=20, sinks=[TensorBoard(writer)])
with follow(optimizer, probe):
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
writer.close()
print(f"tensorboard --logdir {folder}")
