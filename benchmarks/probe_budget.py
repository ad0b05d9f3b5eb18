"""What a probe with ``budget=0.05`` costs a training, and what adapters cost when no measurement is due.

A CNN on random pictures is trained in a plain loop (``probe.step()`` by hand), with ``follow``, in Lightning and in the
Trainer of transformers, where those are installed. Timed is everything that runs on the probe's behalf: its methods and
the hooks that call them. Printed is that time over the rest of the training's, for

- ``budget=0.05`` with energy and one seam's collaboration on 64 points, every ten steps: bar 7 %;
- a probe that is due at the end only, without its end: bar 0.1 %.

    python benchmarks/probe_budget.py --seconds 60
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import undertow as ut
from undertow.probe import Collaboration, Energy
from undertow.probe.adapters import follow
from undertow.probe.adapters.followed_optimizer import Following

Options = dict[str, Any]


class Spent:
    """Seconds within some methods, those that they call counted once."""

    def __init__(self) -> None:
        self.seconds, self._inside = 0.0, False

    def timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return method(*args, **kwargs)
            self._inside, begun = True, time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self._inside, self.seconds = False, self.seconds + time.perf_counter() - begun

        return call


@contextmanager
def timing(*classes: type) -> Iterator[Spent]:
    """The time spent in the methods of these classes that training calls."""
    spent = Spent()
    with ExitStack() as stack:
        for each in classes:
            for name in ("__init__", "step", "epoch_end", "training_end", "_stepped"):
                if name in vars(each):
                    stack.enter_context(mock.patch.object(each, name, spent.timed(vars(each)[name])))
            for name in [name for name in vars(each) if name.startswith("on_")]:
                stack.enter_context(mock.patch.object(each, name, spent.timed(vars(each)[name])))
        yield spent


def network() -> nn.Module:
    """A CNN for pictures of 16 × 16."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 10),
    )  # fmt: skip


def pictures(count: int) -> tuple[Tensor, Tensor]:
    """Random ones, and random classes."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 3, 16, 16, generator=generator), torch.randint(
        0, 10, (count,), generator=generator
    )


def plain(steps: int, options: Options) -> Spent:
    """A loop that calls the probe by hand."""
    return _loop(steps, options, by_hand=True)


def followed(steps: int, options: Options) -> Spent:
    """The same loop; the probe follows its optimiser."""
    return _loop(steps, options, by_hand=False)


def _loop(steps: int, options: Options, *, by_hand: bool) -> Spent:
    net, (x, y) = network(), pictures(64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    with timing(ut.Probe, Following) as spent:
        probe = ut.Probe(net, *pictures(64), **options)
        bond = None if by_hand else follow(optimizer, probe)
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if by_hand:
                probe.step()
        if bond is not None:
            bond.remove()
    return spent


def lightning(steps: int, options: Options) -> Spent:
    """A LightningModule with the callback."""
    import lightning.pytorch as pl

    from undertow.probe.adapters import LightningProbe

    class Classifier(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def training_step(self, batch: Any, _index: int) -> Tensor:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    data = torch.utils.data.TensorDataset(*pictures(64 * steps))
    with timing(ut.Probe, LightningProbe) as spent:
        callback = LightningProbe(*pictures(64), network=lambda module: module.net, **options)
        pl.Trainer(
            max_epochs=1, accelerator="cpu", callbacks=[callback], logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        ).fit(Classifier(), torch.utils.data.DataLoader(data, batch_size=64))  # fmt: skip
    return spent


def trainer(steps: int, options: Options) -> Spent:
    """The Trainer of transformers with the callback."""
    import transformers

    from undertow.probe.adapters import TransformersProbe

    class Wrapped(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(*network().children())

        def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
            logits = super().forward(x)  # type: ignore[no-untyped-call]
            loss = {} if labels is None else {"loss": nn.functional.cross_entropy(logits, labels)}
            return {**loss, "logits": logits}

    x, y = pictures(64 * 8)
    rows = [{"x": picture, "labels": label} for picture, label in zip(x, y, strict=True)]
    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=steps, per_device_train_batch_size=64, report_to=[],
        disable_tqdm=True, use_cpu=True, save_strategy="no", logging_strategy="no",
    )  # fmt: skip
    points, labels = pictures(64)
    with timing(ut.Probe, TransformersProbe) as spent:
        callback = TransformersProbe({"x": points, "labels": labels}, **options)
        transformers.Trainer(Wrapped(), arguments, train_dataset=rows, callbacks=[callback]).train()
    return spent


def share(loop: Callable[[int, Options], Spent], steps: int, options: Options) -> tuple[float, float]:
    """The probe's time over that of everything else, and the latter in seconds."""
    begun = time.perf_counter()
    spent = loop(steps, options)
    rest = time.perf_counter() - begun - spent.seconds
    return spent.seconds / rest, rest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="about how long each training takes")
    parser.add_argument("--only", nargs="*", default=(), help="of the loops with a budget, these")
    arguments = parser.parse_args()
    loops: dict[str, Callable[[int, Options], Spent]] = {"plain loop": plain, "follow": followed}
    loops |= {"Lightning": lightning} if importlib.util.find_spec("lightning") else {}
    loops |= {"transformers": trainer} if importlib.util.find_spec("transformers") else {}
    idle: Options = {"measures": [(Energy(), 10**9)], "at_start": False}
    busy: Options = {"measures": [Energy(), Collaboration(seam="3")], "every": 10, "budget": 0.05}
    share(plain, 20, dict(idle))  # the first steps take longer
    _, seconds = share(plain, 20, dict(idle))
    steps = max(20, int(20 * arguments.seconds / seconds))
    for name, loop in loops.items():
        if arguments.only and name not in arguments.only:
            continue
        costs, rest = share(loop, steps, dict(busy))
        print(f"{name}: budget=0.05 costs {100 * costs:.2f} % of {rest:.0f} s", flush=True)
    for name, loop in loops.items():
        with mock.patch.object(ut.Probe, "training_end", return_value=[]):
            costs, rest = share(loop, max(20, steps // 6), dict(idle))
        print(f"{name}: {100 * costs:.3f} % of {rest:.0f} s when nothing is due", flush=True)


if __name__ == "__main__":
    main()
