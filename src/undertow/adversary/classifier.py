"""What an attack sees of a network: raw inputs in, class scores out.

A `Classifier` owns everything that attack libraries leave to chance: the normalisation (so that ε is
always in raw input units), the box of valid inputs (or none), and the read-out that turns one logit,
two logits, k logits or a difference of sums of logits into scores of classes.

The decision rule is the sign of the margin q = s_y − max_{j≠y} s_j: **correct means q > 0**, so a tie is
an error. This makes the set of adversarial examples closed, so that the distance to it is attained, and
it makes a one-logit network f and the two-class network (0, f) the same classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from undertow.adversary.radii import check_bounds
from undertow.adversary.readout import READOUTS, Groups, readout_matrix
from undertow.adversary.sample_checks import as_labels, check_inputs
from undertow.adversary.scorer import Scorer, margins_of
from undertow.adversary.stacked_networks import stacked
from undertow.core.errors import InputError, ModelError, nearest
from undertow.core.outputs import picked_output
from undertow.core.plain_checkpoints import plain_checkpoints
from undertow.core.plain_words import check_tensor, gradients_in_plain_words, in_plain_words
from undertow.core.unwrapping import as_written, unwrapped

__all__ = ["Classifier", "Net", "as_classifier"]

Net = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Classifier:
    """A network with its normalisation, its box of valid inputs and its read-out.

    Args:
        net: A module, any function (B, …) → (B, k), a list of modules of one architecture, or, with ``members=M``, a
            function (M, B, …) → (M, B, k). It is applied to z = (x − mean) / std.
        mean: A number, one number per channel, or a tensor that broadcasts against one sample.
        std: In the same way, above 0.
        bounds: The smallest and the largest valid raw input; None leaves inputs free.
        readout: "logit" (label 1 when the single output is positive), "classes", `Groups`, or "auto", which looks at
            the outputs.
        members: How many networks a function is of; None where it is one network, or a list.
        unit_norm: Whether the network is applied to z/‖z‖₂, every sample by its own norm, as one trained on such
            inputs expects.

    >>> net = Classifier(lambda x: x.sum(1, keepdim=True))
    >>> net.margins(torch.tensor([[1.0, 2.0]]), torch.tensor([0]))
    tensor([-3.])
    >>> Classifier(net.net, unit_norm=True).margins(torch.tensor([[3.0, 4.0]]), torch.tensor([1]))
    tensor([1.4000])
    """

    net: Net | Sequence[nn.Module]
    mean: float | Sequence[float] | Tensor = 0.0
    std: float | Sequence[float] | Tensor = 1.0
    bounds: tuple[float, float] | None = None
    readout: str | Groups = "auto"
    members: int | None = field(default=None, kw_only=True)
    unit_norm: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.readout, str) and self.readout not in READOUTS:
            raise InputError(f"readout={self.readout!r} is unknown: {nearest(self.readout, READOUTS)}")
        if self.bounds is not None:
            object.__setattr__(self, "bounds", check_bounds(self.bounds))
        if bool((torch.as_tensor(self.std) <= 0).any()):
            raise InputError("std must be positive everywhere")

        if isinstance(self.net, nn.Module) and self.members is None:
            object.__setattr__(self, "net", unwrapped(self.net))
        elif not callable(self.net):
            inside = [unwrapped(net) if isinstance(net, nn.Module) else net for net in self.net]
            object.__setattr__(self, "net", inside)

    @property
    def several(self) -> bool:
        """Whether results carry a member axis."""
        return self.members is not None or not callable(self.net)

    @property
    def modules(self) -> list[nn.Module]:
        """The networks one by one, where they are modules."""
        if isinstance(self.net, nn.Module) and self.members is None:
            return [self.net]
        return [] if callable(self.net) else list(self.net)

    def margins(self, x: Tensor, y: Tensor) -> Tensor:
        """q(x_i) = s_y − max_{j≠y} s_j, shape (B,), or (M, B) with a member axis."""
        y = as_labels(y, x)
        with self.scoring(x, y) as scorer:
            margins = margins_of(scorer.clean(x), y)
        return margins if self.several else margins[0]

    def normalisation(self, sample: Tensor) -> tuple[Tensor, Tensor]:
        """mean and std as tensors that broadcast against one sample."""
        return _like_sample(self.mean, sample, "mean"), _like_sample(self.std, sample, "std")

    @contextmanager
    def scoring(self, x: Tensor, y: Tensor | None = None, *, check: bool = True) -> Iterator[Scorer]:
        """A `Scorer` for inputs like x, with the networks in eval mode and without autocast while the block runs.

        In bfloat16 products a margin is off by more than an attack moves it, and a radius says nothing.
        """
        check_tensor(x)
        modules = [m for net in [self.net] if isinstance(net, nn.Module) for m in net.modules()]
        modules += [m for net in self.modules for m in net.modules()]
        was_training = [(module, module.training) for module in modules]
        try:
            for module in modules:
                module.training = False
            with (
                torch.autocast(x.device.type, enabled=False),
                as_written(modules),
                plain_checkpoints(),
                gradients_in_plain_words(),
            ):
                scorer = self._scorer(x)
                if check:
                    check_inputs(scorer, x, y)
                yield scorer
        finally:
            for module, training in was_training:
                module.training = training

    def _scorer(self, x: Tensor) -> Scorer:
        if x.ndim < 2 or len(x) == 0 or not x.is_floating_point():
            found = (
                f"x must be a batch (B, …) of floating-point samples; got shape {tuple(x.shape)} of {x.dtype}"
            )
            embeds = any(isinstance(m, nn.Embedding) for net in self.modules for m in net.modules())
            remedy = "x.float()" if x.ndim > 1 else "x[None] for a single sample"
            remedy = remedy if x.numel() else "at least one sample"
            if embeds and x.ndim > 1 and not x.is_floating_point():
                remedy = (
                    "a module that takes the vectors of the embedding and those vectors, since token ids have no "
                    "neighbours (undertow.robustness takes the ids and does this by itself)"
                )
            raise InputError(f"{found}: give {remedy}")
        net = self.net
        if not callable(net):
            function, members = stacked(net), len(net)
        elif self.members is not None:
            function, members = net, self.members
        else:
            function, members = _one_member(net), 1
        mean, std = self.normalisation(x[0])
        trivial = bool((mean == 0).all()) and bool((std == 1).all())

        def outputs(batch: Tensor) -> Tensor:
            seen = batch if trivial else (batch - mean) / std
            return function(_unit_norm(seen) if self.unit_norm else seen)

        with torch.no_grad(), in_plain_words(x):
            sample = outputs(x[:1].expand(members, *x[:1].shape))
        if not sample.is_floating_point():
            raise ModelError(f"the network returns {sample.dtype}: attack its logits, not its decisions.")
        if sample.shape[:2] != (members, 1) or sample.ndim not in (2, 3):
            raise ModelError(
                f"the network maps one sample to shape {tuple(sample.shape[1:])}; (B,) or (B, k) is needed: "
                "choose scores where there is output=…, for example output=lambda out: out[:, -1], or in a module of "
                "your own"
            )
        width = 1 if sample.ndim == 2 else sample.shape[2]
        readout = readout_matrix(self.readout, width)
        classes = width if readout is None else len(readout)
        readout = None if readout is None else readout.to(sample)
        return Scorer(outputs, members, tuple(x.shape[1:]), classes, readout, self.bounds)


def as_classifier(net: Classifier | Net | Sequence[nn.Module], **options: Any) -> Classifier:
    """``net`` itself when it is a `Classifier`, else one around it with the options that were given."""
    given = {name: value for name, value in options.items() if value is not None}
    if not isinstance(net, Classifier):
        return Classifier(net, **given)
    if given:
        raise InputError(f"{', '.join(given)}: set these on the Classifier itself, not in the call")
    return net


def _unit_norm(batch: Tensor) -> Tensor:
    """Every sample of (M, B, …) by its own norm; zero, which has no direction, stays zero."""
    norm: Tensor = torch.linalg.vector_norm(batch.flatten(2), dim=2).clamp(min=torch.finfo(batch.dtype).tiny)
    return batch / norm.reshape(*norm.shape, *(1,) * (batch.ndim - 2))


def _one_member(net: Net) -> Net:
    # A copy goes in: a network that works in place on its input would change the samples.
    return lambda x: picked_output(net(x[0].clone())).unsqueeze(0)


def _like_sample(value: float | Sequence[float] | Tensor, sample: Tensor, name: str) -> Tensor:
    tensor = torch.as_tensor(value, dtype=sample.dtype, device=sample.device)
    if tensor.ndim == 1 and sample.ndim == 3 and len(tensor) == len(sample):
        tensor = tensor[:, None, None]
    try:
        tensor.expand_as(sample)
    except RuntimeError:
        raise InputError(
            f"{name} of shape {tuple(tensor.shape)} does not broadcast against a sample {tuple(sample.shape)}"
        ) from None
    return tensor
