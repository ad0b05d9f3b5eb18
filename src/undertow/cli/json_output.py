"""Output for machines."""

from __future__ import annotations

import json
from typing import Any

from undertow.core.canonical import plain

__all__ = ["print_json"]


def print_json(value: Any) -> None:
    """Plain JSON on standard output, whatever the terminal; null for numbers that JSON lacks."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))
