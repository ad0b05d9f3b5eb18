"""Certificates of the networks people have: how long, how fast, and never contradicted.

Printed are, network by network, in L2 (`certificate_tightness.py`): accuracies proved at a radius, mean radii, and
medians of what is certified as a share of the shortest adversarial example found, by linear bounds (CROWN), by the same
with slopes by ascent (α-CROWN), by ours, which couples the neurons of a layer by the ball, and by Lipschitz bounds.

    python benchmarks/certificates.py                     scikit-learn's digits, about five minutes on one CPU core
    python benchmarks/certificates.py --soundness         26 architectures, 5,000 samples, no violation allowed
    python benchmarks/certificates.py --narrow            narrow networks against their exact radii
    python benchmarks/certificates.py --pace              seconds against the number of points
    python benchmarks/certificates.py --members           ten networks as one batch, and one by one
    python benchmarks/certificates.py --tightness --device cuda             MNIST and CIFAR-10, three networks each
    python benchmarks/certificates.py --tightness --data mnist --networks MLP ConvSmall --limit 6000 --most 4
    python benchmarks/certificates.py --accuracy 1000 --device cuda         certified accuracy of 1,000 points at one ε
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from certificate_networks import Residual, SmallTransformer, dense, digits, mlp, pooled, trained
from certificate_tightness import EPS, accuracy_of_many, compare, tightness
from certificate_tightness import NETWORKS as LARGE

from tests.adversary.certificates.architectures import ARCHITECTURES, violations
from undertow.adversary import Classifier, robustness
from undertow.adversary.certificates.case_radii import radii_by_cases
from undertow.adversary.certificates.certified import certified_radii
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.network_graph import NetworkGraph, read_graph
from undertow.adversary.certificates.refined import refined_radii
from undertow.adversary.certificates.stacked_graphs import stacked_graph

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "ReLU MLP": lambda: mlp(nn.ReLU()),
    "GELU MLP": lambda: mlp(nn.GELU()),
    "tanh MLP": lambda: mlp(nn.Tanh()),
    "MaxPool CNN": pooled,
    "residual CNN with BatchNorm": Residual,
    "small ViT": SmallTransformer,
}


def table(points: int, penalties: tuple[float, ...]) -> None:
    """Medians of certified/attacked over correctly classified digits, and accuracies at one radius."""
    data = digits()
    for name, make in NETWORKS.items():
        flatter = name in ("ReLU MLP", "MaxPool CNN", "residual CNN with BatchNorm")
        for penalty in penalties if flatter else (0.0,):
            net = trained(make, data, penalty=penalty)
            title = name if not penalty else f"{name}, penalty {penalty:g}"
            x, y = data[2][:points], data[3][:points]
            compare(f"digits, {title}", net, x, y, eps=0.3, deadline=math.inf, points=points, first=points)


def pace() -> None:
    """Seconds of certified radii against the number of points, by the clock and of the processor."""
    data = digits()
    net = trained(NETWORKS["ReLU MLP"], data)
    times: list[tuple[int, float, float]] = []
    for count in (25, 50, 100, 200):
        x, y = data[2][:count], data[3][:count]
        graph = read_graph(Classifier(net), net, x)
        start, busy = time.perf_counter(), time.process_time()
        plain = certified_radii(graph, x, y, 2.0)
        first = time.process_time() - busy
        refined_radii(LinearBounds.of(graph, 2.0), x.double(), y, plain)
        times.append((count, time.process_time() - busy, time.perf_counter() - start))
        print(
            f"ReLU MLP, {count} digits: {times[-1][2]:.1f} s, of the processor {times[-1][1]:.1f} s, "
            f"{first:.1f} of them for plain linear bounds",
            flush=True,
        )
    slope = math.log(times[-1][1] / times[0][1]) / math.log(times[-1][0] / times[0][0])
    print(f"growth in points with slope {slope:.2f}")


def soundness(points: int) -> None:
    total = count = 0
    for name in ARCHITECTURES:
        found = 0
        few = max(4, points // (len(ARCHITECTURES) * 7)) if "attention" not in name else 6
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


def members(count: int) -> None:
    """Processor time of radii of several networks, one by one and as one batch, and how much these differ."""
    data = digits()
    for widths in ((16,), (16, 16), (100, 100)):
        nets = [trained(partial(dense, widths, seed), data, epochs=10) for seed in range(count)]
        for points in (4, 30):
            x = data[2][:points]
            y = [net(x).argmax(1) for net in nets]
            graphs = [read_graph(Classifier(net), net, x) for net in nets]
            start = time.process_time()
            alone = torch.stack([_radii(graph, x, own) for graph, own in zip(graphs, y, strict=True)])
            middle = time.process_time()
            stack = stacked_graph(graphs)
            assert stack is not None
            who = torch.arange(count).repeat_interleave(points)
            batched = _radii(stack, x.repeat(count, 1), torch.cat(y), who).reshape(count, points)
            first, second = middle - start, time.process_time() - middle
            apart = float(((batched - alone).abs() / alone).max())
            print(
                f"{count} networks of {widths} neurons, {points} digits: {first:.2f} s one by one, {second:.2f} s "
                f"as one batch (×{first / second:.1f}); radii differ by {apart:.1e} at most",
                flush=True,
            )


def _radii(graph: NetworkGraph, x: Tensor, y: Tensor, who: Tensor | None = None) -> Tensor:
    plain = certified_radii(graph, x, y, 2.0, who=who)
    return refined_radii(LinearBounds.of(graph, 2.0), x.double(), y, plain, who=who)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--points", type=int, default=50, help="test digits")
    add("--penalty", type=float, default=0.01, help="on ‖J‖_F², of the flatter networks")
    add("--soundness", type=int, nargs="?", const=5000, help="samples to try to contradict proofs on")
    add("--narrow", type=int, nargs="?", const=20, help="narrow networks to compare with exact radii")
    add("--pace", action="store_true", help="seconds against the number of points")
    add("--tightness", action="store_true", help="networks of several sizes on MNIST and CIFAR-10")
    add("--members", type=int, nargs="?", const=10, help="networks to prove radii of, at once and one by one")
    add(
        "--accuracy",
        type=int,
        nargs="?",
        const=1000,
        help="points to prove at one ε, and how long that takes",
    )
    add("--device", default="cpu", help="of --tightness and --accuracy")
    add("--memory", type=float, default=None, help="GiB of a GPU that may be used")
    add("--data", nargs="+", choices=EPS, default=list(EPS))
    add("--networks", nargs="+", choices=LARGE, default=list(LARGE))
    add(
        "--seconds",
        type=float,
        default=180.0,
        help="of --tightness in all, training included; the larger networks have more of them",
    )
    add("--limit", type=int, default=None, help="training images")
    add("--epochs", type=int, default=3)
    add("--most", type=int, default=200, help="points of each network, at most")
    options = parser.parse_args()
    if options.memory is not None:
        total = torch.cuda.get_device_properties(options.device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, options.memory * 2**30 / total), options.device)
    if options.soundness:
        soundness(options.soundness)
    elif options.narrow:
        narrow(options.narrow)
    elif options.pace:
        pace()
    elif options.tightness:
        tightness(
            options.device,
            options.data,
            options.networks,
            (0.0, options.penalty),
            seconds=options.seconds,
            limit=options.limit,
            epochs=options.epochs,
            points=options.most,
        )
    elif options.accuracy:
        accuracy_of_many(
            options.device,
            options.accuracy,
            limit=options.limit,
            epochs=options.epochs,
            seconds=options.seconds,
        )
    elif options.members:
        members(options.members)
    else:
        table(options.points, (0.0, options.penalty))
        pace()


if __name__ == "__main__":
    main()
