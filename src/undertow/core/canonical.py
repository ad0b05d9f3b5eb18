"""Canonical JSON, and documents that carry their own checksum.

A trial's identity is the SHA-256 of its resolved configuration written in exactly one way: keys sorted,
no spaces, floats by their shortest round-trip ``repr``. Documents outside a trial's manifest (studies,
checkpoints, the manifest itself) are *sealed*: they contain the digest of the rest of themselves.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from undertow.core.errors import StoreError
from undertow.core.files import open_regular

__all__ = ["digest", "dumps", "file_digest", "plain", "seal", "unseal"]

_SEAL = "sha256"


def dumps(value: Any) -> bytes:
    """The one canonical encoding of a JSON value.

    >>> dumps({"b": 0.1, "a": [1, None]})
    b'{"a":[1,null],"b":0.1}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode()


def plain(value: Any) -> Any:
    """The value with None for the numbers that JSON lacks.

    >>> plain({"effect": float("nan"), "interval": (1.0, float("inf"))})
    {'effect': None, 'interval': [1.0, None]}
    """
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal.

    >>> digest(b"")[:12]
    'e3b0c44298fc'
    """
    return hashlib.sha256(data).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(document: dict[str, Any]) -> bytes:
    """The document with the digest of its canonical encoding added, as bytes to be written.

    >>> unseal(seal({"a": 1}), Path("x.json"))
    {'a': 1}
    """
    return dumps({**document, _SEAL: digest(dumps(document))}) + b"\n"


def unseal(data: bytes, path: Path) -> dict[str, Any]:
    """The sealed document, or a ``StoreError`` naming ``path`` when a single byte of it has changed."""
    try:
        document = json.loads(data)
        # Comparing bytes, not values, also catches changes that JSON does not care about.
        rest = {key: value for key, value in document.items() if key != _SEAL}
        whole = seal(rest) == data
    except (ValueError, AttributeError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise StoreError(f"{path} is damaged: its content does not match the checksum inside it.")
    return rest
