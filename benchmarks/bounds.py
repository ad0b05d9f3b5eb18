"""Do the bounds of Jacobian norms hold? At least a thousand networks in families that break naive ones.

Every network is written twice: in PyTorch, for undertow, and in numpy's extended precision (64 bits of mantissa on
x86), where its dense Jacobian is formed. A violation is a sample whose true norm is further from ``value`` than
``error``, or NaN with a status that calls itself good.

    python benchmarks/bounds.py                    all families, float32 and float64, exact and Lanczos
    python benchmarks/bounds.py --share 0.1 --device cuda   a tenth of the networks, on a GPU
    python benchmarks/bounds.py --before ../old/src   CPU time of ordinary networks against an older checkout
    python benchmarks/bounds.py --timing --device cuda --points 10000
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.errors import ModelError
from undertow.core.status import Status

Array = np.ndarray
LONG = np.longdouble


class Affine(nn.Linear):
    def oracle(self, x: Array) -> tuple[Array, Array]:
        weight = self.weight.detach().numpy().astype(LONG)
        bias = 0 if self.bias is None else self.bias.detach().numpy().astype(LONG)
        return weight @ x + bias, weight


class Pointwise(nn.Module):
    """An activation with its value and its slope, each in a form that saturation does not spoil."""

    def __init__(
        self, module: nn.Module, value: Callable[[Array], Array], slope: Callable[[Array], Array]
    ) -> None:
        super().__init__()
        self.module, self.value, self.slope = module, value, slope

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x)  # type: ignore[no-any-return]

    def oracle(self, x: Array) -> tuple[Array, Array]:
        return self.value(x), np.diag(self.slope(x))


def logistic_slope(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return small / (1 + small) ** 2  # type: ignore[no-any-return]


def relu() -> Pointwise:
    return Pointwise(nn.ReLU(), lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(LONG))


def sigmoid() -> Pointwise:
    return Pointwise(nn.Sigmoid(), lambda x: 1 / (1 + np.exp(-x)), logistic_slope)


def tanh() -> Pointwise:
    return Pointwise(nn.Tanh(), np.tanh, lambda x: 4 * logistic_slope(2 * x))


def leaky(slope: float) -> Pointwise:
    exact = LONG(slope)
    return Pointwise(
        nn.LeakyReLU(slope),
        lambda x: np.where(x > 0, x, exact * x),
        lambda x: np.where(x > 0, LONG(1), exact),
    )


class Softmax(nn.Softmax):
    def oracle(self, x: Array) -> tuple[Array, Array]:
        p = np.exp(x - x.max())
        p /= p.sum()
        rest = np.array([np.delete(p, i).sum() for i in range(len(p))])  # 1 − p without cancellation
        jacobian = -np.outer(p, p)
        np.fill_diagonal(jacobian, p * rest)
        return p, jacobian


class LogSumExp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.logsumexp(1, keepdim=True)

    def oracle(self, x: Array) -> tuple[Array, Array]:
        p = np.exp(x - x.max())
        return np.array([x.max() + np.log(p.sum())]), (p / p.sum())[None]


class Normalise(nn.LayerNorm):
    def oracle(self, x: Array) -> tuple[Array, Array]:
        n, centred = len(x), x - x.mean()
        root = np.sqrt((centred**2).mean() + LONG(self.eps))
        y = centred / root
        return y, (np.eye(n, dtype=LONG) - 1 / LONG(n) - np.outer(y, y) / n) / root


class Attention(nn.Module):
    """softmax(X M Xᵀ) X of a few tokens, with scores as large as M makes them."""

    def __init__(self, tokens: int, size: int, scale: float) -> None:
        super().__init__()
        self.tokens, self.size = tokens, size
        self.score = nn.Parameter(scale * torch.randn(size, size))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.view(-1, self.tokens, self.size)
        return ((tokens @ self.score @ tokens.mT).softmax(-1) @ tokens).flatten(1)

    def oracle(self, x: Array) -> tuple[Array, Array]:
        tokens, score = x.reshape(self.tokens, self.size), self.score.detach().numpy().astype(LONG)
        scores = tokens @ score @ tokens.T
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        columns = []
        for place in range(x.size):
            step = np.zeros_like(x)
            step[place] = 1
            step = step.reshape(tokens.shape)
            change = step @ score @ tokens.T + tokens @ score @ step.T
            gaps = change[:, :, None] - change[:, None, :]  # every pair apart: no cancellation against a mean
            moved = weights * (gaps * weights[:, None, :]).sum(2)
            columns.append((moved @ tokens + weights @ step).ravel())
        return (weights @ tokens).ravel(), np.stack(columns, 1)


class ByRow(nn.Module):
    """A network that scales every sample by a buffer's entry at the sample's place in the batch."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("gains", torch.arange(1.0, count + 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.get_buffer("gains")[: len(x), None].to(x)


def true_norms(net: nn.Sequential, x: Tensor) -> Array:
    """‖J(x_i)‖₂ by forming each Jacobian in extended precision."""
    found = []
    for sample in x.numpy().astype(LONG):
        value, jacobian = sample, np.eye(len(sample), dtype=LONG)
        for layer in net:
            value, step = layer.oracle(value)  # type: ignore[operator]
            jacobian = step @ jacobian
        scale = np.abs(jacobian).max()
        norm = np.linalg.norm((jacobian / scale).astype(np.float64), 2) if scale > 0 else 0.0
        found.append(scale * LONG(norm))
    return np.array(found)


def plain(net: nn.Sequential) -> nn.Sequential:
    """The same network of PyTorch's own layers, which undertow reads layer by layer instead of calling them."""
    layers: list[nn.Module] = []
    for layer in net:
        if isinstance(layer, Affine):
            linear = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None)
            linear.weight, linear.bias = layer.weight, layer.bias
            layers.append(linear)
        else:
            layers.append(layer.module if isinstance(layer, Pointwise) else layer)
    return nn.Sequential(*layers)


@dataclass(frozen=True)
class Family:
    """Networks of one kind: how many at full size, and how one is drawn."""

    name: str
    count: int
    make: Callable[[int], tuple[nn.Sequential, Tensor]]


def chain(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers)


def ordinary(seed: int) -> tuple[nn.Sequential, Tensor]:
    widths = torch.randint(8, 120, (3,)).tolist()
    kinks = [(relu, tanh, sigmoid)[seed % 3]() for _ in widths]
    layers: list[nn.Module] = []
    size = int(torch.randint(5, 90, ()))
    x = torch.randn(6, size)
    for width, kink in zip(widths[: 1 + seed % 3], kinks, strict=False):
        layers += [Affine(size, width), kink]
        size = width
    if seed % 4:
        layers.append(Affine(size, int(torch.randint(1, 80, ()))))
    return chain(*layers), x


def cancelling(seed: int) -> tuple[nn.Sequential, Tensor]:
    size, stretch = int(torch.randint(20, 110, ())), 10 ** float(torch.empty(()).uniform_(2, 5))
    u, v = (torch.linalg.qr(torch.randn(size, size).double())[0] for _ in range(2))
    gains = torch.ones(size).double()
    gains[:5] = stretch
    first, second = Affine(size, size, bias=False), Affine(size, size, bias=False)
    with torch.no_grad():
        first.weight.copy_(u @ gains.diag() @ v)
        second.weight.copy_(v.T @ gains.reciprocal().diag() @ u.T)
    between = [[], [leaky(0.9999999)], [leaky(0.5)]][seed % 3]
    return chain(first, *between, second), torch.randn(4, size)


def saturating(seed: int) -> tuple[nn.Sequential, Tensor]:
    size, gain = int(torch.randint(5, 40, ())), 10 ** float(torch.empty(()).uniform_(0, 2.3))
    first = Affine(size, int(torch.randint(1, 90, ())))
    with torch.no_grad():
        first.weight.mul_(gain)
    x = torch.randn(6, size)
    if seed % 5 == 0:
        return chain(first, Softmax(1)), x
    if seed % 5 == 1:
        return chain(first, sigmoid()), x
    if seed % 5 == 2:
        return chain(first, sigmoid(), Affine(first.out_features, 10), Softmax(1)), x
    if seed % 5 == 3:
        return chain(first, LogSumExp()), x
    tokens = 4
    return chain(Attention(tokens, 6, gain)), torch.randn(6, tokens * 6)


def deep(seed: int) -> tuple[nn.Sequential, Tensor]:
    size, depth = (24, 60) if seed % 2 else (72, 120)
    layers: list[nn.Module] = []
    for _ in range(depth):
        linear = Affine(size, size)
        nn.init.orthogonal_(linear.weight, gain=1.0 + 0.5 * (seed % 3))
        layers += [linear, *([Normalise(size, elementwise_affine=False)] if seed % 4 > 1 else []), tanh()]
    return chain(*layers), torch.randn(3, size)


def badly_scaled(seed: int) -> tuple[nn.Sequential, Tensor]:
    net, x = ordinary(3 * seed)  # ReLU networks, whose Jacobian scales with their weights
    power = [-22, -15, -8, 8, 15, 18][seed % 6]
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, Affine):
                layer.weight.mul_(10.0**power)
                layer.bias.mul_(0)
    scale = 10.0 ** [0, -9, 9][seed % 3] if abs(power) < 20 else 1.0
    finite = bool(torch.isfinite(net(x * scale)).all())
    return net, x * scale if finite else x * 1e-9


FAMILIES = (
    Family("ordinary", 400, ordinary),
    Family("cancelling", 150, cancelling),
    Family("saturating", 300, saturating),
    Family("deep", 30, deep),
    Family("badly scaled", 150, badly_scaled),
)


@dataclass
class Tally:
    """What was seen of one family in one precision."""

    networks: int = 0
    samples: int = 0
    violated: int = 0
    silent: int = 0
    rounding: int = 0
    refused: int = 0
    widest: float = 0.0


def judge(net: nn.Sequential, x: Tensor, tally: Tally, method: str, *, layered: bool, device: str) -> None:
    true = true_norms(net, x)
    try:
        own = copy.deepcopy(plain(net) if layered else net).to(device)
        found = ut.jacobian_norms(own, x.to(device), method=method)  # type: ignore[arg-type]
    except ModelError:  # a network that overflows in this precision is refused in a sentence
        tally.refused += 1
        return
    value, bound = (each.cpu().numpy().astype(LONG) for each in (found.value, found.error))
    tally.networks += 1
    tally.samples += len(x)
    unknown = np.isnan(value) & np.isinf(bound)  # said to be so
    tally.violated += int((~(np.abs(value - true) <= bound) & ~unknown).sum())
    tally.silent += int(np.isnan(value).sum()) if found.status.ok else 0
    tally.rounding += found.status is Status.ROUNDING
    if found.status.ok and bool((value > 0).any()):
        tally.widest = max(tally.widest, float((bound / value)[value > 0].max()))


def violations(share: float, device: str) -> int:
    print(
        "family         precision method  networks samples outside NaN beyond-float64 refused widest-good-bound"
    )
    broken = 0
    for family in FAMILIES:
        for dtype in (torch.float32, torch.float64):
            for method in ("auto", "krylov"):
                tally = Tally()
                for seed in range(max(1, round(family.count * share / 4))):
                    torch.manual_seed(seed + 10_000 * (method == "krylov"))
                    net, x = family.make(seed)
                    judge(
                        net.to(dtype), x.to(dtype), tally, method, layered=bool(seed // 2 % 2), device=device
                    )
                broken += tally.violated + tally.silent
                print(
                    f"{family.name:14} {str(dtype)[6:]:9} {method:7} {tally.networks:8d} {tally.samples:7d} "
                    f"{tally.violated:7d} {tally.silent:3d} {tally.rounding:14d} {tally.refused:7d} {tally.widest:.1e}",
                    flush=True,
                )
    return broken + row_dependent()


def row_dependent() -> int:
    """Networks for which a sample's place matters are refused, whatever the chunks."""
    accepted = 0
    for count in (2, 8, 40):
        for chunk in (None, 3):
            try:
                ut.jacobian_norms(ByRow(count), torch.randn(count, 5), chunk=chunk)
            except ModelError:
                continue
            accepted += 1
    print(f"row-dependent  {6 - accepted} of 6 refused")
    return accepted


def timed(device: str, points: int) -> dict[str, float]:
    """CPU seconds, or seconds on a GPU, of ordinary networks."""
    torch.manual_seed(0)
    x = torch.rand(points, 784, device=device)
    wide = nn.Sequential(nn.Linear(784, 1000), nn.ReLU()).to(device)
    before = ut.jacobian_norms(wide, x, keep_vectors=True)
    after = copy.deepcopy(wide)
    with torch.no_grad():
        for weight in after.parameters():
            weight.add_(5e-5 * torch.randn(weight.shape).to(device))
    classes = nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 10)).to(device)
    images = torch.rand(points, 1, 8, 8, device=device)
    convolution = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
    ).eval().to(device)  # fmt: skip
    wider = nn.Sequential(nn.Linear(784, 4096), nn.ReLU()).to(device)
    works: dict[str, Callable[[], object]] = {
        "cold": lambda: ut.jacobian_norms(wide, x),
        "warm": lambda: ut.jacobian_norms(after, x, start=before),
        "exact, MLP": lambda: ut.jacobian_norms(classes, x),
        "exact, convolutions": lambda: ut.jacobian_norms(convolution, images),
        **({"cold, 4096 wide": lambda: ut.jacobian_norms(wider, x)} if device == "cuda" else {}),
    }
    found = {}
    for name, work in works.items():
        work()
        times = []
        for _ in range(3):
            clock = time.process_time if device == "cpu" else time.perf_counter
            begin = clock()
            work()
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(clock() - begin)
        found[name] = min(times)
    return found


def compare(before: str, device: str, points: int) -> None:
    """The same timings with an older checkout's sources and with these, in turns."""
    here = os.path.abspath(ut.__file__ or "").removesuffix("/undertow/__init__.py")
    seen: dict[str, dict[str, list[float]]] = {}
    for _ in range(3):
        for path in (before, here):
            command = [sys.executable, __file__, "--timing", "--device", device, "--points", str(points)]
            environment = {**os.environ, "PYTHONPATH": path}
            text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            for line in text.splitlines():
                name, seconds = line.rsplit(maxsplit=1)
                seen.setdefault(name, {}).setdefault(path, []).append(float(seconds))
    for name, by_path in seen.items():
        ratio = statistics.median(b / a for a, b in zip(by_path[before], by_path[here], strict=True))
        print(f"{name:20} {ratio:.2f} of before")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--before")
    parser.add_argument("--timing", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--points", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.timing:
        for name, seconds in timed(options.device, options.points).items():
            print(f"{name} {seconds:.5f}")
    elif options.before:
        compare(options.before, options.device, options.points)
    else:
        sys.exit(1 if violations(options.share, options.device) else 0)


if __name__ == "__main__":
    main()
