"""Where every operation of PyTorch passes by: what a dispatch mode of ours starts from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["EveryOperation"]


class EveryOperation(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it `called` stands for every operation.

    >>> class Names(EveryOperation):
    ...     def called(self, func, args, kwargs):
    ...         print(func.__name__)
    ...         return func(*args, **kwargs)
    >>> import torch
    >>> with Names():
    ...     _ = torch.eye(2).sum()
    eye.default
    sum.default
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled within it, and keeping PyTorch's compiler out of it would import that, for seconds."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.called(func, args, kwargs or {})

    @abstractmethod
    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the operation returns."""
