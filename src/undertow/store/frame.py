"""Records of many trials as one polars frame."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars

from undertow.probe.records import COLUMNS
from undertow.store.stored_trial import StoredTrial
from undertow.store.unfinished import records_so_far

if TYPE_CHECKING:
    from undertow.store.store import Store
    from undertow.store.stored_study import StoredStudy

__all__ = ["frame", "joined"]

_KINDS: dict[str, Any] = dict(
    zip(
        COLUMNS,
        (
            polars.String,
            polars.Int64,
            polars.Int64,
            polars.String,
            polars.String,
            polars.Float64,
            polars.Float64,
        ),
        strict=True,
    )
)
_WORDS = (b'"value":"', b'"error":"')
"""How a number begins that JSON lacks."""
_UNFINISHED = b'{"status":"unfinished"}'


def frame(store: Store, studies: list[StoredStudy], *, so_far: bool = False) -> polars.DataFrame:
    """One row per record of every finished trial of the studies, with status, study and grid columns.

    With ``so_far`` also of trials that are still being trained, whose status is "unfinished".
    """
    begun = records_so_far(store.path) if so_far else {}
    return joined([_study_frame(store, study, begun) for study in studies])


def joined(frames: list[polars.DataFrame]) -> polars.DataFrame:
    """Frames of records, one below the other; a column that one of them lacks is empty there."""
    parts = [part for part in frames if not part.is_empty()]
    if not parts:
        names = dict.fromkeys(("status", "study", "variant", "scale", "part"), polars.String)
        return polars.DataFrame(schema={**_KINDS, **names})
    return polars.concat(parts, how="diagonal_relaxed")


def _study_frame(store: Store, study: StoredStudy, begun: Mapping[str, bytes]) -> polars.DataFrame:
    found: list[StoredTrial] = []
    about: list[dict[str, Any]] = []
    for trial, columns in study.trials:
        if trial in store:
            stored = store.trial(trial)
        elif trial in begun:
            stored = StoredTrial(trial, {"records.jsonl": begun[trial], "status.json": _UNFINISHED})
        else:
            continue
        found.append(stored)
        about.append(
            {
                "trial": trial,
                "status": stored.status["status"],
                "study": study.name,
                "variant": study.variant,
                "scale": study.scale,
                "part": study.part,
                **columns,
            }
        )
    rows = _rows(found)
    if not about:
        return rows
    return rows.join(polars.DataFrame(about, infer_schema_length=None, strict=False), on="trial", how="left")


def _rows(trials: list[StoredTrial]) -> polars.DataFrame:
    """All records of the trials, by polars' own reader where every number is one."""
    files = [trial.files["records.jsonl"] for trial in trials]
    whole = b"".join(files)
    if whole and not any(word in whole for word in _WORDS):
        with contextlib.suppress(polars.exceptions.PolarsError):
            rows = polars.read_ndjson(io.BytesIO(whole), schema=_KINDS)
            if not sum(rows.drop("error").null_count().row(0)):
                return rows
    # A number that JSON has no word for, or a line that is no record, which is then named.
    records = [record.row() for trial in trials for record in trial.records]
    return polars.DataFrame(records, schema=_KINDS)
