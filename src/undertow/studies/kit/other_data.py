"""One folder of runs holds a study on one table: a second one would take the place of the first's verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from undertow.config.grid import StudyConfig
from undertow.core.errors import ConfigError
from undertow.store.stored_study import StoredStudy

__all__ = ["refuse_other_data"]

_SAYS = ("path", "label", "features", "unlabelled_as")
_OWN_FOLDER = "Give the other one a folder of its own, with `--runs`."


def refuse_other_data(asked: Iterable[StudyConfig], stored: Iterable[StoredStudy]) -> None:
    """A ``ConfigError`` where a part is asked for on another table than the one that the folder holds it on.

    Or on other rows and columns of it. Its document, figures and verdict go by the name of the part, and would be
    written over.
    """
    there = {study.label: study.settings.get("data", {}) for study in stored}
    for study in asked:
        before, now = there.get(study.label), study.data.model_dump(mode="json")
        if before is None or _said(before) == _said(now):
            continue
        if _said(before)["path"] != _said(now)["path"]:
            raise ConfigError(
                f"this folder holds {study.label} on {before.get('path')}, and its figures and verdict would be "
                f"written over by those on {now.get('path')}. {_OWN_FOLDER}"
            )
        other = next(name for name in _SAYS if _said(before)[name] != _said(now)[name])
        raise ConfigError(
            f"this folder holds {study.label} with {other} = {before.get(other)!r}, and its figures and verdict would "
            f"be written over by those with {other} = {now.get(other)!r}. {_OWN_FOLDER}"
        )


def _said(data: Mapping[str, Any]) -> dict[str, Any]:
    """What decides which rows and columns of which file are learned from; nothing of the rest of the settings."""
    said = {name: data.get(name) for name in _SAYS}
    if said["path"] is not None:
        said["path"] = str(Path(said["path"]).expanduser().absolute())
    return said
