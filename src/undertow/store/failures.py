"""Why groups failed, for whoever looks: ``RUNS/failures/GROUP.txt``, removed when the group finishes after all."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from undertow.store.progress import replace_unflushed

__all__ = ["Failure", "clear_failure", "parse_failure", "write_failure"]


@dataclass(frozen=True)
class Failure:
    """Why a group failed: a sentence, and all that is known about it."""

    group: str
    trials: tuple[str, ...]
    sentence: str
    text: str


def write_failure(runs: Path, group: str, trials: Sequence[str], *, sentence: str, trace: str = "") -> None:
    """Leave word in ``failures/`` of why a group failed."""
    when = time.strftime("%Y-%m-%d %H:%M:%S %z")
    lines = [f"group: {group}", f"trials: {' '.join(trials)}", f"when: {when}", f"host: {platform.node()}"]
    text = "\n".join([*lines, "", sentence.strip(), *(["", trace.strip()] if trace else []), ""])
    with contextlib.suppress(OSError):
        (runs / "failures").mkdir(parents=True, exist_ok=True)
        replace_unflushed(runs / "failures" / f"{group}.txt", text.encode())


def clear_failure(runs: Path, group: str) -> None:
    """The group has finished after all."""
    with contextlib.suppress(OSError):
        (runs / "failures" / f"{group}.txt").unlink(missing_ok=True)


def parse_failure(data: bytes) -> Failure:
    """The content of a file in ``failures/``; raises ValueError when it is none.

    >>> import tempfile
    >>> runs = Path(tempfile.mkdtemp())
    >>> write_failure(runs, "0a1b", ["t0", "t1"], sentence="the data are gone.")
    >>> parse_failure((runs / "failures" / "0a1b.txt").read_bytes()).sentence
    'the data are gone.'
    """
    text = data.decode(errors="replace")
    head, _, body = text.partition("\n\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    if "group" not in fields or "trials" not in fields:
        raise ValueError("not a group's failure")
    sentence = body.strip().partition("\n")[0]
    return Failure(fields["group"], tuple(fields["trials"].split()), sentence, text)
