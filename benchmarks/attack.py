"""Attacking many networks together against one at a time with the library pyautoattack, and the fast attack.

Trains ReLU MLPs of one width from several initialisation scales, then measures their robust accuracy
(AutoAttack, L2, ε = 0.5 in [0, 1]) with both, and prints times, robust accuracies and the largest difference.

    python benchmarks/attack.py                                   two CPU cores: 14 networks, 1,000 points
    python benchmarks/attack.py --device cuda --points 10000      one GPU
    python benchmarks/attack.py --compare 2                       the library on 2 networks, time scaled up
    python benchmarks/attack.py --fast                            radii and cost of attack="fast" against the best
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
import time

import torch
from torch import Tensor, nn

from undertow.adversary import Classifier, robust_accuracy
from undertow.adversary.closest import closest_examples
from undertow.adversary.scorer import Scorer
from undertow.core.errors import UndertowError
from undertow.data import d_binary, load


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


class Residual(nn.Module):
    """x + two convolutions with BatchNorm, behind a ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.inner(x))


def fit(net: nn.Module, x: Tensor, y: Tensor, epochs: int) -> nn.Module:
    """Adam on the cross-entropy, or the logistic loss of one logit."""
    source = torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(x), generator=source), 128):
            out = net(x[batch])
            one = out.shape[1] == 1
            loss = (
                nn.functional.binary_cross_entropy_with_logits(out[:, 0], y[batch].to(out))
                if one
                else nn.functional.cross_entropy(out, y[batch])
            )
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return net.eval().requires_grad_(False)


def cases(points: int) -> dict[str, tuple[nn.Module, Tensor, Tensor, tuple[float, float] | None]]:
    """Networks of several kinds, their test points and the box of their inputs."""
    torch.manual_seed(0)
    train_part, test = load("digits", split="train"), load("digits", split="test", limit=points)
    flat, seen, y, truth = train_part.x.flatten(1), test.x.flatten(1), train_part.y, test.y
    images, shown = (x.reshape(-1, 1, 8, 8) for x in (flat, seen))
    clusters = d_binary(n=1000, d=64, k=6, seed=0)
    more = d_binary(n=points, d=64, k=6, seed=1, centres=clusters.details["centres"])
    box = (0.0, 1.0)
    mlp = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    deep = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 10))
    cnn = nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    resnet = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Residual(16)),
        *(nn.MaxPool2d(2), Residual(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)),
    )
    two_layer = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    return {
        "MLP, ReLU, box": (fit(mlp, flat, y, 20), seen, truth, box),
        "MLP, GELU, free": (fit(deep, flat, y, 20), seen, truth, None),
        "CNN, box": (fit(cnn, images, y, 12), shown, truth, box),
        "ResNet, box": (fit(resnet, images, y, 6), shown, truth, box),
        "two-layer, clusters": (fit(two_layer, clusters.x, clusters.y, 10), more.x, more.y, None),
    }


def compare_fast(points: int) -> None:
    """Radii of attack="fast" over the best of AutoAttack, the closest examples and itself; passes of each."""
    print(f"attack='fast' on {points} points: radius / best radius known, and cost in passes of each")
    print(
        f"{'network':22} {'norm':>4} {'median':>8} {'95 %':>7} {'worst':>7} {'≤ 1.05':>7} {'none':>5} "
        f"{'fast':>8} {'AutoAttack':>10} {'closest':>8} {'ratios':>12}"
    )
    for name, (net, x, y, box) in cases(points).items():
        for norm in (2.0, math.inf):
            classifier = Classifier(net, bounds=box)
            fast = robust_accuracy(classifier, x, y, eps=1e-9, norm=norm, attack="fast", certify=False)
            known = fast.distance[(fast.distance > 0) & fast.distance.isfinite()]
            radii = known.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=known.dtype)).tolist()
            # AutoAttack as it is used, at one radius that half of the samples survive
            usual = robust_accuracy(classifier, x, y, eps=radii[1], norm=norm, certify=False)
            finer = robust_accuracy(
                classifier, x, y, eps=radii, norm=norm, attack=["apgd-t", "fab-t"], certify=False
            )
            near, passes = counted_closest(classifier, x, y, norm)
            best = torch.minimum(torch.minimum(usual.distance, finer.distance), near)
            right = (best > 0) & best.isfinite()
            ratio = fast.distance[right] / torch.minimum(best, fast.distance)[right]
            middle, high, worst = ratio.nan_to_num(math.inf).quantile(torch.tensor([0.5, 0.95, 1.0]).double())
            share = float((ratio <= 1.05).double().mean())
            costs = [each.passes.forward + each.passes.backward for each in (fast, usual)] + [passes]
            n = int(right.sum())
            print(
                f"{name:22} {norm:4.0f} {middle:8.4f} {high:7.3f} {worst:7.3f} {100 * share:6.1f}% "
                f"{int(fast.distance[right].isinf().sum()):5d} {costs[0] / n:8.0f} {costs[1] / n:10.0f} "
                f"{costs[2] / n:8.0f} {costs[1] / costs[0]:5.1f} {costs[2] / costs[0]:6.1f}"
            )


def counted_closest(classifier: Classifier, x: Tensor, y: Tensor, norm: float) -> tuple[Tensor, int]:
    """The distances of `closest_examples`, and the passes that they took."""
    kept: list[Scorer] = []
    make = Classifier._scorer

    def remembered(self: Classifier, inputs: Tensor) -> Scorer:
        kept.append(make(self, inputs))
        return kept[-1]

    Classifier._scorer = remembered  # type: ignore[method-assign, assignment]
    try:
        distance, _ = closest_examples(classifier, x, y, norm=norm)
    finally:
        Classifier._scorer = make  # type: ignore[method-assign]
    return distance, sum(each.passes.forward + each.passes.backward for each in kept)


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
    parser.add_argument("--fast", action="store_true", help="compare attack='fast' with the best radii")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.fast:
        compare_fast(min(options.points, 200))
        return
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
