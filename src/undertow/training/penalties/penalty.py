"""What a penalty is: a number that depends on the network and on samples, and that autograd can differentiate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.eval_mode import eval_mode
from undertow.core.sections import NonNegative, Section
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
        super().__init__(**dict(zip(self.IN_ORDER, values, strict=False)), **settings)

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
    ) -> Tensor:
        """``weight`` times the penalty of one network on samples x (N, …): a scalar to add to the loss.

        Args:
            net: Any module whose outputs are (N, k), or (N,) for one logit.
            x: Samples; they need no gradient.
            rows: Which samples of the training set these are, (N,), for a penalty that goes on from what it found
                before.
            memory: A dictionary that is empty at first and given again with every batch: what is remembered is in it.
            generator: Where random signs come from, on the device of x; torch's own by default.
        """
        if x.dim() < 2 or not len(x) or not x.is_floating_point():
            raise InputError(
                f"x has shape {tuple(x.shape)} and dtype {x.dtype}: pass at least one sample, (N, …) of floats."
            )
        if (rows is None) != (memory is None) or (rows is not None and rows.shape != x.shape[:1]):
            raise InputError(
                "what is remembered needs both rows=…, the number of each sample, and memory=…, a dictionary."
            )

        def drawn(like: Tensor, _: int) -> Tensor:
            bits = torch.randint(0, 2, like.shape, generator=generator, device=like.device)
            return (2 * bits - 1).to(like)

        with eval_mode(net), torch.enable_grad():
            view = None if self.cut is None else SeamView(net, self.cut, x, verify=not memory)
            run = net if view is None else view

            def alone(samples: Tensor) -> Tensor:
                outputs: Tensor = run(samples[0])
                return outputs.reshape(1, len(x), -1)

            seen = see(alone, x.detach()[None], width=None if view is None else view.width)
            values, vectors = self.of_members(seen, drawn, _recalled(rows, memory))
            _remember(vectors, rows, memory)
            return self.weight * values.sum()


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
