"""Any network as a function of one floating tensor with one tensor as its value, samples along the first axis."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.enclosing import Enclosing
from undertow.core.errors import InputError, ModelError, nearest
from undertow.core.extras import arguments_beside_x, rows_of_extras
from undertow.core.outputs import OutputChoice, picked_output
from undertow.core.plain_words import in_plain_words
from undertow.core.telling import tell
from undertow.core.token_inputs import LookUp, embedding_of, last_tokens

__all__ = ["Adapted", "MeasuredElsewhere", "adapted", "named_rows"]


class MeasuredElsewhere(UserWarning):
    """What is measured is not the map from the input to everything that the network returns."""


class Adapted(Enclosing):
    """``net`` for one batch of samples: with their rows of extras, one of its outputs, from an embedding on.

    With ``entry`` the input is what an embedding gives for the tokens; these are still given to the network, which may
    read lengths and positions off them.
    """

    def __init__(
        self,
        net: nn.Module,
        *,
        output: OutputChoice = None,
        extras: Mapping[str, Any] | None = None,
        tokens: Tensor | None = None,
        entry: LookUp | None = None,
        last: bool = False,
    ) -> None:
        super().__init__()
        self.net = net
        self.training = net.training
        self.output = output
        self.entry = entry
        self.last = last
        self.names = tuple(extras or {})
        self.constants: dict[str, Any] = {}
        self.register_buffer("tokens", tokens, persistent=False)
        for name, extra in (extras or {}).items():
            if isinstance(extra, Tensor):
                self.register_buffer(f"extra_{name}", extra, persistent=False)
            else:
                self.constants[name] = extra

    @property
    def extras(self) -> dict[str, Any]:
        """What the network is given beside x, by the names of its arguments."""
        return {name: self.constants.get(name, getattr(self, f"extra_{name}", None)) for name in self.names}

    @property
    def rows(self) -> dict[str, Tensor]:
        """Everything that has a row for each sample."""
        found = {name: extra for name, extra in self.extras.items() if isinstance(extra, Tensor)}
        return {**found, "": self.tokens} if isinstance(self.tokens, Tensor) else found

    @property
    def alike(self) -> bool:
        """Whether all samples have the same rows, so that any number of others can be run with them."""
        return all(bool((rows == rows[:1]).all()) for rows in self.rows.values())

    def take(self, index: Tensor) -> Adapted:
        return self._with({name: rows[index.to(rows.device)] for name, rows in self.rows.items()})

    def _with(self, rows: Mapping[str, Tensor]) -> Adapted:
        extras = {name: rows.get(name, extra) for name, extra in self.extras.items()}
        made = Adapted(
            self.net,
            output=self.output,
            extras=extras,
            tokens=rows.get(""),
            entry=self.entry,
            last=self.last,
        )
        made.training = self.training
        return made

    def forward(self, value: Tensor) -> Tensor:
        rows = {name: _for_batch(own, len(value)) for name, own in self.rows.items()}
        extras = {name: rows.get(name, extra) for name, extra in self.extras.items()}
        if self.entry is None:
            output = self.net(value, **extras)
        else:
            module, calls = self.net.get_submodule(self.entry.name), itertools.count()
            place = self.entry.call  # a decoder may look its own tokens up in the same embedding
            hook = module.register_forward_hook(lambda *_: value if next(calls) == place else None)
            try:
                output = self.net(rows[""], **extras)
            finally:
                hook.remove()
        picked = picked_output(output, self.output)
        mask = "decoder_attention_mask" if "decoder_input_ids" in extras else "attention_mask"
        return last_tokens(picked, extras.get(mask)) if self.last else picked

    @property
    def space(self) -> str:
        """Where perturbations are measured: "" for the input itself, else the output of which module."""
        return "" if self.entry is None else f"the output of {self.entry.name}"


def _for_batch(rows: Tensor, count: int) -> Tensor:
    """Rows for a batch of another size, where all samples have the same ones."""
    if len(rows) == count:
        return rows
    if len(rows) == 1 or bool((rows == rows[:1]).all()):
        return rows[:1].expand(count, *rows.shape[1:])
    raise ModelError(
        f"the network was prepared for {len(rows)} samples, each with tokens or extras of its own, and is given "
        f"{count}: measure each sample by itself, with its own row of extras=…."
    )


def adapted(
    net: nn.Module, x: Tensor, *, output: OutputChoice = None, extras: Mapping[str, Any] | None = None
) -> tuple[nn.Module, Tensor]:
    """The network as a function of one floating tensor, and the samples that it takes; itself where it is one.

    >>> import warnings
    >>> net = nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(6, 1))
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     f, vectors = adapted(net, torch.tensor([[0, 1, 2], [2, 3, 4]]))
    >>> vectors.shape, bool(torch.equal(f(vectors), net(torch.tensor([[0, 1, 2], [2, 3, 4]]))))
    (torch.Size([2, 3, 2]), True)
    """
    if isinstance(net, Enclosing):
        if output is not None or extras:
            raise InputError("this network has been prepared with its output and extras: leave both out.")
        return net, x
    extras = named_rows(net, x, extras)
    if not x.is_floating_point():
        return _from_embedding(net, x, output, extras)
    if output is not None or extras or not _returns_tensor(net, x):
        return Adapted(net, output=output, extras=extras), x
    return net, x


def named_rows(net: nn.Module, x: Tensor, extras: Mapping[str, Any] | None) -> dict[str, Any]:
    """The extras as ``rows_of_extras`` has them, where the network has an argument of each name.

    Where it takes any name, it is told that it may not use them.
    """
    found = rows_of_extras(extras, x)
    known, any_other = arguments_beside_x(net)
    for name in found:
        if name in known or (any_other and not known):
            continue
        if not any_other:
            raise InputError(f"extras: the network takes no {name!r} beside x; {nearest(name, known)}")
        tell(
            f"extras: no argument of the network is called {name!r}, so that it may be ignored; {nearest(name, known)}",
            MeasuredElsewhere,
        )
    return found


def _from_embedding(
    net: nn.Module, tokens: Tensor, output: OutputChoice, extras: dict[str, Any]
) -> tuple[nn.Module, Tensor]:
    with in_plain_words(tokens):
        entry, vectors = embedding_of(net, tokens, extras)
    made = Adapted(net, output=output, extras=extras, tokens=tokens, entry=entry)
    with torch.no_grad():
        logits = made.take(torch.zeros(1, dtype=torch.int64))(vectors[:1])
    embedding = net.get_submodule(entry.name)
    words = getattr(embedding, "num_embeddings", None)
    if output is None and logits.dim() == 3 and logits.shape[-1] == words:
        made = Adapted(net, extras=extras, tokens=tokens, entry=entry, last=True)
    what = "the last token's logits, " if made.last else ""
    tell(
        f"x holds token ids, which have no derivative: measured is {what}from the output of {entry.name!r} on, so "
        "norms and radii are in the units of that embedding.",
        MeasuredElsewhere,
    )
    return made, vectors


def _returns_tensor(net: nn.Module, x: Tensor) -> bool:
    """Whether the network returns one tensor, as one sample shows; an error is left to those who look closer."""
    last = net
    while type(last) is nn.Sequential and len(last):
        last = last[-1]
    ours = type(last).__module__.partition(".")[0] in ("torch", "undertow")
    if ours and not isinstance(last, nn.RNNBase | nn.LSTMCell | nn.MultiheadAttention):
        return True
    buffers = {name: buffer.clone() for name, buffer in net.named_buffers()}
    devices = [x.device] if x.device.type == "cuda" else []
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=devices):
            return isinstance(net(x[:1].detach().clone()), Tensor)
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
        return True
    finally:
        with torch.no_grad():
            for name, buffer in net.named_buffers():
                if name in buffers and not torch.equal(buffer, buffers[name]):
                    buffer.copy_(buffers[name])
