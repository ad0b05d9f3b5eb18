"""Functions of PyTorch computed by others, wherever a network calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from torch.overrides import TorchFunctionMode

__all__ = ["ReplacedFunctions"]


class ReplacedFunctions(TorchFunctionMode):
    """Within it each function that is named in ``INSTEAD`` is the other one there.

    >>> import torch
    >>> class Doubled(ReplacedFunctions):
    ...     INSTEAD = {torch.neg: lambda x: 2 * x}
    >>> with Doubled():
    ...     torch.neg(torch.tensor(3.0)), torch.sin(torch.tensor(0.0))
    (tensor(6.), tensor(0.))
    """

    INSTEAD: ClassVar[Mapping[Any, Callable[..., Any]]] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.INSTEAD.get(func, func)(*args, **(kwargs or {}))
