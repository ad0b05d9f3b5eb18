"""How tight each proof in L2 is, on the same networks and points: one row of `certificates.py` for each network."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from certificate_networks import conv_large, conv_small, images, mlp, trained
from torch import Tensor, nn

from undertow.adversary import Classifier, robust_accuracy
from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.bracket import Reach, largest_radius
from undertow.adversary.certificates.certified import gap_bounds, linear_radii
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.lipschitz import lipschitz_bounds
from undertow.adversary.certificates.network_graph import NetworkGraph, read_graph
from undertow.adversary.certificates.refined import Effort, refined_gaps, refined_radii
from undertow.adversary.certified_accuracy import certified_accuracy

EPS = {"mnist": 0.5, "cifar10": 0.1}  # L2, in units of a pixel's range
NETWORKS: dict[str, tuple[Callable[[int, int], nn.Module], float]] = {
    "MLP": (lambda channels, side: mlp(nn.ReLU(), channels * side**2), 1.0),
    "ConvSmall": (conv_small, 1.0),
    "ConvLarge": (conv_large, 2.0),
}
"""How each is made, and its share of the time."""


@dataclass
class Proofs:
    """Of one network, method by method: radii (n,) of some points, those proved at ε among others, and seconds."""

    radii: dict[str, list[Tensor]] = field(default_factory=dict)
    at_eps: dict[str, list[Tensor]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def timed(self, into: dict[str, list[Tensor]], name: str, work: Callable[[], Tensor]) -> Tensor:
        start = time.perf_counter()
        found = work()
        into.setdefault(name, []).append(found.cpu())  # which also waits for a GPU
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        return found


def lipschitz_radii(graph: NetworkGraph, x: Tensor, y: Tensor, guess: Tensor) -> Tensor:
    """The largest r with min_j (s_y − s_j)/β_j(r) ≥ r, β_j bounding the slope of the difference on the ball of r."""
    level = gap_bounds(graph, x, y, torch.zeros_like(guess), 2.0)

    def reach(radius: Tensor, index: Tensor) -> Reach:
        steep = lipschitz_bounds(graph, x[index], y[index], radius, 2.0, None)
        each = torch.where(steep > 0, level[index] / steep.clamp(min=1e-300), math.inf)
        return Reach.of(radius, each.amin(1))

    return largest_radius(reach, guess=guess, rtol=1e-2)


def prove_radii(proofs: Proofs, net: nn.Module, graph: NetworkGraph, x: Tensor, y: Tensor) -> None:
    """Radii of these points by every method, and by attack."""
    crown, ours = LinearBounds(graph, 2.0, lengths=False), LinearBounds(graph, 2.0)
    into, points = proofs.radii, x.double()
    plain = proofs.timed(into, "CROWN", lambda: linear_radii(crown, points, y))
    proofs.timed(into, "α-CROWN", lambda: refined_radii(crown, points, y, plain, coupled=False))
    proofs.timed(into, "ours", lambda: refined_radii(ours, points, y, plain))
    proofs.timed(into, "Lipschitz", lambda: lipschitz_radii(graph, x, y, plain.clamp(min=1e-9)))
    proofs.timed(into, "attack", lambda: attacked(net, x, y))


def attacked(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The lengths of the shortest adversarial examples found."""
    return robust_accuracy(net, x, y, eps=1e3, attack="fast", certify=False, progress=False).distance


def prove_at(proofs: Proofs, net: nn.Module, graph: NetworkGraph, x: Tensor, y: Tensor, eps: float) -> None:
    """Which of these points each method proves at ε."""
    crown, ours = LinearBounds(graph, 2.0, lengths=False), LinearBounds(graph, 2.0)
    reach = torch.full((len(x),), eps, dtype=torch.float64, device=x.device)
    into, points, couplings = proofs.at_eps, x.double(), BallCouplings(ours)

    def proved(bounds: LinearBounds, steps: int, coupled: bool) -> Tensor:
        effort = Effort(couplings if coupled else None, steps, until=0.0)
        found = refined_gaps(bounds, points, y, reach, effort)
        return found.lower.amin(1) > 0

    def flat_enough() -> Tensor:
        level = gap_bounds(graph, x, y, torch.zeros_like(reach), 2.0)
        return (level - eps * lipschitz_bounds(graph, x, y, reach, 2.0, None)).amin(1) > 0

    proofs.timed(into, "CROWN", lambda: proved(crown, 0, False))
    proofs.timed(into, "α-CROWN", lambda: proved(crown, 20, False))
    proofs.timed(into, "ours", lambda: proved(ours, 20, True))
    proofs.timed(into, "Lipschitz", flat_enough)
    proofs.timed(into, "attack", lambda: attacked(net, x, y) > eps)


def compare(
    name: str, net: nn.Module, x: Tensor, y: Tensor, *, eps: float, seconds: float, few: int, batch: int
) -> None:
    """Print what every method proves of the first points, as many as the time allows: radii of ``few`` at most."""
    right = net(x).argmax(1) == y
    clean, x, y = float(right.double().mean()), x[right], y[right]
    graph, proofs = read_graph(Classifier(net), net, x[:4]), Proofs()
    begin, done = time.perf_counter(), 0
    while done < len(x) and (done == 0 or time.perf_counter() - begin < 0.4 * seconds):
        some = slice(done, done + batch)
        prove_at(proofs, net, graph, x[some], y[some], eps)
        done += batch
    at_eps, first = min(done, len(x)), 0
    while first < min(few, len(x)) and (first == 0 or time.perf_counter() - begin < seconds):
        some = slice(first, min(first + batch, few))
        prove_radii(proofs, net, graph, x[some], y[some])
        first += batch
    radii = {label: torch.cat(parts) for label, parts in proofs.radii.items()}
    above = sum(int((each > radii["attack"] * (1 + 1e-6)).sum()) for each in radii.values())
    shown = {label: clean * float(torch.cat(parts).double().mean()) for label, parts in proofs.at_eps.items()}
    gain = float(radii["ours"].mean() / radii["CROWN"].mean())
    slopes = float(radii["α-CROWN"].mean() / radii["CROWN"].mean())
    print(f"{name}: accuracy {clean:.3f}; proved above an example: {above}")
    print(
        f"    accuracy at {eps:g} ({at_eps} points)   " + "  ".join(f"{k} {v:.3f}" for k, v in shown.items())
    )
    print(
        f"    mean radius ({len(radii['ours'])} points)   "
        + "  ".join(f"{label} {float(each.mean()):.3f}" for label, each in radii.items())
        + f"   ours ×{gain:.2f}, slopes ×{slopes:.2f} of CROWN"
    )
    print(
        "    certified/attacked, median   "
        + "  ".join(
            f"{k} {float((each / radii['attack']).median()):.3f}"
            for k, each in radii.items()
            if k != "attack"
        )
    )
    print("    seconds   " + "  ".join(f"{k} {v:.1f}" for k, v in proofs.seconds.items()), flush=True)


def tightness(
    device: str,
    data_sets: Sequence[str],
    networks: Sequence[str],
    penalties: Sequence[float],
    *,
    seconds: float,
    limit: int | None,
    epochs: int,
    few: int,
) -> None:
    """The table, data set by data set; on a GPU also how long 1,000 points of the CNN take at one ε."""
    for name in data_sets:
        data = images(name, device, limit=limit)
        channels, side = data[0].shape[1:3]
        for label in networks:
            make, share = NETWORKS[label]
            for penalty in penalties:
                start = time.perf_counter()
                net = trained(
                    partial(make, channels, side),
                    data,
                    epochs=epochs,
                    penalty=penalty,
                    batch=256,
                )
                size = sum(weight.numel() for weight in net.parameters())
                title = f"{name}, {label} ({size / 1e6:.2f} million parameters), penalty {penalty:g}"
                title += f", trained in {time.perf_counter() - start:.0f} s"
                batch = 2 if device == "cpu" else 4 if label == "ConvLarge" else 25
                compare(
                    title,
                    net,
                    *data[2:],
                    eps=EPS[name],
                    seconds=share * seconds,
                    few=few,
                    batch=batch,
                )
                if device != "cpu" and (name, label) == ("mnist", "ConvSmall"):
                    accuracy_of_many(net, *data[2:], eps=EPS[name])


def accuracy_of_many(net: nn.Module, x: Tensor, y: Tensor, *, eps: float) -> None:
    """Seconds of certified accuracy of all points at one ε."""
    start = time.perf_counter()
    found = certified_accuracy(net, x, y, eps=eps)
    print(
        f"    certified accuracy of {len(x)} points at {eps:g}: {found.value:.3f} in "
        f"{time.perf_counter() - start:.1f} s",
        flush=True,
    )
