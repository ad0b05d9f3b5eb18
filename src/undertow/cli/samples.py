"""The samples that ``undertow measure`` is given: found, made to fit the network, with what it takes beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from undertow.core.errors import ConfigError, ModelError, UndertowError, nearest
from undertow.core.extras import arguments_beside_x
from undertow.core.files import read_regular
from undertow.core.outputs import OutputChoice
from undertow.core.plain_words import in_plain_words
from undertow.core.tensor_files import unpack
from undertow.data import load
from undertow.data.normalisation import NORMALISATIONS, normalised
from undertow.data.npz import read_npz
from undertow.jacobian.preconditions import prepare

__all__ = ["Samples", "samples_from"]

_NORMALISATIONS = (*NORMALISATIONS, "standardised")
_AXES = 6
_EXTRAS = "as extras={'name': rows}"


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples, their labels where there are any, which output is meant, and a row of extras for each."""

    x: Tensor
    y: Tensor | None = None
    output: OutputChoice = None
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.x)

    @property
    def options(self) -> dict[str, Any]:
        """What a measure is told beside them."""
        given = {"output": self.output, "extras": dict(self.extras) or None}
        return {name: value for name, value in given.items() if value is not None}

    def part(self, which: slice) -> Samples:
        extras = {name: rows[which] for name, rows in self.extras.items()}
        return replace(self, x=self.x[which], y=None if self.y is None else self.y[which], extras=extras)


def samples_from(
    data: str,
    net: nn.Module,
    *,
    points: int,
    label: str | None = None,
    normalise: str | None = None,
    output: str | None = None,
) -> Samples:
    """At most so many samples that the network takes.

    ``data`` is the name of a data set, whose test split is taken; a file: safetensors or NPZ with ``x`` and maybe
    ``y``, and what else the network takes by the names of its arguments, or a table with a column ``label``, whose test
    split is taken too; ``random:3x32x32`` for standard normal inputs of a shape; ``tokens:16`` for random token ids.
    ``output`` is a name, or the place in a tuple.
    """
    if normalise is not None and normalise not in _NORMALISATIONS:
        raise ConfigError(f"--normalise {normalise!r} is not known: {nearest(normalise, _NORMALISATIONS)}")
    parameter = next(net.parameters(), torch.zeros(()))
    held = _arrays_of(data)
    if label is not None and (held is not None or data.startswith(("random:", "tokens:"))):
        raise ConfigError(f"--label is for tables, and --data {data!r} is none: leave it out.")
    if held is None:
        found = _found(data, net, points, label, normalise)
    else:
        found = _of_arrays(data, held, net, points, normalise)
    x = found.x.to(parameter.dtype) if found.x.is_floating_point() else found.x
    choice = int(output) if output is not None and output.lstrip("-").isdigit() else output
    extras = {name: rows.to(parameter.device) for name, rows in found.extras.items()}
    return _fitted(net, replace(found, x=x.to(parameter.device), output=choice, extras=extras))


def _found(data: str, net: nn.Module, points: int, label: str | None, normalise: str | None) -> Samples:
    kind, colon, shape = data.partition(":")
    generator = torch.Generator().manual_seed(0)
    if colon and kind in ("random", "tokens") and normalise is not None:
        raise ConfigError(f"--normalise is for data, and --data {data!r} is drawn: leave it out.")
    if colon and kind == "random":
        return Samples(torch.randn(points, *_sizes(data, shape), generator=generator))
    if colon and kind == "tokens":
        (length, *rest) = _sizes(data, shape)
        table = next((module for module in net.modules() if isinstance(module, nn.Embedding)), None)
        if table is None or rest:
            raise ConfigError(f"--data {data!r}: write tokens:LENGTH, for a network with an embedding.")
        return Samples(torch.randint(0, table.num_embeddings, (points, length), generator=generator))
    try:
        held = load(data, split="test", limit=points, label=label, normalise=normalise)
    except UndertowError as error:
        said = str(error).replace("as label=…", "as --label NAME")
        raise ConfigError(
            f"--data {data!r}: {said} (Or give a .safetensors or .npz file with x, random:3x32x32 or tokens:16.)"
        ) from None
    if label is not None:
        note = f"Samples are of the test split of {data}: a fifth of its rows, drawn once and for all."
        return Samples(held.x, held.y, notes=(note,))
    if normalise is not None or held.bounds is None:
        return Samples(held.x, held.y)
    low, high = held.bounds
    note = (
        f"Inputs are as {data} has them, from {low:g} to {high:g}: where the network was trained on others, give "
        f"--normalise ({', '.join(_NORMALISATIONS)})."
    )
    return Samples(held.x, held.y, notes=(note,))


def _arrays_of(data: str) -> dict[str, Tensor] | None:
    """The tensors of a safetensors file, or of an NPZ file with ``x``; None of everything else."""
    if data.endswith(".safetensors"):
        held = unpack(read_regular(data), Path(data))
        if "x" not in held:
            raise ConfigError(f"{data} has {', '.join(held) or 'nothing'}: call the samples x, and labels y.")
        return held
    if not data.endswith(".npz"):
        return None
    arrays = read_npz(read_regular(data), data, axes=_AXES)
    if "x" not in arrays:
        return None
    words = [name for name, array in arrays.items() if array.dtype.kind not in "biuf"]
    if words:
        raise ConfigError(f"{data}: {words[0]} does not hold numbers: give classes as 0, 1, 2 ….")
    return {name: torch.from_numpy(_in_our_order(array)) for name, array in arrays.items()}


def _in_our_order(array: NDArray[Any]) -> NDArray[Any]:
    """The numbers as this machine writes them; unsigned ones beyond bytes are signed, as PyTorch has them."""
    unsigned = array.dtype.kind == "u" and array.dtype.itemsize > 1
    return np.ascontiguousarray(array, np.int64 if unsigned else array.dtype.newbyteorder("="))


def _of_arrays(
    data: str, held: dict[str, Tensor], net: nn.Module, points: int, normalise: str | None
) -> Samples:
    x, y = held.pop("x"), held.pop("y", None)
    names, any_other = arguments_beside_x(net)
    taken = {name: rows for name, rows in held.items() if name in names or (any_other and not names)}
    short = [name for name, rows in taken.items() if rows.dim() == 0 or len(rows) != len(x)]
    if short:
        raise ConfigError(f"{data}: {short[0]} needs one row for each of the {len(x)} samples in x.")
    left = [name for name in held if name not in taken]
    notes = (f"The network takes no argument {', '.join(left)}: left out of {data}.",) if left else ()
    if normalise is not None and not x.is_floating_point():
        raise ConfigError(f"--normalise is for numbers, and x in {data} holds {x.dtype}: leave it out.")
    x = normalised(x.float() if x.dtype is torch.uint8 else x, None, normalise)[0][:points]
    extras = {name: rows[:points] for name, rows in taken.items()}
    return Samples(x, None if y is None else y[:points], extras=extras, notes=notes)


def _fitted(net: nn.Module, samples: Samples) -> Samples:
    """The samples as they are, or as rows where the network takes those only; a sentence where it takes neither."""
    refusal = _refusal(net, samples)
    if refusal is None:
        return samples
    rows = replace(samples, x=samples.x.flatten(1))
    if samples.x.dim() > 2 and samples.x.is_floating_point() and _refusal(net, rows) is None:
        note = (
            f"Samples of shape {tuple(samples.x.shape[1:])} are given as rows of {rows.x.shape[1]} numbers."
        )
        return replace(rows, notes=(*rows.notes, note))
    hints = []
    if samples.x.is_floating_point() and any(isinstance(module, nn.Embedding) for module in net.modules()):
        hints.append("It has an embedding: for token ids write --data tokens:LENGTH.")
    if "output=" in str(refusal):
        hints.append("Here that is --output with a name, or a place counted from 0.")
    said = str(refusal).rstrip(".…: ").replace(_EXTRAS, "as further tensors of a safetensors or NPZ file")
    raise ConfigError(" ".join([f"--data does not fit: {said}.", *hints]))


def _refusal(net: nn.Module, samples: Samples) -> UndertowError | None:
    """What the network says of the first sample."""
    one = samples.part(slice(0, 1))
    try:
        f, x = prepare(net, one.x, None, **one.options)
        with torch.no_grad(), in_plain_words(x):
            scores = f(x)
        if not isinstance(scores, Tensor) or scores.dim() == 0 or len(scores) != len(x):
            return ModelError(
                "the network does not return one tensor with a row for each sample: choose with --output."
            )
    except UndertowError as error:
        return error
    return None


def _sizes(data: str, text: str) -> list[int]:
    try:
        sizes = [int(size) for size in text.split("x")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise ConfigError(f"--data {data!r}: write a shape as random:3x32x32, without the number of samples.")
    return sizes
