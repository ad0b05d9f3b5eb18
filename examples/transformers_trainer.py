"""The Trainer of transformers: a small BERT with attention masks, measured from its embedding on."""

from __future__ import annotations

import tempfile

import torch
import transformers

from undertow.probe import Accuracy, Energy
from undertow.probe.adapters import TransformersProbe

torch.manual_seed(0)
config = transformers.BertConfig(
    vocab_size=50,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    num_labels=2,
)
tokens = torch.randint(3, 50, (64, 12))
mask = (torch.arange(12) < torch.randint(4, 13, (64, 1))).long()
labels = (tokens[:, 0] > 25).long()
rows = [
    {"input_ids": t, "attention_mask": m, "labels": y} for t, m, y in zip(tokens, mask, labels, strict=True)
]
batch = {name: torch.stack([row[name] for row in rows[:16]]) for name in rows[0]}

callback = TransformersProbe(batch, measures=[Accuracy(), Energy()])
arguments = transformers.TrainingArguments(
    output_dir=tempfile.mkdtemp(), num_train_epochs=2, per_device_train_batch_size=8, gradient_accumulation_steps=2,
    report_to=[], disable_tqdm=True, use_cpu=True, save_strategy="no",
)  # fmt: skip
net = transformers.BertForSequenceClassification(config)
transformers.Trainer(net, arguments, train_dataset=rows, callbacks=[callback]).train()
for record in callback.records:
    print(record.step, record.measure, round(record.value, 4))
