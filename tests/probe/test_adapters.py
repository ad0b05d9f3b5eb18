"""Probes in other people's loops: they count the optimiser's steps, and records go where they are sent."""

from __future__ import annotations

import csv
import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.adapting import MeasuredElsewhere
from undertow.core.errors import InputError
from undertow.probe import Accuracy, Collaboration, Energy, StableRank
from undertow.probe.adapters import Csv, Log, TensorBoard, follow


def _needs(package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed")


def _made() -> tuple[nn.Module, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(24, 3, generator=generator)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    return net, x, (x[:, 0] > 0).long()


class Rates:
    """A measure with a memory of the rates that it was told, until it is begun anew."""

    name = "rates"

    def __init__(self) -> None:
        self.seen: list[float] = []

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> Rates:  # noqa: ARG002
        self.seen = []
        return self

    def observe(self, net: nn.Module, taken: Any) -> None:  # noqa: ARG002
        self.seen.append(taken.rate)

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Any:  # noqa: ARG002
        yield "steps", float(len(self.seen)), None

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Any) -> None: ...


def test_an_optimiser_is_followed_step_by_step_not_batch_by_batch() -> None:
    net, x, y = _made()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    probe = ut.Probe(net, x, y, measures=[Accuracy(), (StableRank(), 2)])
    with follow(optimizer, probe, steps_per_epoch=3) as following:
        for batch in range(12):  # two batches to a step
            nn.functional.cross_entropy(net(x), y).backward()
            if batch % 2:
                optimizer.step()
                optimizer.zero_grad()
    epochs = [record.epoch for record in probe.records if record.measure == "accuracy"]
    assert epochs == [0, 1, 2]
    assert [record.step for record in probe.records if record.key == "0.weight"] == [0, 2, 4, 6]
    before = len(probe.records)
    optimizer.step()
    following.remove()  # twice does no harm
    assert len(probe.records) == before


def test_what_is_no_optimiser_is_refused() -> None:
    net, x, _ = _made()
    probe = ut.Probe(net, x, measures=[StableRank()])
    with pytest.raises(InputError, match=r"no torch\.optim\.Optimizer"):
        follow(nn.Linear(1, 1), probe)  # type: ignore[arg-type]


def test_new_records_are_returned_and_sent_to_every_sink(tmp_path: Path) -> None:
    net, x, y = _made()
    told: list[dict[str, Any]] = []
    path = tmp_path / "made" / "records.csv"
    probe = ut.Probe(net, x, y, measures=[Accuracy(), Energy()], every=1, sinks=[Csv(path), Log(told.append)])
    new = probe.step()
    assert [record.measure for record in new] == ["accuracy", "energy"]
    assert probe.epoch_end() == []
    assert [entry["step"] for entry in told] == [0, 1]
    assert told[1]["undertow/energy"] == new[1].value
    rows = list(csv.DictReader(path.open()))
    assert [(row["step"], row["measure"]) for row in rows] == [
        ("0", "accuracy"), ("0", "energy"), ("1", "accuracy"), ("1", "energy"),
    ]  # fmt: skip
    assert float(rows[-1]["value"]) == new[1].value


def test_tensorboard_gets_scalars_with_names_that_nest() -> None:
    class Writer:
        """As much of a SummaryWriter as is used."""

        def __init__(self) -> None:
            self.scalars: dict[tuple[str, int], float] = {}

        def add_scalar(self, name: str, value: float, step: int) -> None:
            self.scalars[name, step] = value

        def flush(self) -> None: ...

    net, x, _ = _made()
    writer = Writer()
    ut.Probe(net, x, measures=[StableRank()], sinks=[TensorBoard(writer)])
    assert ("undertow/stable-rank/0.weight", 0) in writer.scalars
    assert ("undertow/stable-rank/0.weight/error", 0) in writer.scalars


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.act, self.read = nn.Embedding(9, 4), nn.Tanh(), nn.Linear(4, 2)

    def forward(self, tokens: Tensor, mask: Tensor) -> dict[str, Tensor]:
        return {"logits": self.read((self.act(self.table(tokens)) * mask[:, :, None]).sum(1))}


def test_a_probe_reads_tokens_with_masks_as_the_embedding_is_now() -> None:
    net, tokens = Words(), torch.randint(0, 9, (6, 3), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(6, 3)
    mask[2, 1:] = 0
    measures: list[Any] = [Energy(), StableRank(), Collaboration(seam="act"), Accuracy()]
    with pytest.warns(MeasuredElsewhere, match="'table'"):
        probe = ut.Probe(net, tokens, torch.zeros(6).long(), measures=measures, extras={"mask": mask})
    with torch.no_grad():
        net.table.weight.mul_(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has been said
        probe.epoch_end()
        warnings.simplefilter("ignore")
        now = ut.energy(net.eval(), tokens, extras={"mask": mask}).value
    energies = [record.value for record in probe.records if record.measure == "energy"]
    assert energies[1] == pytest.approx(now)
    assert energies[0] != pytest.approx(now)
    keys = {record.key for record in probe.records if record.measure == "stable-rank"}
    assert keys == {"table.weight", "read.weight"}


@_needs("lightning")
@pytest.mark.parametrize("accumulated", [1, 2])
def test_lightning_counts_optimiser_steps(accumulated: int, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    from undertow.probe.adapters import LightningProbe

    class Module(lightning.LightningModule):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = _made()[0]

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)  # type: ignore[no-any-return]

        def training_step(self, batch: Any, _index: int) -> Tensor:
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self) -> dict[str, Any]:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    _, x, y = _made()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=6)
    rates = Rates()
    callback = LightningProbe(x, y, measures=[Accuracy(), (Energy(), 1), rates], training=(x, y, 0.1))
    module = Module()

    def fit(module: Any, **options: Any) -> None:
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", callbacks=[callback], logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, accumulate_grad_batches=accumulated,
            default_root_dir=tmp_path, **options,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.fit(module, loader)

    fit(module)
    assert rates.seen == pytest.approx([0.1 / 2**step for step in range(8 // accumulated)])
    assert [record.epoch for record in callback.records if record.measure == "accuracy"] == [0, 1, 2]
    steps = [record.step for record in callback.records if record.measure == "energy"]
    assert steps == list(range(8 // accumulated + 1))
    first = callback.probe
    fit(module)  # a new trainer, whose steps begin at 0, for the same network
    assert callback.probe is first
    assert callback.records[-1].step == 16 // accumulated
    fit(Module().double(), precision="64-true")
    assert callback.probe is not None
    assert callback.probe is not first
    assert callback.records[-1].step == 8 // accumulated
    value = next(each.value for each in callback.records[::-1] if each.measure == "energy")
    assert value == pytest.approx(ut.energy(callback.probe.net.eval(), x.double()).value)


@_needs("transformers")
@_needs("accelerate")
def test_transformers_trainer_with_masks_counts_optimiser_steps(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from undertow.probe.adapters import TransformersProbe

    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        num_labels=2,
    )
    net = transformers.BertForSequenceClassification(config)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, 20, (16, 5), generator=generator)
    mask = (torch.arange(5) < torch.randint(2, 6, (16, 1), generator=generator)).long()
    rows = [
        {"input_ids": tokens[i], "attention_mask": mask[i], "labels": (tokens[i, 0] % 2)} for i in range(16)
    ]
    batch = {name: torch.stack([row[name] for row in rows[:6]]) for name in rows[0]}
    rates = Rates()
    training = (batch["input_ids"], batch["labels"], 0.1)
    callback = TransformersProbe(batch, measures=[Accuracy(), (Energy(), 1), rates], training=training)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=2, per_device_train_batch_size=4, gradient_accumulation_steps=2,
        report_to=[], disable_tqdm=True, use_cpu=True, save_strategy="no", learning_rate=0.1, warmup_steps=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = transformers.Trainer(net, arguments, train_dataset=rows, callbacks=[callback])
        trainer.train()
    assert [record.step for record in callback.records if record.measure == "energy"] == [0, 1, 2, 3, 4]
    assert [record.epoch for record in callback.records if record.measure == "accuracy"] == [0, 1, 2]
    assert rates.seen == pytest.approx([0.1, 0.075, 0.05, 0.025])  # what each step was made with
    other = transformers.BertForSequenceClassification(config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers.Trainer(other, arguments, train_dataset=rows, callbacks=[callback]).train()
    assert callback.probe.net is other  # type: ignore[union-attr]
    assert callback.records[-1].step == 4


@_needs("accelerate")
def test_an_accelerated_optimiser_is_followed_inside() -> None:
    accelerate = pytest.importorskip("accelerate")
    net, x, y = _made()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    probe = ut.Probe(net, x, y, measures=[Accuracy()], every=1)
    with follow(optimizer, probe):
        for points, labels in loader:
            with accelerator.accumulate(net):
                accelerator.backward(nn.functional.cross_entropy(net(points), labels))
                optimizer.step()
                optimizer.zero_grad()
    assert [record.step for record in probe.records] == [0, 1, 2]
