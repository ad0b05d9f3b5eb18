"""A network's scores and margins on many points, in float64 and in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError, ModelError
from undertow.core.losses import Loss, labels_of_classes, prepare_labels
from undertow.core.network_copies import copy_in
from undertow.core.numbered_samples import given_beside, numbered
from undertow.core.outputs import OutputChoice, returning
from undertow.core.plain_words import in_plain_words
from undertow.core.unwrapping import as_written, runs_autocast, unwrapped

__all__ = [
    "LossName",
    "as_rows",
    "check_finite",
    "chosen_parameters",
    "chunk_for",
    "double_copy",
    "in_double",
    "loss_of",
    "margins_of",
    "pair_gaps",
    "points_for",
    "scores_of",
    "scoring_copy",
    "scoring_network",
    "scoring_samples",
    "slices",
]

LossName = Loss | Literal["auto"]
_FLOATS = {"cpu": 2**22, "cuda": 2**24}
"""Activations that one chunk may hold: a CPU takes twice the time for those that its caches do not."""


def double_copy(net: nn.Module, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A copy of the network in eval mode and in ``dtype``; the network itself is not touched."""
    if not isinstance(net, nn.Module):
        raise InputError(
            f"net must be a torch.nn.Module, not {type(net).__name__}: put the function into a module's forward."
        )
    net = unwrapped(net)
    with as_written(net.modules()):
        return copy_in(net, dtype).eval().requires_grad_(False)


def in_double(net: nn.Module) -> nn.Module:
    """The network itself where it is in eval mode and in float64, to be looked at only; else a copy that is."""
    net = unwrapped(net)
    held = [*net.parameters(), *net.buffers()]
    as_it_is = all(each.dtype == torch.float64 or not each.is_floating_point() for each in held)
    return net if as_it_is and not net.training and not runs_autocast(net) else double_copy(net)


def scoring_copy(
    net: nn.Module, dtype: torch.dtype = torch.float64, *, output: OutputChoice = None
) -> nn.Module:
    """A copy as ``double_copy`` makes it that returns one of the network's outputs: its scores."""
    copied = double_copy(net, dtype)
    returning(copied, output)
    return copied


def scoring_network(
    net: nn.Module, x: Tensor, dtype: torch.dtype = torch.float64, *, output: OutputChoice = None
) -> nn.Module:
    """The same, or the network itself, to be looked at only: one in float64 and eval mode that returns scores."""
    if isinstance(net, nn.Module) and output is None and dtype == torch.float64:
        found = in_double(net)
        points = points_for(found, x)[:1]
        with torch.no_grad(), in_plain_words(x):
            first = found(points)
        if isinstance(first, Tensor):
            return found
    return scoring_copy(net, dtype, output=output)


def scoring_samples(
    net: nn.Module,
    x: Tensor,
    dtype: torch.dtype = torch.float64,
    *,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
    copy: bool = True,
) -> tuple[nn.Module, Tensor]:
    """A copy that returns scores, or without ``copy`` what ``scoring_network`` gives, and the points as it takes them.

    Where it takes extras these are the samples' numbers.
    """
    net, x, output, beside = given_beside(net, x, output=output, extras=extras)
    if not beside and not copy:
        looked_at = scoring_network(net, x, dtype, output=output)
        return looked_at, points_for(looked_at, x)
    copied = scoring_copy(net, dtype, output=output)
    if not beside:
        return copied, points_for(copied, x)
    points, _ = numbered(copied, points_for(copied, x), beside)
    with in_plain_words(x), torch.no_grad():
        copied(points[:1])
    return copied, points


def chosen_parameters(net: nn.Module, parameters: Sequence[str]) -> dict[str, Tensor]:
    """The parameters whose names begin as one of ``parameters``, or all; a sentence where there are none."""
    named = {name: parameter.detach() for name, parameter in net.named_parameters()}
    prefixes = (parameters,) if isinstance(parameters, str) else tuple(parameters)
    chosen = {name: p for name, p in named.items() if not prefixes or name.startswith(prefixes)}
    if not named:
        raise ModelError("the network has no parameters: it has no norm that a margin could be measured in.")
    if not chosen:
        raise InputError(f"no parameter begins with {' or '.join(prefixes)}: they are {', '.join(named)}.")
    return chosen


def check_finite(scores: Tensor, x: Tensor, weights: Mapping[str, Tensor]) -> None:
    """A sentence where scores are not finite, or weights, also those that no score depends on, or their squares."""
    for name, weight in weights.items():
        if not bool(torch.isfinite(weight).all()):
            raise ModelError(f"{name} has entries that are not finite: the network diverged.")
        largest = float(weight.abs().max()) if weight.numel() else 0.0
        if largest and not 1e-150 < largest < 1e150:
            raise ModelError(
                f"{name} has entries whose squares no float64 holds: bring its scale nearer to one."
            )
    if not bool(torch.isfinite(scores).all()):
        if not bool(torch.isfinite(x).all()):
            raise InputError(
                "x has entries that are not finite, and so have the scores: leave these samples out."
            )
        dtype = next(str(weight.dtype).removeprefix("torch.") for weight in weights.values())
        raise ModelError(
            f"the network gives scores that are not finite in {dtype}: its weights are too large, or x is."
        )


def points_for(net: nn.Module, x: Tensor) -> Tensor:
    """The points on the network's device, in its precision unless they are whole numbers; a sentence where none are."""
    if not isinstance(x, Tensor) or x.dim() == 0 or len(x) == 0:
        shape = f"of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise InputError(f"x is {shape}, which holds no points: give a tensor (N, …) with one point or more.")
    like = next(net.parameters(), None)
    if like is None:
        return x
    return x.to(like) if x.is_floating_point() else x.to(like.device)


def scores_of(net: nn.Module, x: Tensor, *, chunk: int | None = None) -> Tensor:
    """Scores (N, k), with k = 1 for one logit, of points (N, …), taken ``chunk`` at a time."""
    with torch.no_grad(), in_plain_words(x):
        first = as_rows(net(x[:1]), 1)
        size = chunk_for(net, x[:1]) if chunk is None else chunk
        if len(x) <= size:
            return as_rows(net(x), len(x))
        found = x.new_empty((len(x), first.shape[1]), dtype=first.dtype)
        for part in slices(len(x), size):
            found[part] = as_rows(net(x[part]), len(x[part]))
        return found


def as_rows(scores: object, points: int) -> Tensor:
    """A network's output as (N, k)."""
    if not isinstance(scores, Tensor):
        raise ModelError(
            f"the network returns {type(scores).__name__}, not one tensor: measure a torch.nn.Module around it that "
            "returns its scores."
        )
    if scores.dim() == 0 or scores.shape[0] != points:
        raise ModelError(
            f"the network turns {points} points into shape {tuple(scores.shape)}: it must give (N,) or (N, k)."
        )
    return scores.reshape(points, -1)


def loss_of(loss: LossName, outputs: int) -> Loss:
    """``"auto"`` is the logistic loss of one logit and the cross-entropy of several."""
    return ("logistic" if outputs == 1 else "cross-entropy") if loss == "auto" else loss


def _hint(scores: Tensor, y: object) -> str:
    """How labels of a common other shape become one for each point."""
    if isinstance(y, Tensor) and y.shape == (len(scores), 1):
        return " (y.flatten() does)"
    one_hot = isinstance(y, Tensor) and scores.shape[1] > 1 and y.shape == scores.shape
    return " (of one-hot rows y.argmax(1) does)" if one_hot else ""


def margins_of(scores: Tensor, y: Tensor, loss: LossName) -> tuple[Tensor, Tensor, Loss]:
    """Margins q (N,), labels as the losses want them, and the loss by its name.

    q = y f for one logit, with labels ±1 or 0/1, and s_y − max_{j≠y} s_j for several.

    >>> margins_of(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]), "auto")[0]
    tensor([1.])
    """
    if not isinstance(y, Tensor) or y.shape != (len(scores),):
        shape = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise InputError(
            f"y is {shape}, and there are {len(scores)} points: give one label for each{_hint(scores, y)}."
        )
    outputs = scores.shape[1]
    named = loss_of(loss, outputs)
    if named == "square":
        raise InputError(
            "loss = 'square' has no margins: it does not push scores apart. Take 'auto', 'logistic', 'exponential' or "
            "'bce' for one logit, 'cross-entropy' for several."
        )
    given = y.to(scores.device)
    if named == "bce" and bool((given == -1).any()):
        given = (given + 1) / 2
    labels = labels_of_classes(given, loss=named)
    labels = prepare_labels(labels, loss=named, outputs=outputs, dtype=scores.dtype)
    return pair_gaps(scores, labels, named).amin(1), labels, named


def pair_gaps(scores: Tensor, labels: Tensor, loss: Loss) -> Tensor:
    """s_y − s_j for every point n and rival j, (N, k), infinite at j = y; y f, (N, 1), for one logit."""
    if loss != "cross-entropy":
        signs = 2 * labels - 1 if loss == "bce" else labels
        return scores * signs[:, None]
    own = labels[:, None]
    return (scores.gather(1, own) - scores).scatter(1, own, torch.inf)


def slices(count: int, size: int) -> Iterator[slice]:
    """0 … count in slices of at most ``size``."""
    if not isinstance(size, int) or size < 1:
        raise InputError(f"chunk = {size!r} must be a whole number of points, 1 or more.")
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def chunk_for(net: nn.Module, sample: Tensor) -> int:
    """How many points one pass takes, given one as (1, …): so many that their activations fit."""
    with torch.no_grad():
        room = _FLOATS.get(sample.device.type, _FLOATS["cuda"])
        return max(1, min(4096, room // _floats_per_sample(net, sample)))


def _floats_per_sample(net: nn.Module, sample: Tensor) -> int:
    """How many numbers the modules without children give for one sample, given as (1, …)."""
    sizes: list[int] = [sample.numel()]

    def note(module: nn.Module, inputs: object, output: object) -> None:  # noqa: ARG001
        sizes.append(output.numel() if isinstance(output, Tensor) else 0)

    leaves = [module for module in net.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(note) for module in leaves]
    try:
        net(sample)
    finally:
        for hook in hooks:
            hook.remove()
    return max(1, sum(sizes))
