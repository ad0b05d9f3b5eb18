"""What `ut.margins` and `ut.kkt` cost on the margin study's CNN, and how the cost of margins grows with the points.

    python benchmarks/margins.py                          a small CNN, 500 … 2,000 points
    python benchmarks/margins.py --full --points 10000    the talk's network: 5×5×32, 3×3×64, 1024 units, 28×28
    python benchmarks/margins.py --full --points 10000 --device cuda

Points are random images with the network's own labels, so that every margin is positive, as after training. The network
is random too: its KKT residual means nothing, its cost does. ``kkt`` takes in ``--constraints`` pairs at first and says
how many it ended with, and how far from optimal its multipliers may be.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.scoring import slices
from undertow.models import cnn


def network(*, full: bool) -> tuple[nn.Module, int]:
    side, channels, dense = (28, (32, 64), 1024) if full else (16, (8, 16), 64)
    generator = torch.Generator().manual_seed(0)
    net = cnn(
        image=(1, side, side),
        stages=[(each,) for each in channels],
        kernels=(5, 3),
        dense=(dense,),
        outputs=10,
        generator=generator,
    )
    return net, side


def clear_points(net: nn.Module, count: int, side: int, device: str) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = torch.rand(count, side * side, generator=draw).to(device)
    with torch.no_grad():
        y = torch.cat([net(x[part]).argmax(1) for part in slices(count, 500)])
    return x, y


def timed(work: Callable[[], object], device: str, repeats: int) -> float:
    """The fastest of several runs, in seconds."""
    best = math.inf
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the network of the talk")
    parser.add_argument("--points", type=int, default=2000, help="the largest number of points")
    parser.add_argument("--constraints", type=int, default=500, help="pairs that kkt takes in at first")
    parser.add_argument("--rounds", type=int, default=5, help="how often kkt may take in more")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    net, side = network(full=options.full)
    net = net.to(options.device)
    weights = sum(p.numel() for p in net.parameters())
    print(f"CNN on {side}×{side}, {weights:,} weights, {options.device}, {torch.get_num_threads()} threads")
    x, y = clear_points(net, options.points, side, options.device)
    counts = [options.points // 4, options.points // 2, options.points]
    seconds = []
    for count in counts:
        few, labels = x[:count], y[:count]
        ut.margins(net, few[:64], labels[:64])  # warm
        seconds.append(timed(partial(ut.margins, net, few, labels), options.device, options.repeats))
        print(f"  margins  {count:7,} points  {seconds[-1]:8.3f} s")
    slope = math.log(seconds[-1] / seconds[0]) / math.log(counts[-1] / counts[0])
    print(f"  margins  slope in points {slope:.2f}")
    began = time.perf_counter()
    found = ut.kkt(net, x, y, limit=options.constraints, max_rounds=options.rounds)
    spent = time.perf_counter() - began
    print(
        f"  kkt      {options.points:7,} points  {spent:8.3f} s, {9 * options.points:,} constraints, "
        f"{found.constraints:,} in the Gram matrix, residual {found.residual:.3f}, error {found.error:.1g}, "
        f"{found.status}"
    )


if __name__ == "__main__":
    main()
