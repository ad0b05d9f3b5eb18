"""Certificates of the networks people have: how long, how fast, and never contradicted.

Printed are, for networks trained on scikit-learn's digits (64 pixels in [0, 1], 1,400 for training):

- medians over correctly classified test digits, in L2, of what each proof certifies, as a share of the shortest
  adversarial example found: plain linear bounds, slopes by ascent, neurons coupled by the ball, the Lipschitz bound;
- accuracies certified at a radius by the same proofs, beside what attacks leave standing;
- seconds for all radii, and how they grow with the number of points.

    python benchmarks/certificates.py                     about five minutes on one CPU core
    python benchmarks/certificates.py --soundness         25 architectures, 5,000 samples, no violation allowed
    python benchmarks/certificates.py --narrow            narrow networks against their exact radii
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from certificate_networks import Residual, SmallTransformer, digits, mlp, pooled, trained

from tests.adversary.certificates.architectures import ARCHITECTURES, violations
from undertow.adversary import Classifier, robust_accuracy, robustness
from undertow.adversary.certificates.bracket import largest_radius
from undertow.adversary.certificates.case_radii import radii_by_cases
from undertow.adversary.certificates.certified import certified_radii, gap_bounds
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.lipschitz import lipschitz_bounds
from undertow.adversary.certificates.network_graph import NetworkGraph, read_graph
from undertow.adversary.certificates.refined import refined_radii

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "ReLU MLP": lambda: mlp(nn.ReLU()),
    "GELU MLP": lambda: mlp(nn.GELU()),
    "tanh MLP": lambda: mlp(nn.Tanh()),
    "MaxPool CNN": pooled,
    "residual CNN with BatchNorm": Residual,
    "small ViT": SmallTransformer,
}


def lipschitz_radii(graph: NetworkGraph, x: Tensor, y: Tensor, guess: Tensor) -> Tensor:
    """The largest r with min_j (s_y − s_j)/β_j(r) ≥ r, β_j bounding the slope of the difference on the ball of r."""
    zero = torch.zeros(len(x), dtype=torch.float64)
    level = gap_bounds(graph, x, y, zero, 2.0)

    def gap(radius: Tensor, index: Tensor) -> Tensor:
        steep = lipschitz_bounds(graph, x[index], y[index], radius, 2.0, None)
        left = level[index] - radius.unsqueeze(1) * steep
        return torch.where(level[index].isinf(), math.inf, left).amin(1)

    return largest_radius(gap, level=level.amin(1), guess=guess, rtol=1e-2)


def table(points: int, penalties: tuple[float, ...]) -> None:
    data = digits()
    for name, make in NETWORKS.items():
        for penalty in (
            penalties if name in ("ReLU MLP", "MaxPool CNN", "residual CNN with BatchNorm") else (0.0,)
        ):
            net = trained(make, data, penalty=penalty)
            x, y = data[2][:points], data[3][:points]
            right = net(x).argmax(1) == y
            x, y = x[right].double(), y[right]
            row(name if not penalty else f"{name}, penalty {penalty:g}", net, x.float(), y)


def row(name: str, net: nn.Module, x: Tensor, y: Tensor) -> None:
    graph = read_graph(Classifier(net), net, x)
    attacked = robust_accuracy(net, x, y, eps=1e3, attack="fast", certify=False, progress=False).distance
    start = time.perf_counter()
    plain = certified_radii(graph, x, y, 2.0)
    seconds = [time.perf_counter() - start]
    found = {"plain": plain}
    for label, coupled in (("slopes", False), ("ball", True)):
        start = time.perf_counter()
        found[label] = refined_radii(LinearBounds(graph, 2.0), x.double(), y, plain, coupled=coupled)
        seconds.append(seconds[0] + time.perf_counter() - start)
    found["Lipschitz"] = lipschitz_radii(graph, x, y, plain.clamp(min=1e-9))
    above = {label: int((radii > attacked * (1 + 1e-6)).sum()) for label, radii in found.items()}
    shares = "  ".join(f"{label} {float((radii / attacked).median()):.3f}" for label, radii in found.items())
    eps = float(attacked.median()) / 2
    standing = {label: float((radii >= eps).double().mean()) for label, radii in found.items()}
    accuracy = "  ".join(f"{label} {share:.2f}" for label, share in standing.items())
    gain = float(found["ball"].mean() / plain.mean())
    print(
        f"{name}: {len(x)} digits, attacked at {float(attacked.median()):.3f} (median), above it {sum(above.values())}"
    )
    print(f"    certified/attacked   {shares}   mean radius, ball to plain ×{gain:.2f}")
    print(f"    certified at {eps:.3f}   {accuracy}  attack {float((attacked > eps).double().mean()):.2f}")
    print(f"    seconds: plain {seconds[0]:.1f}, slopes {seconds[1]:.1f}, ball {seconds[2]:.1f}", flush=True)


def pace() -> None:
    """Seconds of certified radii against the number of points."""
    data = digits()
    net = trained(NETWORKS["ReLU MLP"], data)
    times = []
    for count in (25, 50, 100, 200):
        x, y = data[2][:count], data[3][:count]
        graph = read_graph(Classifier(net), net, x)
        start = time.perf_counter()
        plain = certified_radii(graph, x, y, 2.0)
        middle = time.perf_counter()
        refined_radii(LinearBounds(graph, 2.0), x.double(), y, plain)
        times.append((count, middle - start, time.perf_counter() - middle))
    slope = math.log(sum(times[-1][1:]) / sum(times[0][1:])) / math.log(times[-1][0] / times[0][0])
    for count, plain_time, more in times:
        print(f"ReLU MLP, {count} digits: {plain_time:.1f} s plain, {more:.1f} s for the ball")
    print(f"growth in points with slope {slope:.2f}")


def soundness(points: int) -> None:
    total = count = 0
    for name in ARCHITECTURES:
        found = 0
        few = max(4, points // (len(ARCHITECTURES) * 7)) if name != "attention" else 6
        for norm in (1.0, 2.0, math.inf):
            found += violations(name, points=few, norm=norm, seed=1)
        for unit in (1e-9, 1e9):
            for norm in (2.0, math.inf):
                found += violations(name, points=few, norm=norm, unit=unit, seed=2)
        found += violations(name, points=few, norm=2.0, seed=3, single=True)
        count += 8 * few
        total += found
        print(f"{name}: {found} violations", flush=True)
    print(
        f"{total} violations: {len(ARCHITECTURES)} architectures, {count} samples, each at four radii and 18 points"
    )


def narrow(nets: int) -> None:
    """Two layers against the exact radius, three against the shortest example of all attacks."""
    for widths in ((10,), (8, 8)):
        shares: dict[str, list[Tensor]] = {"plain": [], "ball": [], "cases": []}
        seconds = 0.0
        for seed in range(nets):
            torch.manual_seed(seed)
            layers: list[nn.Module] = []
            for before, after in zip((5, *widths), (*widths, 3), strict=True):
                layers += [nn.Linear(before, after), nn.ReLU()]
            net = nn.Sequential(*layers[:-1]).double().requires_grad_(False)
            x = torch.rand(6, 5, dtype=torch.float64)
            y = net(x).argmax(1)
            found = robustness(net, x, y, exact="auto")
            truth = torch.where(found.exact.isnan(), found.attacked, found.exact)
            bounds = LinearBounds(read_graph(Classifier(net), net, x), 2.0)
            plain = certified_radii(bounds.graph, x, y, 2.0)
            ball = refined_radii(bounds, x, y, plain)
            known = truth.isfinite() & (truth > 0)
            start = time.perf_counter()
            cases = radii_by_cases(bounds, x[known], y[known], 1.002 * found.attacked[known])
            seconds += time.perf_counter() - start
            for label, radii in (("plain", plain[known]), ("ball", ball[known]), ("cases", cases)):
                shares[label].append(radii / truth[known])
                if bool((radii > truth[known] * (1 + 1e-6)).any()):
                    print(f"seed {seed}: a radius certified by {label} is above the true one")
        means = ", ".join(f"{label} {float(torch.cat(each).mean()):.3f}" for label, each in shares.items())
        against = "exact" if len(widths) == 1 else "attacked"
        print(f"{len(widths) + 1} layers, {nets} networks: certified/{against}, mean: {means}", end=", ")
        print(f"{seconds:.0f} s case by case", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=50, help="test digits")
    parser.add_argument("--penalty", type=float, default=0.01, help="of the flatter networks")
    parser.add_argument(
        "--soundness", type=int, nargs="?", const=5000, help="samples to try to contradict proofs on"
    )
    parser.add_argument(
        "--narrow", type=int, nargs="?", const=20, help="narrow networks to compare with exact radii"
    )
    options = parser.parse_args()
    if options.soundness:
        soundness(options.soundness)
    elif options.narrow:
        narrow(options.narrow)
    else:
        table(options.points, (0.0, options.penalty))
        pace()


if __name__ == "__main__":
    main()
