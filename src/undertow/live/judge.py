"""The ledger of a folder as JSON on standard output: ``python -m undertow.live.judge RUNS [NICENESS]``.

A process of its own, because it needs polars and all records: the server stays small, and its pages alive.
"""

from __future__ import annotations

import json
import os
import sys

from undertow.core.canonical import plain
from undertow.core.errors import UndertowError
from undertow.store.tolerant import ReadableStore
from undertow.studies.kit.ledger import ledger

__all__ = ["main"]


def main() -> None:
    """Judge the claims of the folder named on the command line; on failure one sentence, and code 1."""
    runs, *niceness = sys.argv[1:]
    os.nice(*map(int, niceness or ["0"]))
    try:
        rows = [entry.row() for entry in ledger(ReadableStore(runs))]
    except UndertowError as error:
        sys.exit(str(error))
    print(json.dumps(plain(rows), allow_nan=False))


if __name__ == "__main__":
    main()
