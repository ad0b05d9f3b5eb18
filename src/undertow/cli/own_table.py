"""What is learned from in a table of one's own, said before anything is trained."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from undertow.data.table_files import read_table_file
from undertow.data.tables import read_table

__all__ = ["described"]

_SHOWN = 8


def described(
    path: str | os.PathLike[str],
    *,
    label: str,
    features: Sequence[str] | None = None,
    unlabelled_as: str | None = None,
) -> str:
    """Rows, classes and columns of a table, as they will be read.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = file.write_text("kind,a,note,b\\nyes,1,x,2\\nno,3,y,4\\n,5,z,6\\n")
    >>> described(file, label="kind")
    't.csv: 2 rows with a label (no: 1, yes: 1); learned from are 2 columns: a, b.'
    """
    name, content = read_table_file(path)
    table = read_table(content, name=name, label=label, features=features or (), unlabelled_as=unlabelled_as)
    counts = Counter(table.classes[number] for number in table.y)
    classes = ", ".join(f"{each}: {counts[each]:,}" for each in table.classes[:_SHOWN])
    more_classes = f" and {len(table.classes) - _SHOWN} more" if len(table.classes) > _SHOWN else ""
    columns = ", ".join(table.features[:_SHOWN]) + (", …" if len(table.features) > _SHOWN else "")
    number = table.x.shape[1]
    learned = f"is {number:,} column" if number == 1 else f"are {number:,} columns"
    return (
        f"{os.path.basename(path)}: {len(table.y):,} rows with a label ({classes}{more_classes}); learned from "
        f"{learned}: {columns}."
    )
