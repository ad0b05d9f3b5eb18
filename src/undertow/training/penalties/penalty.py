"""What a penalty is: a number that depends on the network and on samples, and that autograd can differentiate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from undertow.core.adapting import Adapted
from undertow.core.errors import InputError, ModelError
from undertow.core.eval_mode import eval_mode
from undertow.core.extras import rows_of_extras
from undertow.core.outputs import OutputChoice
from undertow.core.plain_words import check_tensor, in_plain_words
from undertow.core.sections import NonNegative, Section
from undertow.core.unwrapping import unwrapped
from undertow.core.validation import refusal
from undertow.jacobian.trace import composed
from undertow.training.penalties.seam_view import SeamView
from undertow.training.penalties.seen import Seen, Signs, see

__all__ = ["Penalty", "Vectors"]

Vectors = dict[str, Tensor]
"""What a penalty remembers of each sample, by name: (M, B, …)."""


class Penalty(Section, ABC):
    """Something that is added to the loss, ``weight`` times, averaged over samples.

    ``of_members`` is what a penalty has to say, for many networks at once; calling it is the same for one network in
    any training loop. Networks are taken in eval mode, as measures see them: running statistics are constants and
    stay what they are, dropout is off.
    """

    IN_ORDER: ClassVar[tuple[str, ...]] = ("weight",)
    """Settings that may be given without their names."""

    name: str
    weight: NonNegative

    def __init__(self, *values: Any, **settings: Any) -> None:
        given = {**dict(zip(self.IN_ORDER, values, strict=False)), **settings}
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise refusal(type(self), error, given) from None

    @property
    def cut(self) -> str | None:
        """The seam whose two sides it looks at; None where the network as a whole is enough."""
        return None

    @property
    def remembers(self) -> bool:
        """Whether it goes on from what it found for the same sample before."""
        return False

    @abstractmethod
    def of_members(self, seen: Seen, signs: Signs, vectors: Mapping[str, Tensor]) -> tuple[Tensor, Vectors]:
        """Each member's penalty (M,), without its weight, and what to remember of its samples.

        ``vectors`` are those remembered, zero for samples not met before; none where nothing is remembered. Whatever
        is random comes from ``signs``.
        """

    def __call__(
        self,
        net: nn.Module,
        x: Tensor,
        *,
        rows: Tensor | None = None,
        memory: Vectors | None = None,
        generator: torch.Generator | None = None,
        output: OutputChoice = None,
        extras: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """``weight`` times the penalty of one network on samples x (N, …): a scalar to add to the loss.

        Args:
            net: Any module, also a compiled one or one that DistributedDataParallel is around: the penalty runs the
                network itself, and gradients are averaged over ranks with those of the loss.
            x: Samples; they need no gradient. A network of token ids is given the vectors that it looks up instead.
            rows: Which samples of the training set these are, (N,), for a penalty that goes on from what it found
                before.
            memory: A dictionary that is empty at first and given again with every batch: what is remembered is in it.
            generator: Where random signs come from, on the device of x; torch's own by default.
            output: Which of the network's outputs: a name, a place, a function; by default the obvious one, "logits".
            extras: What the network takes beside x, by name, a row for each sample.
        """
        net = unwrapped(net)
        _check(net, x, rows, memory)

        def drawn(like: Tensor, _: int) -> Tensor:
            bits = torch.randint(0, 2, like.shape, generator=generator, device=like.device)
            return (2 * bits - 1).to(like)

        with eval_mode(net), torch.enable_grad(), composed(list(net.modules())):
            whole = Adapted(net, output=output, extras=rows_of_extras(extras, x))
            view = None if self.cut is None else SeamView(whole, self.cut, x, verify=not memory)
            run = whole if view is None else view

            def alone(samples: Tensor) -> Tensor:
                with in_plain_words(x):
                    outputs: Tensor = run(samples[0])
                if outputs.shape[:1] != x.shape[:1]:
                    raise ModelError(
                        f"for {len(x)} samples the network returns shape {tuple(outputs.shape)}: its first axis must "
                        "be the samples."
                    )
                return outputs.reshape(1, len(x), -1)

            seen = see(alone, x.detach()[None], width=None if view is None else view.width)
            values, vectors = self.of_members(seen, drawn, _recalled(rows, memory))
            _remember(vectors, rows, memory)
            return self.weight * values.sum()


def _check(net: nn.Module, x: Tensor, rows: Tensor | None, memory: Vectors | None) -> None:
    check_tensor(x)
    if not x.is_floating_point() and any(isinstance(module, nn.Embedding) for module in net.modules()):
        raise InputError(
            "x holds token ids, which have no derivative: give the penalty a module that takes the embedding's "
            "vectors, for example one that calls net(inputs_embeds=vectors), and those vectors as x."
        )
    if x.dim() < 2 or not len(x) or not x.is_floating_point():
        raise InputError(
            f"x has shape {tuple(x.shape)} and dtype {x.dtype}: pass at least one sample, (N, …) of floats."
        )
    if (rows is None) != (memory is None) or (rows is not None and rows.shape != x.shape[:1]):
        raise InputError(
            "what is remembered needs both rows=…, the number of each sample, and memory=…, a dictionary."
        )


def _recalled(rows: Tensor | None, memory: Vectors | None) -> Vectors:
    if rows is None or not memory:
        return {}
    return {name: _reaching(table, rows)[rows][None] for name, table in memory.items()}


def _remember(vectors: Vectors, rows: Tensor | None, memory: Vectors | None) -> None:
    if rows is None or memory is None:
        return
    for name, found in vectors.items():
        table = _reaching(memory.get(name, found.new_zeros(0, *found.shape[2:])), rows)
        table[rows] = found[0]
        memory[name] = table


def _reaching(table: Tensor, rows: Tensor) -> Tensor:
    """The table with a row, zero where it is new, for each of these samples."""
    missing = int(rows.max()) + 1 - len(table)
    return table if missing <= 0 else torch.cat([table, table.new_zeros(missing, *table.shape[1:])])
