"""A data set of a few bytes in MNIST's format, with an HTTP server to fetch it from."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from undertow.data.catalogue import CatalogueEntry, Package, RawFile


def idx(values: np.ndarray) -> bytes:
    """The idx file of an array of bytes, written independently of the reader."""
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


def contents() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    return {
        "tiny-train-images": idx(rng.integers(0, 256, (20, 4, 3))),
        "tiny-train-labels": idx(np.arange(20) % 10),
        "tiny-test-images": idx(rng.integers(0, 256, (10, 4, 3))),
        "tiny-test-labels": idx(np.arange(10)),
    }


def entry(
    mirrors: tuple[str, ...] = (), archives: tuple[str, ...] = (), package: Package | None = None
) -> CatalogueEntry:
    files = tuple(
        RawFile(name, hashlib.md5(raw).hexdigest(), len(raw), "test" if "test" in name else "train")
        for name, raw in contents().items()
    )
    return CatalogueEntry("tiny", "ten pictures", "none", "idx", files, mirrors, archives, package)


def write_gz(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in contents().items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(raw))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The address of an HTTP server for the files of ``folder``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
