"""Measures of several networks as one batch against one network after the other, in one process.

Networks of three hidden layers at initialisation, on random points of length one; what is timed is one moment of a
training run. Prints both times, their ratio, and the largest relative difference of the readings.

    python benchmarks/measures_batched.py                  CPU: 5 networks of width 256, 50 points
    python benchmarks/measures_batched.py --device cuda    5 networks of width 512, 10,000 points
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from undertow.measures.chain import Chain
from undertow.measures.reading import Measure, Reading
from undertow.models import mlp
from undertow.probe import Collaboration, Energy
from undertow.probe.batched import read_batched

MEASURES: tuple[Measure, ...] = (Chain(), Collaboration(seam="activation1"), Energy())
REPEATS = 3


def seconds(work: Callable[[], list[list[Reading]]], device: str) -> tuple[float, list[list[Reading]]]:
    """The shortest of a few times, after one that does not count, and what came of it."""
    times, found = [], work()
    for _ in range(REPEATS):
        began = time.perf_counter()
        found = work()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return min(times), found


def difference(one: list[list[Reading]], other: list[list[Reading]]) -> float:
    """The largest relative difference of two sets of readings; gaps that are nothing but rounding apart."""
    pairs = zip(chain.from_iterable(one), chain.from_iterable(other), strict=True)
    return max(abs(a - b) / abs(a) for (key, a, _), (_, b, _) in pairs if not key.endswith("identity_gap"))


def compare(measure: Measure, networks: Sequence[nn.Module], x: Tensor, y: Tensor, device: str) -> str:
    alone, expected = seconds(lambda: [list(measure(net, x, y)) for net in networks], device)
    together, found = seconds(lambda: read_batched(measure, networks, x, y), device)
    off = difference(expected, found)
    times = f"{alone:8.3f} s alone  {together:8.3f} s together  {alone / together:5.2f} ×"
    return f"{measure.name:>15}: {times}  off by {off:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--networks", type=int, default=5)
    parser.add_argument("--width", type=int)
    parser.add_argument("--points", type=int)
    options = parser.parse_args()
    gpu = options.device == "cuda"
    width, points = options.width or (512 if gpu else 256), options.points or (10_000 if gpu else 50)

    networks = [
        mlp(inputs=784, widths=[width] * 3, outputs=10, generator=torch.Generator().manual_seed(seed))
        .eval()
        .to(options.device)
        for seed in range(options.networks)
    ]
    x = nn.functional.normalize(torch.rand(points, 784, generator=torch.Generator().manual_seed(9)), dim=1)
    x, y = x.to(options.device), torch.arange(points, device=options.device) % 10
    where = torch.cuda.get_device_name() if gpu else f"{torch.get_num_threads()} CPU threads"
    print(f"{options.networks} networks 784-{width}-{width}-{width}-10, {points:,} points, on {where}")
    for measure in MEASURES:
        print(compare(measure, networks, x, y, options.device), flush=True)


if __name__ == "__main__":
    main()
