"""The ledger of a folder as JSON on standard output: ``python -m undertow.live.judge RUNS``.

A process of its own, because it needs polars and all records: the server stays small, and its pages alive.
"""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any

from undertow.errors import UndertowError

__all__ = ["main", "plain"]


def plain(value: Any) -> Any:
    """The value with None for numbers that JSON lacks.

    >>> plain({"effect": float("nan"), "interval": [1.0, float("inf")]})
    {'effect': None, 'interval': [1.0, None]}
    """
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def main() -> None:
    """Judge the claims of the folder named on the command line; on failure one sentence, and code 1."""
    os.nice(10)  # the sweep that is being watched goes first
    from undertow.report.readable import ReadableStore
    from undertow.studies.ledger import ledger

    try:
        rows = [entry.row() for entry in ledger(ReadableStore(sys.argv[1]))]
    except UndertowError as error:
        sys.exit(str(error))
    print(json.dumps(plain(rows), allow_nan=False))


if __name__ == "__main__":
    main()
