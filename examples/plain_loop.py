"""A plain PyTorch loop with a probe: co-correlation and accuracy after every epoch, for at most 5 % of the time."""

from __future__ import annotations

import torch
from torch import nn

import undertow as ut
from undertow.data import load
from undertow.probe import Accuracy, Collaboration

data = load("digits", split="train", limit=400, flatten=True)
test = load("digits", split="test", limit=200, flatten=True)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

probe = ut.Probe(net, test.x, test.y, measures=[Accuracy(), Collaboration(seam="1")], budget=0.05)
for epoch in range(20):
    for index in torch.randperm(len(data)).split(32):
        loss = nn.functional.cross_entropy(net(data.x[index]), data.y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.step()
    for record in probe.epoch_end():  # empty where measuring now would cost too much
        if record.key in ("", "1:co_correlation"):
            print(f"epoch {epoch + 1:2d}  {record.measure:>14}  {record.value:.3f}")
probe.training_end()
print(ut.seam_profile(net.eval(), test.x[:64]).frame())
