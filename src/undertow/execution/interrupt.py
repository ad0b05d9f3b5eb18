"""Ctrl-C and SIGTERM as a request to stop at the next checkpoint."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interrupt"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """While entered, the first signal makes ``requested()`` true; a second Ctrl-C stops at once.

    >>> with Interrupt() as interrupt:
    ...     interrupt.requested()
    False
    """

    def __init__(self) -> None:
        self._requested = False
        self._before: dict[signal.Signals, Any] = {}

    def requested(self) -> bool:
        """Whether someone asked to stop."""
        return self._requested

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._receive) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._requested = True
