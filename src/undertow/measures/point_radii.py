"""The radius of every point, from all sides, beside the distance to the nearest point of another class."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from undertow.adversary.classifier import Classifier
from undertow.adversary.closest import closest_examples
from undertow.adversary.exact.row_space import in_row_space
from undertow.adversary.robustness import robustness
from undertow.core.errors import InputError
from undertow.core.scoring import in_double, pair_gaps, scores_of
from undertow.core.sections import Seed, Switch
from undertow.measures.ball_radii import ball_radii
from undertow.measures.layer_slopes import gap_slopes
from undertow.measures.named_measure import InputRange, NamedMeasure
from undertow.measures.narrow_radii import narrow_radii
from undertow.measures.raw_inputs import taken_for_logits
from undertow.measures.reading import Reading
from undertow.training.taken import StepTaken

__all__ = ["PointRadii", "PointRadiiTracker", "half_distances", "product_radii"]


def half_distances(x: Tensor, y: Tensor, others: Tensor, labels: Tensor, *, norm: float = 2.0) -> Tensor:
    """½ min ‖x_i − x'_j‖ over the points x' of another class, (N,): no radius of a classifier that is right on x' and
    at x_i can be larger than twice that; a nearest-neighbour classifier of well-separated points has about this one.

    >>> half_distances(torch.zeros(1, 1), torch.tensor([0]), torch.tensor([[1.0], [4.0]]), torch.tensor([0, 1]))
    tensor([2.], dtype=torch.float64)
    >>> line, classes = torch.tensor([[0.0], [1.0], [4.0]]), torch.tensor([0, 0, 1])
    >>> half_distances(line[:2], classes[:2], line, classes).tolist()
    [2.0, 1.5]
    """
    between = torch.cdist(x.double().flatten(1), others.double().flatten(1), p=norm)
    found: Tensor = between.masked_fill(y[:, None] == labels[None, :], torch.inf).amin(1) / 2
    return found


def product_radii(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """min_j q_j/β_j with β from the product of layer norms (``gap_slopes``), 0 for errors: certified, and crude.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[3.0, 4.0]]))
    >>> product_radii(net, torch.ones(1, 2), torch.tensor([1])).tolist()
    [1.4]
    """
    scores = scores_of(in_double(net), x.detach().double())
    slopes = gap_slopes(net).to(scores)
    if scores.shape[1] == 1:
        gaps = pair_gaps(scores, torch.where(y > 0, 1.0, -1.0).to(scores), "logistic")
        return (gaps[:, 0] / slopes[0, 0]).clamp(min=0)
    gaps = pair_gaps(scores, y, "cross-entropy")
    ratios = torch.where(gaps.isfinite(), gaps / slopes[y], torch.inf)
    return ratios.amin(1).clamp(min=0)


class PointRadii(NamedMeasure):
    """certified ≤ radius ≤ attacked of each of the probe's points, by its number: ``attacked:0``, ``attacked:1``, ….

    Readings for point i: ``margin:i``, q_i; ``half:i``, half the L2 distance to the nearest point trained on of another
    class; ``attacked:i``, the norm of the closest adversarial example found; ``certified:i``, proved, where there is
    a proof; ``product:i``, q/β with β the product of the layers' spectral norms (chains of layers, L2); ``ball:i`` with
    ``ball``, max_r min(r, q/β) with β proved over the ball of radius r, see ``ball_radii``; ``exact:i``
    with ``exact`` for two-layer networks without a box with at most eight neurons against a decision. All are 0 for
    points that are misclassified.

    ``box`` are the smallest and the largest valid input; ``shorten=False`` makes the attack quicker and a little
    weaker; ``refine=False`` keeps the certificate to plain linear bounds, in a tenth of its time; ``attack=False``
    leaves both out, where radii are ``exact``; ``prove=False`` leaves the certificate out alone, which large
    convolutional networks take minutes for.
    """

    name: ClassVar[str] = "point-radii"
    norm: Literal["2", "inf"] = "2"
    exact: Switch = False
    ball: Switch = False
    box: InputRange = ()
    shorten: Switch = True
    refine: Switch = True
    prove: Switch = True
    attack: Switch = True
    seed: Seed = 0

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> PointRadiiTracker:  # noqa: ARG002
        """A tracker of one training run, which remembers the points trained on."""
        if self.exact and (self.box or self.norm != "2"):
            raise InputError(
                f"{self.name} solves for L2 radii without a box: leave box and norm out, or exact."
            )
        if not (self.exact or self.attack):
            raise InputError(
                f"{self.name} has nothing to find without attack and without exact: switch one on."
            )
        return PointRadiiTracker(self, x, y)


class PointRadiiTracker:
    """One training run: its points are all there is to remember, and they come again with it."""

    observes = False

    def __init__(self, options: PointRadii, x: Tensor, y: Tensor) -> None:
        # Losses of one logit are trained with ±1, and the probe's labels are 0 and 1.
        classes = (y > 0).long() if bool((y < 0).any()) else y.long()
        self.options, self._x, self._y = options, x.detach(), classes.detach()

    def observe(self, net: nn.Module, taken: StepTaken) -> None:
        """Steps are nothing to it."""

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        return iter(self.batched([self], [net], x, y)[0])

    @staticmethod
    def batched(
        trackers: Sequence[PointRadiiTracker], networks: Sequence[nn.Module], x: Tensor, y: Tensor | None
    ) -> list[list[Reading]]:
        """All networks attacked along one member axis; where radii are solved, each in its own row space."""
        first = trackers[0]
        if y is None:
            raise InputError(f"{first.options.name} needs labels: give the probe y beside x.")
        labels = y.to(x.device)
        half = half_distances(x, labels, first._x.to(x), first._y.to(labels))
        if first.options.exact:
            sides = [first._solved(net, x, labels) for net in networks]
        else:
            sides = first._attacked(networks, x, labels)
        balls = first._balls(networks, x, labels, sides, half) if first.options.ball else None
        readings: list[list[Reading]] = []
        for member, (net, own) in enumerate(zip(networks, sides, strict=True)):
            own["half"] = half
            if first.options.norm == "2":
                own["product"] = product_radii(net, x, labels)
            if balls is not None:
                own["ball"] = balls[member]
            scores = scores_of(in_double(net), x.detach().double())
            binary = scores.shape[1] == 1
            signs = torch.where(labels > 0, 1.0, -1.0).to(scores) if binary else labels
            own["margin"] = pair_gaps(scores, signs, "logistic" if binary else "cross-entropy").amin(1)
            readings.append(
                [
                    (f"{side}:{i}", v, None)
                    for side, found in own.items()
                    for i, v in enumerate(found.tolist())
                ]
            )
        return readings

    def _balls(
        self,
        networks: Sequence[nn.Module],
        x: Tensor,
        y: Tensor,
        sides: Sequence[Mapping[str, Tensor]],
        half: Tensor,
    ) -> Tensor | None:
        """Where there is a proof for every ball, what it gives; inputs are free here, as the norm of a gradient is."""
        reach = torch.stack([own.get("attacked", half).double() for own in sides])
        with taken_for_logits():
            return ball_radii(networks, x, y, reach, norm=float(self.options.norm))

    def _attacked(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor) -> list[dict[str, Tensor]]:
        options = self.options
        box = (options.box[0], options.box[1]) if options.box else None
        if not options.prove:
            settings = {"norm": float(options.norm), "bounds": box, "seed": options.seed}
            rounds = {"rounds": 4, "restarts": 3} if options.shorten else {"rounds": 1, "restarts": 0}
            with taken_for_logits():
                distances, _ = closest_examples(list(networks), x, y, **settings, **rounds)  # type: ignore[arg-type]
            return [{"attacked": own} for own in distances.double()]
        with taken_for_logits():
            found = robustness(
                Classifier(list(networks), bounds=box),
                x,
                y,
                norm=float(options.norm),
                exact=False,
                seconds=math.inf,
                shorten=options.shorten,
                refine=options.refine,
                seed=options.seed,
            )
        return [
            {"attacked": found.attacked[at]}
            | ({"certified": found.certified[at]} if bool(found.proved[at].all()) else {})
            for at in range(len(networks))
        ]

    def _solved(self, net: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        small, points = in_row_space(net, x)
        classifier = Classifier(small, readout="logit" if small(points[:1]).shape[-1] == 1 else "classes")
        if not self.options.attack:
            unknown = torch.full((len(points),), torch.inf).to(points)
            solved = narrow_radii(classifier, points, y, unknown, name=self.options.name)
            return {} if solved is None else {"exact": solved}
        with taken_for_logits():
            options = {name: getattr(self.options, name) for name in ("shorten", "refine", "seed")}
            found = robustness(classifier, points, y, exact=False, seconds=math.inf, **options)
        radii = narrow_radii(classifier, points, y, found.attacked, name=self.options.name)
        if found.contradictions:
            warnings.warn("point-radii contradicts itself: " + "; ".join(found.contradictions), stacklevel=2)
        sides = {"attacked": found.attacked, "certified": found.certified}
        return sides if radii is None else {**sides, "exact": radii}

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass
