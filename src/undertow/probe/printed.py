"""The co-correlation as the paper prints it (Algorithms 1 and 2), as a measure for probes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from undertow.core.errors import ConfigError, nearest
from undertow.probe.reading import Reading

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["PrintedCollaboration"]


@dataclass(frozen=True)
class PrintedCollaboration:
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
    seam: str
    forms: tuple[str, ...] = ("equation-9", "algorithm-1")
    methods: tuple[str, ...] = ("auto", "power", "power-authors")

    def __post_init__(self) -> None:
        known = {"forms": ("equation-9", "algorithm-1"), "methods": ("auto", "power", "power-authors")}
        for option, choices in known.items():
            object.__setattr__(self, option, tuple(getattr(self, option)))
            for value in getattr(self, option):
                if value not in choices:
                    raise ConfigError(
                        f"{value!r} is none of the {option} of {self.name}; {nearest(value, choices)}"
                    )

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        from undertow.measures.chain import along_chain, chain_norms

        for method in self.methods:
            norms = chain_norms(net, x, seams=[self.seam], method=method)
            for form in self.forms:
                found = along_chain(norms, seams=[self.seam], form=form).links[0]  # type: ignore[arg-type]
                # Power iteration has no bound on its error; infinity would only say so again.
                yield f"{form}:{method}", found.co_correlation, found.error if method == "auto" else None
