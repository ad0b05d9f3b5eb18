"""Archives that hold a data set's files: tar (any compression), npm packages, Debian packages.

They are read as a stream, and no further than the data set's own size explains: what a hostile archive unpacks to is
neither kept nor waited for.
"""

from __future__ import annotations

import contextlib
import lzma
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from undertow.core.errors import DataError
from undertow.data.catalogue import CatalogueEntry
from undertow.data.cifar import SHEETS, batches_from_sheets, largest_sheet
from undertow.data.inflate import OverrunError, Unpacked, bound_for, in_units
from undertow.data.local import packed_bound, unpack_gzip, verify

__all__ = ["read_members", "unpack"]

_BESIDES = 64 * 2**20  # bytes of an archive that are none of the data
_MOST_MEMBERS = 20_000
_LONGEST_HEADER = 2**20
_PREPARING = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


def unpack(archive: Path, entry: CatalogueEntry) -> dict[str, bytes]:
    """Name → verified raw content of the files of ``entry`` in ``archive``; nothing is written to disk.

    Members are recognised by their file name alone, raw or gzipped, so a hostile path inside the archive
    has no effect.
    """
    raw = {file.name: file for file in entry.files}
    sizes = {file.name: bound_for(0) if file.size is None else file.size for file in entry.files}
    wanted = sizes | {f"{name}.gz": packed_bound(size) for name, size in sizes.items()}
    if entry.form == "cifar":
        wanted |= {name: largest_sheet(name) for name in SHEETS}
    members = read_members(archive, wanted, bound=2 * sum(sizes.values()) + _BESIDES)
    if entry.form == "cifar" and SHEETS[0] in members:
        members = batches_from_sheets(members)
    contents: dict[str, bytes] = {}
    for name, file in raw.items():
        where = f"{name} in {archive.name}"
        if name in members:
            content = members[name]
        elif f"{name}.gz" in members:
            content = unpack_gzip(members[f"{name}.gz"], file, where=where)
        else:
            continue
        verify(content, file, where=where)
        contents[name] = content
    if not contents:
        raise DataError(f"{archive.name} holds none of the files of {entry.name}.")
    return contents


def read_members(archive: Path, wanted: Mapping[str, int], *, bound: int) -> dict[str, bytes]:
    """File name → content of the wanted members, wherever in the archive they lie.

    ``wanted`` says how many bytes each may have, ``bound`` how many the whole archive may unpack to.
    """
    members: dict[str, bytes] = {}
    try:
        # As a stream: otherwise tarfile keeps every header, and looks for the end of a file that may have none.
        with _opened(archive) as packed, _tar(Unpacked(packed, bound)) as tar:
            for count, member in enumerate(iter(tar.next, None), start=1):
                tar.members = []  # type: ignore[attr-defined]  # where tarfile remembers them all
                if count > _MOST_MEMBERS:
                    raise DataError(f"{archive} has more than {_MOST_MEMBERS:,} members, which is refused.")
                name = PurePosixPath(member.name).name
                if name in wanted and member.isreg():
                    members[name] = _content(tar, member, wanted[name], where=f"{name} in {archive.name}")
    except OverrunError:
        raise DataError(
            f"{archive} unpacks to more than {in_units(bound)}, far more than the data it should hold."
        ) from None
    # tarfile lets a header's odd numbers through as whatever they make Python raise.
    except (
        tarfile.TarError,
        OSError,
        EOFError,
        ValueError,
        OverflowError,
        zlib.error,
        lzma.LZMAError,
    ) as error:
        raise DataError(f"{archive} is damaged or truncated: {error or type(error).__name__}.") from None
    return members


def _tar(stream: Unpacked) -> tarfile.TarFile:
    return tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member)


class _Member(tarfile.TarInfo):
    """A header; where it only prepares another one (a long name, attributes), it is read whole, and must be short."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _PREPARING and self.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        following: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return following


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, bound: int, *, where: str) -> bytes:
    stream = tar.extractfile(member)
    content = b"" if stream is None else stream.read(bound + 1)
    if len(content) > bound:
        raise DataError(f"{where} is damaged: it has more than the {bound:,} bytes it can have.")
    return content


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[IO[bytes]]:
    """The archive as a file of bytes: of a Debian package, the tar file inside it."""
    if archive.suffix != ".deb":
        with archive.open("rb") as file:
            yield file
        return
    if shutil.which("dpkg-deb") is None:
        raise DataError(f"{archive.name} needs dpkg-deb to be opened, which is not installed.")
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said)
        assert process.stdout is not None
        try:
            yield process.stdout
        except (tarfile.ReadError, EOFError) as error:  # dpkg-deb knows better why
            said.seek(0)
            why = said.read(2000).decode(errors="replace").strip() or error
            raise DataError(f"{archive} is damaged: {why}.") from None
        finally:
            process.kill()
            process.stdout.close()
            process.wait()
