"""A study's figures as files, always rebuilt from the records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import vl_convert
from altair.utils.schemapi import debug_mode

from undertow.core.canonical import plain
from undertow.drawing.letters import in_letters
from undertow.store.atomic import make_folder, replace_file

if TYPE_CHECKING:
    import polars

    from undertow.studies.kit.reproduction import Reproduction
    from undertow.studies.kit.study import Figure

__all__ = ["Format", "draw", "drawn"]

Format = Literal["svg", "pdf", "png"]
_DOTS_PER_INCH = 200


def draw(reproduction: Reproduction, *, formats: Sequence[Format] = ("svg",)) -> list[Path]:
    """Draw every figure of the study into ``figures/``: a file of each format, and the Vega-Lite source behind it.

    Figures of parts that are not complete, and cannot be drawn from what is there, are left out.
    """
    folder = reproduction.store.path / "figures" / reproduction.label
    pictures = []
    with ThreadPoolExecutor(2) as pool:  # conversion is compiled code that needs no interpreter
        waiting = []
        for figure in reproduction.study.figures:
            specification = _specification(reproduction, figure)
            if specification is not None:
                make_folder(folder)
                replace_file(folder / f"{figure.name}.vl.json", specification.encode())
                files = [folder / f"{figure.name}.{ending}" for ending in formats]
                waiting += [
                    (file, pool.submit(_as_file, specification, ending))
                    for file, ending in zip(files, formats, strict=True)
                ]
        for file, converted in waiting:
            replace_file(file, converted.result())
            pictures.append(file)
    return pictures


def drawn(figure: Figure, frame: polars.DataFrame) -> dict[str, Any]:
    """The Vega-Lite source of a figure, from the records of its parts."""
    # Altair would compare every part of the figure with its schema, which takes longer than the drawing.
    with debug_mode(False):
        return figure.draw(frame).to_dict(validate=False)


def _specification(reproduction: Reproduction, figure: Figure) -> str | None:
    if not reproduction.begun(figure.parts):
        return None
    frame = reproduction.frame(figure.parts, so_far=figure.so_far)
    if frame.is_empty():
        return None
    try:
        specification = in_letters(drawn(figure, frame))
    except Exception:
        if reproduction.missing(figure.parts)[0]:
            return None
        raise
    # A radius without end, or a loss beyond all numbers, is a gap in its curve and no reason to draw nothing.
    return json.dumps(plain(specification), indent=2, sort_keys=True, allow_nan=False)


def _as_file(specification: str, ending: Format) -> bytes:
    if ending == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(specification))
    if ending == "png":
        return bytes(vl_convert.vegalite_to_png(specification, ppi=_DOTS_PER_INCH))
    return str(vl_convert.vegalite_to_svg(specification)).encode()
