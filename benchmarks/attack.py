"""Attacking many networks together against one at a time with the library pyautoattack.

Trains ReLU MLPs of one width from several initialisation scales, then measures their robust accuracy
(AutoAttack, L2, ε = 0.5 in [0, 1]) with both, and prints times, robust accuracies and the largest difference.

    python benchmarks/attack.py                                   two CPU cores: 14 networks, 1,000 points
    python benchmarks/attack.py --device cuda --points 10000      one GPU
    python benchmarks/attack.py --compare 2                       the library on 2 networks, time scaled up
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time

import torch
from torch import Tensor, nn

from undertow.adversary import robust_accuracy
from undertow.data import load
from undertow.errors import UndertowError


def train(x: Tensor, y: Tensor, *, width: int, scale: float, seed: int, epochs: int) -> nn.Sequential:
    """A two-layer ReLU network whose first layer starts ``scale`` times as large as PyTorch's default."""
    source = torch.Generator().manual_seed(seed)
    hidden, head = nn.Linear(x[0].numel(), width), nn.Linear(width, int(y.max()) + 1)
    with torch.no_grad():
        for layer, gain in ((hidden, scale), (head, 1.0)):
            std = gain / (3 * layer.in_features) ** 0.5
            layer.weight.copy_(std * torch.randn(layer.weight.shape, generator=source))
            layer.bias.zero_()
    net = nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), head)
    net.to(x.device)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(x), generator=source), 128):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return net.eval().requires_grad_(False)


def data(name: str, points: int, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor, str]:
    """Training and test tensors; digits when the data set is not at hand."""
    try:
        train_part, test = load(name, split="train", limit=20_000), load(name, split="test", limit=points)
    except UndertowError as problem:
        print(f"{problem}\nusing scikit-learn's digits instead", file=sys.stderr)
        name, train_part, test = (
            "digits",
            load("digits", split="train"),
            load("digits", split="test", limit=points),
        )
    return train_part.x.to(device), train_part.y.to(device), test.x.to(device), test.y.to(device), name


def clock(device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--nets", type=int, default=14)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--eps", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--compare", type=int, default=None, help="networks given to the library (default: all)"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    x_train, y_train, x, y, name = data(options.data, options.points, options.device)
    scales = [0.25 * 2 ** (0.5 * (index % 7)) for index in range(options.nets)]
    nets = [
        train(x_train, y_train, width=options.width, scale=scale, seed=seed, epochs=options.epochs)
        for seed, scale in enumerate(scales)
    ]
    print(
        f"{len(nets)} MLPs of width {options.width}, {name}, {len(x)} points, L2 ε={options.eps}, {x.device}"
    )

    start = clock(options.device)
    together = robust_accuracy(nets, x, y, eps=options.eps, bounds=(0.0, 1.0))
    ours = clock(options.device) - start
    print(f"together        {ours:8.1f} s   {_shown(together.value)}")
    print(f"proved robust                {_shown(together.proved)}")
    print(f"broken by       {together.broken_by}")
    for note in together.notes:
        print(f"note: {note}")

    if importlib.util.find_spec("pyautoattack") is None:
        print("pyautoattack is not installed: no comparison")
        return
    chosen = nets[: options.compare]
    start = clock(options.device)
    single = [
        robust_accuracy(net, x, y, eps=options.eps, bounds=(0.0, 1.0), engine="pyautoattack", certify=False)
        for net in chosen
    ]
    theirs = (clock(options.device) - start) * len(nets) / len(chosen)
    values = torch.tensor([float(each.value) for each in single])
    print(f"one at a time   {theirs:8.1f} s   {_shown(values)}   (pyautoattack, {len(chosen)} networks run)")
    difference = (torch.as_tensor(together.value)[: len(chosen)] - values).abs().max()
    print(f"speed-up {theirs / ours:.1f}×, largest difference {100 * float(difference):.2f} points")


def _shown(values: float | Tensor) -> str:
    return " ".join(f"{100 * float(value):5.1f}" for value in torch.as_tensor(values))


if __name__ == "__main__":
    main()
