"""How long a training step of the margin study's CNN takes on a GPU, alone and five networks side by side.

    python benchmarks/cnn_steps.py                        MNIST's sizes, batch 100, float32
    python benchmarks/cnn_steps.py --precision tf32 --members 1 5 10
    python benchmarks/cnn_steps.py --device cpu --samples 1000 --steps 5      to see that it runs

Images are random: the time of a step does not depend on them. Steps follow the loss-based rate, as in the study. Before
the times, networks trained side by side are compared with each alone.
"""

from __future__ import annotations

import argparse
import time

import torch

from undertow.models import cnn
from undertow.training import LossBased, Recipe, Trainer


def trainer(seeds: list[int], options: argparse.Namespace, *, samples: int) -> Trainer:
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(samples, 784, generator=draw)
    y = torch.randint(10, (samples,), generator=draw)
    nets = [
        cnn(
            image=(1, 28, 28),
            stages=[(32,), (64,)],
            kernels=(5, 3),
            dense=(1024,),
            outputs=10,
            generator=torch.Generator().manual_seed(seed),
        )
        for seed in seeds
    ]
    recipes = [
        Recipe(
            optimizer="sgd",
            batch_size=100,
            learning_rate=0.1,
            epochs=1000,
            loss="cross-entropy",
            rate=LossBased(frame_at_start=10.0),
            matmul_precision=options.precision,
            seed=seed,
        )
        for seed in seeds
    ]
    return Trainer(nets, x, y, recipes, device=options.device)


def milliseconds(made: Trainer, steps: int) -> float:
    made.advance(20)
    made.wait()
    began = time.perf_counter()
    made.advance(steps)
    made.wait()
    return (time.perf_counter() - began) / steps * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", choices=["float32", "tf32"], default="float32")
    parser.add_argument("--members", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    together = trainer([0, 1, 2], options, samples=1000)
    together.advance(10)
    for seed in range(3):
        alone = trainer([seed], options, samples=1000)
        alone.advance(10)
        gap = max(
            float((ours - theirs).detach().abs().max() / theirs.detach().abs().max())
            for ours, theirs in zip(
                together.network(seed).parameters(), alone.network(0).parameters(), strict=True
            )
        )
        print(
            f"network {seed}: side by side and alone differ by {gap:.1e} of the largest weight after an epoch"
        )
    first = 0.0
    for members in options.members:
        found = milliseconds(trainer(list(range(members)), options, samples=options.samples), options.steps)
        first = first or found
        print(f"{members:3} networks  {found:7.3f} ms a step  {found / first:5.2f} × the first")


if __name__ == "__main__":
    main()
