"""Whether anything may be downloaded: not with ``UNDERTOW_OFFLINE``, which `--offline` sets for one command."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from undertow.core.environment_variables import having

__all__ = ["offline", "staying_offline"]

_NAME = "UNDERTOW_OFFLINE"


def offline() -> bool:
    """Whether downloads are switched off."""
    return os.environ.get(_NAME, "0") not in ("", "0")


@contextlib.contextmanager
def staying_offline(wanted: bool) -> Iterator[None]:
    """A moment in which nothing is downloaded, by this process or those it starts, if that is ``wanted``.

    >>> with staying_offline(True):
    ...     offline()
    True
    """
    with having({_NAME: "1" if wanted or offline() else "0"}):
        yield
