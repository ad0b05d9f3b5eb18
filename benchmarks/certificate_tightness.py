"""How tight each proof in L2 is, on the same networks and points: one row of `certificates.py` for each network."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from certificate_networks import Data, conv_large, conv_small, images, mlp, pooled_cnn, trained
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
    "MLP": (lambda channels, side: mlp(nn.ReLU(), channels * side**2), 0.75),
    "ConvSmall": (conv_small, 1.25),
    "ConvLarge": (conv_large, 2.25),
}
"""How each is made, and its share of the time."""
METHODS = ("CROWN", "α-CROWN", "Lipschitz", "ours", "attack")


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


class Methods:
    """All proofs of one network, and the attack."""

    def __init__(self, net: nn.Module, x: Tensor) -> None:
        self.net, self.graph = net, read_graph(Classifier(net), net, x)
        self.crown, self.ours = LinearBounds(self.graph, 2.0, lengths=False), LinearBounds.of(self.graph, 2.0)
        self.couplings = BallCouplings.of(self.ours)

    def radii(self, proofs: Proofs, x: Tensor, y: Tensor) -> None:
        """Radii of these points by every method."""
        into, points = proofs.radii, x.double()
        plain = proofs.timed(into, "CROWN", lambda: linear_radii(self.crown, points, y))
        proofs.timed(into, "α-CROWN", lambda: refined_radii(self.crown, points, y, plain, coupled=False))
        guess = plain.clamp(min=1e-9)
        proofs.timed(into, "Lipschitz", lambda: lipschitz_radii(self.graph, x, y, guess))
        proofs.timed(into, "ours", lambda: refined_radii(self.ours, points, y, plain))
        proofs.timed(into, "attack", lambda: self.attacked(x, y))

    def at(self, eps: float, proofs: Proofs, x: Tensor, y: Tensor) -> None:
        """Which of these points each method proves at ε."""
        into, points = proofs.at_eps, x.double()
        reach = torch.full((len(x),), eps, dtype=torch.float64, device=x.device)

        def proved(bounds: LinearBounds, effort: Effort) -> Tensor:
            return refined_gaps(bounds, points, y, reach, effort).lower.amin(1) > 0

        def flat_enough() -> Tensor:
            level = gap_bounds(self.graph, x, y, torch.zeros_like(reach), 2.0)
            return (level - eps * lipschitz_bounds(self.graph, x, y, reach, 2.0, None)).amin(1) > 0

        proofs.timed(into, "CROWN", lambda: proved(self.crown, Effort(steps=0)))
        proofs.timed(into, "α-CROWN", lambda: proved(self.crown, Effort(until=0.0)))
        proofs.timed(into, "Lipschitz", flat_enough)
        proofs.timed(into, "ours", lambda: proved(self.ours, Effort(self.couplings, until=0.0)))
        proofs.timed(into, "attack", lambda: self.attacked(x, y) > eps)

    def attacked(self, x: Tensor, y: Tensor) -> Tensor:
        """The lengths of the shortest adversarial examples found."""
        found = robust_accuracy(self.net, x, y, eps=1e3, attack="fast", certify=False, progress=False)
        return found.distance


def in_growing_batches(count: int, first: int, deadline: float, work: Callable[[slice], None]) -> int:
    """How many of the points there was time for: batches grow fourfold while as many more seconds are left."""
    done, size = 0, first
    while done < count:
        some, start = slice(done, min(done + size, count)), time.perf_counter()
        work(some)
        took, done = time.perf_counter() - start, some.stop
        size = min(4 * (some.stop - some.start), count - done)
        left = deadline - time.perf_counter()
        if size and took * size / (some.stop - some.start) > left:
            size = int(left / took * (some.stop - some.start))
            if size < 1:
                break
    return done


def compare(
    name: str, net: nn.Module, x: Tensor, y: Tensor, *, eps: float, deadline: float, points: int, first: int
) -> None:
    """Print what every method proves of the first points, as many as there is time for: at ε, then radii."""
    right = net(x).argmax(1) == y
    clean, x, y = float(right.double().mean()), x[right], y[right]
    methods, proofs, begin = Methods(net, x[:4]), Proofs(), time.perf_counter()
    half = begin + 0.35 * (deadline - begin)
    count = min(points, len(x))
    at_eps = in_growing_batches(count, first, half, lambda some: methods.at(eps, proofs, x[some], y[some]))
    few = in_growing_batches(count, first, deadline, lambda some: methods.radii(proofs, x[some], y[some]))
    radii = {label: torch.cat(proofs.radii[label]) for label in METHODS}
    above = sum(int((each > radii["attack"] * (1 + 1e-6)).sum()) for each in radii.values())
    shown = {label: clean * float(torch.cat(proofs.at_eps[label]).double().mean()) for label in METHODS}
    plain = radii["CROWN"].mean()
    print(f"{name}: accuracy {clean:.3f}; proved above an example: {above}")
    print(f"    accuracy at {eps:g} ({at_eps} points)   " + _listed(shown))
    means = {label: float(each.mean()) for label, each in radii.items()}
    gain, slopes = (float(radii[label].mean() / plain) for label in ("ours", "α-CROWN"))
    print(
        f"    mean radius ({few} points)   {_listed(means)}   ours ×{gain:.2f}, slopes ×{slopes:.2f} of CROWN"
    )
    shares = {label: float((each / radii["attack"]).median()) for label, each in radii.items()}
    print(f"    of the attack, median   {_listed(shares)}")
    print(
        "    seconds   " + "  ".join(f"{label} {proofs.seconds[label]:.1f}" for label in METHODS), flush=True
    )


def _listed(values: dict[str, float]) -> str:
    return "  ".join(f"{label} {value:.3f}" for label, value in values.items())


def tightness(
    device: str,
    data_sets: Sequence[str],
    networks: Sequence[str],
    penalties: Sequence[float],
    *,
    seconds: float,
    limit: int | None,
    epochs: int,
    points: int,
) -> None:
    """The table, data set by data set, in about so many seconds: each network has its share of those that are left."""
    cells = [(name, label, penalty) for name in data_sets for label in networks for penalty in penalties]
    end, loaded = time.perf_counter() + seconds, {}
    for place, (name, label, penalty) in enumerate(cells):
        start, (make, share) = time.perf_counter(), NETWORKS[label]
        shares = sum(NETWORKS[other][1] for _, other, _ in cells[place:])
        deadline = start + (end - start) * share / shares
        if name not in loaded:
            loaded = {name: images(name, device, limit=limit)}
        data: Data = loaded[name]
        channels, side = data[0].shape[1:3]
        net = trained(partial(make, channels, side), data, epochs=epochs, penalty=penalty, batch=512)
        size = sum(weight.numel() for weight in net.parameters()) / 1e6
        title = f"{name}, {label} ({size:.2f} million parameters), penalty {penalty:g}"
        title += f", trained in {time.perf_counter() - start:.0f} s"
        first = {"cpu": 1, "cuda": 2 if label == "ConvLarge" else 16}[device.split(":")[0]]
        compare(title, net, *data[2:], eps=EPS[name], deadline=deadline, points=points, first=first)


def accuracy_of_many(device: str, count: int, *, limit: int | None, epochs: int, seconds: float) -> None:
    """Seconds of certified accuracy of MNIST at one ε: ConvSmall, and while there is time the study of margins' CNN."""
    data = images("mnist", device, limit=limit, points=count)
    for label, make, eps, first in (
        ("ConvSmall", conv_small, 0.5, max(1, count // 10)),
        ("CNN with pooling", pooled_cnn, 0.1, max(1, count // 100)),
    ):
        net = trained(partial(make, 1, 28), data, epochs=epochs, batch=512)

        def look(some: slice, net: nn.Module = net, label: str = label, eps: float = eps) -> None:
            start = time.perf_counter()
            found = certified_accuracy(net, data[2][some], data[3][some], eps=eps)
            print(
                f"{label}: certified accuracy of {len(data[2][some])} points at {eps:g}: {found.value:.3f} of "
                f"{found.clean:.3f}, {time.perf_counter() - start:.1f} s",
                flush=True,
            )

        look(slice(first))  # libraries are loaded in it
        if label == "ConvSmall":
            look(slice(count))
        else:
            in_growing_batches(count, first, time.perf_counter() + seconds, look)
