"""The co-correlation as the paper prints it (Algorithms 1 and 2), as a measure for probes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from torch import Tensor, nn

from undertow.core.sections import Text
from undertow.measures.chain import along_chain
from undertow.measures.chain_norms import chain_norms
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading
from undertow.measures.seam import Form

__all__ = ["PrintedCollaboration"]


class PrintedCollaboration(NamedMeasure):
    """ϱ as the paper prints it and as its authors compute it, for comparison with ``collaboration``.

    ``forms``: "equation-9" takes roots of mean squares, "algorithm-1" plain means. ``methods``: "auto" is this
    library's (exact, or Lanczos with a bound); "power" is Algorithm 2 (relative tolerance 1e-6); "power-authors"
    their code's 30 iterations with a signed stop test. Readings are keyed ``FORM:METHOD``.

    >>> import torch
    >>> net = torch.nn.Sequential(*(torch.nn.Linear(1, 1, bias=False) for _ in range(2)))
    >>> [key for key, _, _ in PrintedCollaboration(seam="0", methods=("auto",))(net, torch.ones(1, 1), None)]
    ['equation-9:auto', 'algorithm-1:auto']
    """

    name: ClassVar[str] = "printed-collaboration"
    seam: Text
    forms: tuple[Form, ...] = ("equation-9", "algorithm-1")
    methods: tuple[Literal["auto", "power", "power-authors"], ...] = ("auto", "power", "power-authors")

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        for method in self.methods:
            norms = chain_norms(net, x, seams=[self.seam], method=method)
            for form in self.forms:
                found = along_chain(norms, seams=[self.seam], form=form).links[0]
                # Power iteration has no bound on its error; infinity would only say so again.
                yield f"{form}:{method}", found.co_correlation, found.error if method == "auto" else None
