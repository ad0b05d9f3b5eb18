"""A study's figures as files, always rebuilt from the records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from undertow.runs.atomic import make_folder, replace_file

if TYPE_CHECKING:
    from undertow.studies.reproduction import Reproduction

__all__ = ["draw"]


def draw(reproduction: Reproduction) -> list[Path]:
    """Draw every figure of the study into ``figures/``: an SVG picture and the Vega-Lite file behind it."""
    import vl_convert

    folder = reproduction.store.path / "figures" / reproduction.label
    pictures = []
    for figure in reproduction.study.figures:
        frame = reproduction.frame(figure.parts)
        if frame.is_empty():
            continue
        make_folder(folder)
        specification = figure.draw(frame).to_json()
        replace_file(folder / f"{figure.name}.vl.json", specification.encode())
        picture = folder / f"{figure.name}.svg"
        replace_file(picture, vl_convert.vegalite_to_svg(specification).encode())
        pictures.append(picture)
    return pictures
