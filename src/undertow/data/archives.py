"""Archives that hold a data set's files: tar (any compression), npm packages, Debian packages."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from undertow.data.catalogue import Entry
from undertow.data.cifar import SHEETS, batches_from_sheets
from undertow.data.local import verify
from undertow.errors import DataError

__all__ = ["read_members", "unpack"]


def unpack(archive: Path, entry: Entry) -> dict[str, bytes]:
    """Name → verified raw content of the files of ``entry`` in ``archive``; nothing is written to disk.

    Members are recognised by their file name alone, raw or gzipped, so a hostile path inside the archive
    has no effect.
    """
    raw = {file.name: file for file in entry.files}
    wanted = {*raw, *(f"{name}.gz" for name in raw), *(SHEETS if entry.form == "cifar" else ())}
    members = read_members(archive, wanted)
    if entry.form == "cifar" and SHEETS[0] in members:
        members = batches_from_sheets(members)
    contents: dict[str, bytes] = {}
    for name, file in raw.items():
        where = f"{name} in {archive.name}"
        if name in members:
            content = members[name]
        elif f"{name}.gz" in members:
            try:
                content = gzip.decompress(members[f"{name}.gz"])
            except (OSError, EOFError, zlib.error) as error:
                raise DataError(f"{where} is damaged: not a whole gzip file ({error}).") from None
        else:
            continue
        verify(content, file, where=where)
        contents[name] = content
    if not contents:
        raise DataError(f"{archive.name} holds none of the files of {entry.name}.")
    return contents


def read_members(archive: Path, wanted: set[str]) -> dict[str, bytes]:
    """File name → content of the wanted members, wherever in the archive they lie."""
    source = io.BytesIO(_debian_tar(archive)) if archive.suffix == ".deb" else None
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(None if source else archive, fileobj=source, mode="r:*") as tar:
            for member in tar:
                name = PurePosixPath(member.name).name
                stream = tar.extractfile(member) if member.isreg() and name in wanted else None
                if stream is not None:
                    members[name] = stream.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{archive} is damaged or truncated: {error}.") from None
    return members


def _debian_tar(archive: Path) -> bytes:
    if shutil.which("dpkg-deb") is None:
        raise DataError(f"{archive.name} needs dpkg-deb to be opened, which is not installed.")
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(archive)], capture_output=True, check=False)
    if done.returncode:
        raise DataError(f"{archive} is damaged: {done.stderr.decode(errors='replace').strip()}.")
    return done.stdout
