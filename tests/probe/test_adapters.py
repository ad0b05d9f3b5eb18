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
from undertow.measures.weight_direction import DirectionOfWeights
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


class Forgetful(Rates):
    """A measure with a memory that cannot take in its third step, and says so in its own words."""

    name = "forgetful"

    def observe(self, net: nn.Module, taken: Any) -> None:
        super().observe(net, taken)
        if len(self.seen) == 3:
            raise ValueError("my own")


def _check_forgetful(records: list[Any], said: list[warnings.WarningMessage], *, last: int) -> None:
    """Training went on after step 3, everything else was measured, and the one that missed it was not."""
    assert [record.step for record in records if record.measure == "forgetful"] == [0, 1, 2]
    assert [record.step for record in records if record.measure == "energy"] == list(range(last + 1))
    (told,) = [str(each.message) for each in said if "forgetful" in str(each.message)]
    assert "forgetful could not follow step 3: ValueError: my own. What it reads is of all steps" in told
    assert 'on_error="raise"' in told


def test_a_tracker_that_misses_a_step_does_not_end_a_training_that_is_followed() -> None:
    net, x, y = _made()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    probe = ut.Probe(net, x, y, measures=[Forgetful(), Energy()], every=1, training=(x, y, 0.1))
    with warnings.catch_warnings(record=True) as said, follow(optimizer, probe):
        warnings.simplefilter("always")
        for _ in range(5):
            optimizer.step()
    _check_forgetful(probe.records, said, last=5)
    (told,) = said
    assert told.filename == __file__


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


def test_an_optimiser_that_is_followed_again_tells_of_each_step_once() -> None:
    net, x, y = _made()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    probe = ut.Probe(net, x, y, measures=[Accuracy()], every=1)
    for _ in range(2):  # a cell of a notebook
        follow(optimizer, probe)
        optimizer.step()
    assert [record.step for record in probe.records] == [0, 1, 2]


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_mixed_precision_skips_is_not_counted(fused: bool) -> None:
    net, x, y = _made()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, fused=fused)
    probe = ut.Probe(net, x, y, measures=[Accuracy()], every=1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1000, backoff_factor=2.0**-100)
    made = 0
    with follow(optimizer, probe):
        for _ in range(3):
            before = net[0].weight.detach().clone()  # type: ignore[index,union-attr]
            scaler.scale(nn.functional.cross_entropy(1e4 * net(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            made += not torch.equal(before, net[0].weight)  # type: ignore[index,union-attr,arg-type]
    assert made == 2
    assert [record.step for record in probe.records] == [0, 1, 2]


def test_what_is_no_optimiser_is_refused() -> None:
    net, x, _ = _made()
    probe = ut.Probe(net, x, measures=[StableRank()])
    with pytest.raises(InputError, match=r"no torch\.optim\.Optimizer"):
        follow(nn.Linear(1, 1), probe)  # type: ignore[arg-type]
    both = [torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.Adam(net.parameters())]
    with pytest.raises(InputError, match="2 optimisers, of which the probe follows one"):
        follow(both, probe)  # type: ignore[arg-type]


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


def _lightning_module() -> Any:
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = _made()[0]

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)  # type: ignore[no-any-return]

        def training_step(self, batch: Any, _index: int) -> Tensor:
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self) -> dict[str, Any]:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    return Module()


def _fit(
    module: Any, callback: Any, folder: Path, *, ckpt_path: Path | None = None, **options: Any
) -> tuple[Any, list[warnings.WarningMessage]]:
    """A training of two epochs of four batches; its trainer, and what was warned of."""
    lightning = pytest.importorskip("lightning.pytorch")
    _, x, y = _made()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=6)
    trainer = lightning.Trainer(
        **{"max_epochs": 2, **options}, accelerator="cpu", callbacks=callback, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trainer.fit(module, loader, ckpt_path=ckpt_path)
    return trainer, said


@_needs("lightning")
@pytest.mark.parametrize("accumulated", [1, 2])
def test_lightning_counts_optimiser_steps(accumulated: int, tmp_path: Path) -> None:
    from undertow.probe.adapters import LightningProbe

    _, x, y = _made()
    rates = Rates()
    callback = LightningProbe(x, y, measures=[Accuracy(), (Energy(), 1), rates], training=(x, y, 0.1))
    module = _lightning_module()

    def fit(module: Any, **options: Any) -> None:
        _fit(module, callback, tmp_path, accumulate_grad_batches=accumulated, **options)

    fit(module)
    assert rates.seen == pytest.approx([0.1 / 2**step for step in range(8 // accumulated)])
    assert [record.epoch for record in callback.records if record.measure == "accuracy"] == [0, 1, 2]
    steps = [record.step for record in callback.records if record.measure == "energy"]
    assert steps == list(range(8 // accumulated + 1))
    first = callback.probe
    fit(module)  # a new trainer, whose steps begin at 0, for the same network
    assert callback.probe is first
    assert callback.records[-1].step == 16 // accumulated
    fit(_lightning_module().double(), precision="64-true")
    assert callback.probe is not None
    assert callback.probe is not first
    assert callback.records[-1].step == 8 // accumulated
    value = next(each.value for each in callback.records[::-1] if each.measure == "energy")
    assert value == pytest.approx(ut.energy(callback.probe.net.eval(), x.double()).value)


@_needs("lightning")
def test_a_tracker_that_misses_a_step_does_not_end_a_training_by_lightning(tmp_path: Path) -> None:
    from undertow.probe.adapters import LightningProbe

    _, x, y = _made()
    measures = [Forgetful(), Energy()]
    callback = LightningProbe(x, y, measures=measures, every=1, training=(x, y, 0.1))
    _, said = _fit(_lightning_module(), callback, tmp_path)
    _check_forgetful(callback.records, said, last=8)


@_needs("lightning")
def test_a_batch_for_two_optimisers_is_measured_after_both(tmp_path: Path) -> None:
    from undertow.probe.adapters import LightningProbe

    class Manual(type(_lightning_module())):  # type: ignore[misc]
        automatic_optimization = False

        def training_step(self, batch: Any, _index: int) -> None:
            self.manual_backward(nn.functional.cross_entropy(self(batch[0]), batch[1]))
            for optimizer in self.optimizers():
                optimizer.step()
                optimizer.zero_grad()

        def configure_optimizers(self) -> Any:
            return [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in (self.net[0], self.net[2])]

    _, x, y = _made()
    callback = LightningProbe(x, y, measures=[Energy()], every=1)
    _fit(Manual(), callback, tmp_path, max_epochs=1)
    assert [record.step for record in callback.records] == [0, 2, 4, 6, 8]


@_needs("lightning")
def test_lightning_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    from undertow.probe.adapters import LightningProbe

    _, x, y = _made()

    def probe() -> Any:
        return LightningProbe(x, y, measures=[Accuracy(), (Energy(), 1)])

    class Saved(lightning.Callback):  # type: ignore[name-defined,misc]
        """A checkpoint after the last step of the second epoch, before its end."""

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 8:
                trainer.save_checkpoint(tmp_path / "two.ckpt")

    whole, few = probe(), LightningProbe(x[:5], y[:5], measures=[Accuracy(), (Energy(), 1)])
    _fit(_lightning_module(), [whole, few, Saved()], tmp_path, max_epochs=4)
    again, on_few = probe(), LightningProbe(x[:5], y[:5], measures=[Accuracy(), (Energy(), 1)])
    _fit(_lightning_module(), [on_few, again], tmp_path, max_epochs=4, ckpt_path=tmp_path / "two.ckpt")
    assert again.records == whole.records
    assert on_few.records == few.records
    saved = torch.load(tmp_path / "two.ckpt", weights_only=True)
    torch.save({**saved, "callbacks": {}}, tmp_path / "without.ckpt")
    late = probe()  # which the checkpoint knows nothing of
    _fit(_lightning_module(), late, tmp_path, max_epochs=4, ckpt_path=tmp_path / "without.ckpt")
    assert late.records == [record for record in whole.records if record.step > 8]


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


@_needs("transformers")
@_needs("accelerate")
def test_a_transformers_trainer_that_resumes_goes_on_counting(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from undertow.probe.adapters import TransformersProbe

    _, x, y = _made()
    rows = [{"x": points, "labels": label} for points, label in zip(x, y, strict=True)]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = _made()[0]

        def forward(self, x: Tensor, labels: Tensor | None = None) -> Any:
            scores = self.net(x)
            loss = None if labels is None else nn.functional.cross_entropy(scores, labels)
            return {"loss": loss, "logits": scores}

    def train(callback: Any, resume: Any = False) -> list[warnings.WarningMessage]:
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=6, per_device_train_batch_size=6, report_to=[], use_cpu=True,
            disable_tqdm=True, save_strategy="steps", save_steps=4, learning_rate=0.1,
        )  # fmt: skip
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            trainer = transformers.Trainer(Net(), arguments, train_dataset=rows, callbacks=[callback])
            trainer.train(resume_from_checkpoint=resume)
        return said

    def probe(*measures: Any) -> Any:
        return TransformersProbe({"x": x, "labels": y}, measures=measures, every=1, training=(x, y, 0.1))

    folder = tmp_path / "checkpoint-4"
    forgetful = probe(Forgetful(), Energy())
    said = train(forgetful)
    _check_forgetful(forgetful.records, said, last=6)
    told = [str(each.message) for each in train(probe(Forgetful(), Energy()), folder)]
    assert any("forgetful had missed a step when this state was saved" in each for each in told)

    whole, again = (probe(Energy(), (Accuracy(), "epoch"), DirectionOfWeights()) for _ in range(2))
    train(whole)
    train(again, folder)
    assert again.records == whole.records
    late = probe(Energy())  # which the checkpoint knows nothing of
    train(late, folder)
    assert late.records == [each for each in whole.records if each.step > 4 and each.measure == "energy"]
    for file in folder.glob("undertow-probe-*"):
        file.unlink()
    with pytest.raises(
        ut.UndertowError, match=r"direction follows the training from its first.* step 4: save"
    ):
        train(probe(DirectionOfWeights()), folder)


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
