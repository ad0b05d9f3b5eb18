"""A study's figures as files, always rebuilt from the records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from undertow.runs.atomic import make_folder, replace_file

if TYPE_CHECKING:
    from undertow.runs.store import Store, StoredStudy
    from undertow.studies.study import Study

__all__ = ["draw"]


def draw(store: Store, stored: StoredStudy, study: Study) -> list[Path]:
    """Draw every figure of the study into ``figures/``: an SVG picture and the Vega-Lite file behind it."""
    import vl_convert

    frame = store.frame(stored)
    if frame.is_empty():
        return []
    folder = make_folder(store.path / "figures" / stored.config.label)
    pictures = []
    for figure in study.figures:
        specification = figure.draw(frame).to_json()
        replace_file(folder / f"{figure.name}.vl.json", specification.encode())
        picture = folder / f"{figure.name}.svg"
        replace_file(picture, vl_convert.vegalite_to_svg(specification).encode())
        pictures.append(picture)
    return pictures
