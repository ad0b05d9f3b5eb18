"""What a penalty costs, and how near its warm-started vectors are to the truth while a network is trained.

    python benchmarks/penalties.py                          digits, on the CPU
    python benchmarks/penalties.py --data mnist --width 512 --members 10 --device cuda

First the time of one training step of a group of fully connected networks, plainly and with each penalty or an
adversary of five steps, as a multiple of the plain one. Then a single network in a plain loop with the collaboration
penalty: after each epoch the ϱ of its remembered vectors, beside the one measured to 1e-6 on the same samples.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch import nn

from undertow import collaboration
from undertow.data import load
from undertow.models import mlp
from undertow.training import CollaborationPenalty, EnergyPenalty, JacobianPenalty, Recipe, Trainer
from undertow.training.adversarial import AdversarialTraining
from undertow.training.batches import epoch_order

SEAM = "activation1"
WAYS: dict[str, dict[str, object]] = {
    "plain": {},
    "jacobian, 1 projection": {"penalty": JacobianPenalty(0.01)},
    "jacobian, exact": {"penalty": JacobianPenalty(0.01, projections="all")},
    "energy": {"penalty": EnergyPenalty(0.01)},
    "collaboration": {"penalty": CollaborationPenalty(SEAM, 0.1)},
    "adversary, 5 steps": {"adversary": AdversarialTraining(eps=0.2, steps=5)},
}


def network(inputs: int, width: int, seed: int) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    return mlp(inputs=inputs, widths=[width, width], outputs=10, bias=True, generator=generator)


def seconds_per_step(x: torch.Tensor, y: torch.Tensor, options: argparse.Namespace, **how: object) -> float:
    """The median of five timings, after a first one that is not counted."""
    nets = [network(x.shape[1], options.width, seed) for seed in range(options.members)]
    recipes = [
        Recipe(optimizer="adam", learning_rate=1e-3, batch_size=100, epochs=1000, seed=seed, **how)
        for seed in range(options.members)
    ]
    trainer = Trainer(nets, x, y, recipes, device=options.device)
    times: list[float] = []
    for _ in range(6):
        began = time.perf_counter()
        trainer.advance(options.steps)
        trainer.wait()
        times.append((time.perf_counter() - began) / options.steps)
    return statistics.median(times[1:])


def settling(x: torch.Tensor, y: torch.Tensor, options: argparse.Namespace) -> None:
    """ϱ by remembered vectors beside the measured one, epoch by epoch."""
    net, penalty = network(x.shape[1], options.width, 0), CollaborationPenalty(SEAM, 0.1)
    adam, memory = torch.optim.Adam(net.parameters(), lr=1e-3), dict[str, torch.Tensor]()
    rows = torch.arange(min(len(x), 200))
    for epoch in range(options.epochs):
        for batch in torch.split(epoch_order(len(x), seeds=[0], epoch=epoch), 100):
            adam.zero_grad()
            held = penalty(net, x[batch], rows=batch, memory=memory)
            (nn.functional.cross_entropy(net(x[batch]), y[batch]) + held).backward()  # type: ignore[no-untyped-call]
            adam.step()
        kept = {name: table.clone() for name, table in memory.items()}
        ours = (penalty(net, x[rows], rows=rows, memory=kept).item() / penalty.weight) ** 0.5
        truth = collaboration(net, x[rows], seam=SEAM, rtol=1e-6).co_correlation
        told = f"ϱ {ours:.4f} by remembered vectors, {truth:.4f} measured, ratio {ours / truth:.4f}"
        print(f"epoch {epoch + 1:>3}: {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    data = load(options.data, split="train", limit=options.samples, flatten=True)
    print(
        f"{options.data}, {len(data)} samples, {options.members} networks of width {options.width}, {options.device}"
    )
    plain = seconds_per_step(data.x, data.y, options)
    for name, how in WAYS.items():
        each = plain if name == "plain" else seconds_per_step(data.x, data.y, options, **how)
        print(f"{name:>24} {1e3 * each:8.2f} ms a step, {each / plain:5.1f} × plain")
    settling(data.x, data.y, options)


if __name__ == "__main__":
    main()
