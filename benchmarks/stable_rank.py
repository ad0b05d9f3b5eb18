"""What the stable rank of all layers costs at 100 log-spaced moments of a training, and how exact it is.

    python benchmarks/stable_rank.py                     # MNIST, 784-1000-10, batches of 64, as in the report
    python benchmarks/stable_rank.py --epochs 1          # shorter, with the same moments for each step

Prints the share of the training's time that the measure takes, and the largest relative difference from the singular
values (float64). The bars: 2 %, and 10⁻⁵. Of 100 log-spaced steps the first ones coincide, and
about 80 are left. In fewer epochs than ten, the moments that are not reached are taken to cost what the median one
does, and the training as much for each epoch. Times are those of the processor, so that other work
on the machine does not count; give it one thread (OMP_NUM_THREADS=1).
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn

from undertow.data import load
from undertow.measures.rank import StableRank, weight_matrices
from undertow.models import Gaussian, two_layer

EPOCHS, BATCH, RATE, WIDTH, MOMENTS = 10, 64, 0.1, 1000, 100


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


def train(x: Tensor, y: Tensor, *, std: float, epochs: int) -> tuple[float, list[float], float]:
    """Seconds of the steps, seconds of each reading, and the largest relative difference from the reference."""
    draw = torch.Generator().manual_seed(0)
    net = two_layer(
        inputs=x.shape[1],
        width=WIDTH,
        outputs=10,
        init=Gaussian(std),
        bias="both",
        head="mean",
        generator=draw,
    )
    optimiser = torch.optim.SGD(net.parameters(), lr=RATE)
    measure, per_epoch = StableRank(), -(-len(x) // BATCH)
    due, step, seconds, readings, off = set(moments(EPOCHS * per_epoch)), 0, 0.0, list[float](), 0.0
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(x), generator=draw), BATCH):
            began = time.process_time()
            optimiser.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(net(x[rows]), y[rows]))
            optimiser.step()
            seconds += time.process_time() - began
            step += 1
            if step in due:
                began = time.process_time()
                found = {key: value for key, value, _ in measure(net, x[:1], None)}
                readings.append(time.process_time() - began)
                if len(readings) % 8 == 1:
                    exact = reference(net)
                    off = max(off, *(abs(found[key] / exact[key] - 1) for key in exact))
    return seconds * EPOCHS / epochs, readings, off


def main() -> None:
    """Print a line for the smallest and the largest start."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    data = load("mnist", normalise="mnist", flatten=True)
    for std in (1e-5, 1e-3):
        seconds, readings, off = train(data.x, data.y, std=std, epochs=options.epochs)
        distinct, usual = (
            len(moments(EPOCHS * -(-len(data.x) // BATCH))),
            sorted(readings)[len(readings) // 2],
        )
        total = sum(readings) + (distinct - len(readings)) * usual
        print(
            f"start {std:g}: training {seconds:.1f} s, readings {total:.2f} s "
            f"({total / seconds:.2%}; median {usual * 1e3:.1f} ms, "
            f"longest {max(readings) * 1e3:.0f} ms), largest relative difference {off:.1e}"
        )


if __name__ == "__main__":
    main()
