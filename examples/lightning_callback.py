"""A Lightning callback: records at the end of every epoch, also in the trainer's loggers."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor, nn

from undertow.probe import Accuracy, SeamProfile
from undertow.probe.adapters import LightningProbe


class Classifier(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x: Tensor) -> Any:
        return self.net(x)

    def training_step(self, batch: Any, _index: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-2)


torch.manual_seed(0)
x = torch.randn(256, 8)
y = (x[:, 0] > 0).long()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32)
callback = LightningProbe(
    x[:64], y[:64], measures=[Accuracy(), SeamProfile()], network=lambda module: module.net
)
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", callbacks=[callback], logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(Classifier(), loader)
for record in callback.records:
    print(record.epoch, record.measure, record.key, round(record.value, 3))
