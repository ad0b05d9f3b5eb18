"""What goes wrong while a training is measured: told, and the training goes on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from undertow.core.errors import InputError, UndertowError

__all__ = ["Faults", "OnError"]

OnError: TypeAlias = Literal["warn", "raise"]


class Faults:
    """Whether a measure that fails ends the training: always before its first step, afterwards only if asked to.

    >>> faults = Faults("warn")
    >>> faults.training = True
    >>> with warnings.catch_warnings(record=True) as said, faults.told("energy", 7):
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
        self._told: set[str] = set()

    @contextmanager
    def told(self, name: str, step: int) -> Iterator[None]:
        """What is raised inside is a warning, the first time that it is of this measure."""
        try:
            yield
        except Exception as error:
            if not self.training or self.on_error == "raise":
                raise
            if name not in self._told:
                self._told.add(name)
                said = str(error) if isinstance(error, UndertowError) else f"{type(error).__name__}: {error}"
                warnings.warn(
                    f"{name} could not be measured at step {step}: {said.rstrip('.')}. Training goes on; "
                    'on_error="raise" would end it.',
                    UserWarning,
                    stacklevel=6,  # of whoever told the probe of a step
                )
