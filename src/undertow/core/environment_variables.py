"""Variables of the environment, set for a while: for this process, and for good for those it starts meanwhile."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

__all__ = ["having"]


@contextlib.contextmanager
def having(variables: Mapping[str, str]) -> Iterator[None]:
    """While this lasts the environment has these variables; afterwards it is as it was before.

    >>> with having({"UNDERTOW_EXAMPLE": "1"}):
    ...     os.environ["UNDERTOW_EXAMPLE"]
    '1'
    >>> "UNDERTOW_EXAMPLE" in os.environ
    False
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
