"""What goes wrong while a training is measured: told, and the training goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from undertow.core.errors import InputError, UndertowError
from undertow.core.telling import tell

__all__ = ["Faults", "OnError"]

OnError: TypeAlias = Literal["warn", "raise"]


class Faults:
    """Whether a measure that fails ends the training: always before its first step, afterwards only if asked to.

    >>> import warnings
    >>> faults = Faults("warn")
    >>> faults.training = True
    >>> with warnings.catch_warnings(record=True) as said, faults.told("energy could not be measured at step 7"):
    ...     warnings.simplefilter("always")
    ...     raise ValueError("too much")
    >>> print(said[0].message)
    energy could not be measured at step 7: ValueError: too much. Training goes on; on_error="raise" would end it.
    """

    def __init__(self, on_error: OnError) -> None:
        if on_error not in ("warn", "raise"):
            raise InputError(f"on_error is {on_error!r}: give 'warn' or 'raise'.")
        self.on_error = on_error
        self.training = False
        self._told: set[object] = set()

    @contextmanager
    def told(self, failing: str, then: str = "", *, once: object = None) -> Iterator[None]:
        """What is raised inside is a warning: that so and so is ``failing``, why, and what ``then``.

        Of what has the same ``once``, the first alone is told.
        """
        try:
            yield
        except Exception as error:
            if not self.training or self.on_error == "raise":
                raise
            if once is not None and once in self._told:
                return
            self._told.add(once)
            said = str(error) if isinstance(error, UndertowError) else f"{type(error).__name__}: {error}"
            tell(f'{failing}: {said.rstrip(".")}. {then}Training goes on; on_error="raise" would end it.')
