"""Simplicity bias as measures: which coordinates a network uses, and how like a linear model it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from undertow.core.errors import InputError
from undertow.probe.reading import Reading, labels_for
from undertow.training.taken import StepTaken

if TYPE_CHECKING:
    from torch import Tensor, nn

    from undertow.measures.simplicity import LinearModel

__all__ = ["LinearLikeness", "RandomisedFeatures"]


@dataclass(frozen=True)
class RandomisedFeatures:
    """Accuracy after the first ``simple`` coordinates, or all the others, are taken from other points.

    Keys: ``none`` (nothing is exchanged), ``simple`` and ``complex``. A network that uses the simple ones alone
    keeps its accuracy under ``complex`` and falls to chance under ``simple``.

    >>> import torch
    >>> net = torch.nn.Linear(2, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 0.0]]))
    >>> x, y = torch.tensor([[1.0, 5.0], [-1.0, 6.0]]), torch.tensor([1, 0])
    >>> [(key, value) for key, value, _ in RandomisedFeatures()(net, x, y) if key != "simple"]
    [('none', 1.0), ('complex', 1.0)]
    """

    name: ClassVar[str] = "randomised-features"
    simple: int = 1
    seed: int = 0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        import torch

        from undertow.measures.simplicity import randomised
        from undertow.probe.checks import check_one_logit

        if not 0 < self.simple < x.shape[1]:
            raise InputError(f"simple = {self.simple} of {x.shape[1]} coordinates leaves none of one kind.")
        signs = 2.0 * labels_for(self, y).double() - 1
        generator = torch.Generator().manual_seed(self.seed)
        inputs = {
            "none": x,
            "simple": randomised(x, slice(0, self.simple), generator=generator),
            "complex": randomised(x, slice(self.simple, None), generator=generator),
        }
        for key, points in inputs.items():
            with torch.no_grad():
                scores = net(points)
            check_one_logit(self, scores, len(x))
            right = scores.double().flatten() * signs > 0
            yield key, float(right.double().mean()), None


@dataclass(frozen=True)
class LinearLikeness:
    """How like the best linear model a one-logit network is, which is fitted to the training data once.

    Readings on the probe's points: ``agree`` (share of equal decisions), ``beyond`` (agreement beyond what the
    two accuracies alone give, 0 to 1; left out where they leave no room), ``linearity`` (R² of the logit's
    linear fit), ``accuracy`` and ``linear_accuracy``.
    """

    name: ClassVar[str] = "linear-likeness"
    ridge: float = 1e-3

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> _Beside:  # noqa: ARG002
        from undertow.measures.simplicity import best_linear_model

        return _Beside(best_linear_model(x, (y > 0).long(), ridge=self.ridge), self)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        """Without a training run to follow, the linear model is fitted to the points themselves."""
        return self.begin(net, x, labels_for(self, y), learning_rate=0.0).read(net, x, y)


class _Beside:
    """A training run with the linear model of its data; that model is all there is to remember, and is refitted."""

    observes = False

    def __init__(self, model: LinearModel, measure: LinearLikeness) -> None:
        self.model, self.measure = model, measure
        self._points: Tensor | None = None

    def observe(self, net: nn.Module, taken: StepTaken) -> None:
        pass

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        import torch

        from undertow.measures.simplicity import affine_functions, agreement

        if self._points is None or not torch.equal(
            self._points, x
        ):  # a run is read on the same points all along
            self._points, self._affine = x, affine_functions(x)
        found = agreement(net, x, labels_for(self.measure, y), self.model, affine=self._affine)
        yield "agree", found.agree, None
        if found.beyond is not None:
            yield "beyond", found.beyond, None
        yield "linearity", found.linearity, None
        yield "accuracy", found.accuracy, None
        yield "linear_accuracy", found.linear_accuracy, None

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass
