"""What the stable rank of all layers costs at 100 log-spaced moments of a training, and how exact it is.

    python benchmarks/stable_rank.py                                 MNIST, 784-1000-10, batches of 64, as in the report
    python benchmarks/stable_rank.py --data cifar10 --epochs 1       CIFAR-10, 3072-512-10, batches of 128
    python benchmarks/stable_rank.py --device cuda                   one network on a GPU, launched step by step

Prints the share of the training's time that the measure takes, and the largest relative difference from the singular
values (float64). The bars: 2 %, and 10⁻⁵. Of 100 log-spaced steps the first ones coincide, and
about 80 are left. In fewer epochs than the report's, the moments that are not reached are taken to cost what the median
one does, and the training as much for each epoch. On a CPU times are those of the processor, so that other work
on the machine does not count; give it one thread (OMP_NUM_THREADS=1). Of networks that train as one batch,
`benchmarks/study_parts.py --study stable-rank --scale paper` prints the times of training and measures.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.data import load
from undertow.measures.rank import StableRank, weight_matrices
from undertow.models import Gaussian, two_layer

MOMENTS = 100


@dataclass(frozen=True)
class Setting:
    """How the report trains on one data set."""

    normalise: str
    width: int
    batch: int
    rate: float
    epochs: int


SETTINGS = {"mnist": Setting("mnist", 1000, 64, 0.1, 10), "cifar10": Setting("centred", 512, 128, 0.01, 100)}


def now(device: torch.device) -> float:
    """Seconds of the processor; of a clock, once a GPU has done what it was given."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def moments(steps: int) -> list[int]:
    """``MOMENTS`` steps from 1 to the last, each about as many times the one before it."""
    return sorted(
        {round(float(step)) for step in torch.logspace(0, torch.tensor(float(steps)).log10(), MOMENTS)}
    )


def reference(net: nn.Module) -> dict[str, float]:
    """From all singular values."""
    found = {}
    for name, matrix, _ in weight_matrices(net):
        singular = torch.linalg.svdvals(matrix.double())
        found[name] = float((singular / singular[0]).square().sum())
    return found


def train(
    x: Tensor, y: Tensor, setting: Setting, *, std: float, epochs: int
) -> tuple[float, list[float], float]:
    """Seconds of all epochs' steps, seconds of each reading, and the largest relative difference from the reference."""
    draw = torch.Generator().manual_seed(0)
    net = two_layer(
        inputs=x.shape[1],
        width=setting.width,
        outputs=10,
        init=Gaussian(std),
        bias="both",
        head="mean",
        generator=draw,
    ).to(x.device)
    optimiser = torch.optim.SGD(net.parameters(), lr=setting.rate)
    measure, per_epoch = StableRank(), -(-len(x) // setting.batch)
    due, step, readings, off = set(moments(setting.epochs * per_epoch)), 0, list[float](), 0.0
    seconds, began = 0.0, now(x.device)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(x), generator=draw).to(x.device), setting.batch):
            optimiser.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(net(x[rows]), y[rows]))
            optimiser.step()
            step += 1
            if step in due:
                seconds += now(x.device) - began
                began = now(x.device)
                found = {key: value for key, value, _ in measure(net, x[:1], None)}
                readings.append(now(x.device) - began)
                if len(readings) % 8 == 1:
                    exact = reference(net)
                    off = max(off, *(abs(found[key] / exact[key] - 1) for key in exact))
                began = now(x.device)
    seconds += now(x.device) - began
    return seconds * setting.epochs / epochs, readings, off


def main() -> None:
    """Print a line for the smallest and the largest start."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=tuple(SETTINGS), default="mnist")
    parser.add_argument("--epochs", type=int, help="fewer than the report's")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    setting = SETTINGS[options.data]
    data = load(options.data, normalise=setting.normalise, flatten=True)
    x, y = data.x.to(options.device), data.y.to(options.device)
    distinct = len(moments(setting.epochs * -(-len(x) // setting.batch)))
    for std in (1e-5, 1e-3):
        seconds, readings, off = train(x, y, setting, std=std, epochs=options.epochs or setting.epochs)
        usual = sorted(readings)[len(readings) // 2]
        total = sum(readings) + (distinct - len(readings)) * usual
        print(
            f"{options.data}, {x.device.type}, start {std:g}: training {seconds:.1f} s, readings {total:.2f} s "
            f"({total / seconds:.2%}; median {usual * 1e3:.1f} ms, "
            f"longest {max(readings) * 1e3:.0f} ms), largest relative difference {off:.1e}"
        )


if __name__ == "__main__":
    main()
