"""Tensors on disk as safetensors; a pickle is never loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from undertow.core.errors import StoreError

__all__ = ["pack", "unpack"]

_PICKLES = {b"\x80": "a pickle", b"PK\x03\x04": "a zipped pickle, as torch.save writes"}


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """The tensors as the bytes of a safetensors file; names sorted, so that equal content is equal bytes."""
    # Copies: safetensors refuses tensors that share memory, which views of one batch of networks do.
    plain = {name: tensors[name].detach().cpu().contiguous().clone() for name in sorted(tensors)}
    return safetensors.torch.save(plain)


def unpack(data: bytes, path: Path) -> dict[str, Tensor]:
    """The tensors in ``data``, or a ``StoreError`` that names ``path``.

    >>> unpack(bytes.fromhex("80049500"), Path("net.pt"))
    Traceback (most recent call last):
        ...
    undertow.core.errors.StoreError: net.pt is a pickle, which can run any code when loaded, so it is not: \
save the weights with safetensors.torch.save_file(net.state_dict(), "net.safetensors") and give that.
    """
    for start, what in _PICKLES.items():
        # A safetensors file starts with the length of its header, then a brace.
        if data.startswith(start) and data[8:9] != b"{":
            raise StoreError(
                f"{path} is {what}, which can run any code when loaded, so it is not: save the weights with "
                f'safetensors.torch.save_file(net.state_dict(), "{path.stem}.safetensors") and give that.'
            )
    try:
        return safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise StoreError(f"{path} is not a whole safetensors file ({error}): use another copy.") from None
