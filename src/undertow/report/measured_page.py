"""One measured network as one HTML file that opens offline: the picture of its seams and the numbers behind it."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vl_convert

from undertow.drawing.letters import in_letters
from undertow.drawing.palette import DARK, LIGHT, css_variables
from undertow.store.atomic import make_folder, replace_file

if TYPE_CHECKING:
    import altair

__all__ = ["write_page"]

_STYLE = """
body { background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
       max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; overflow-wrap: anywhere; }
figure { background: var(--card); border: 1px solid var(--rule); border-radius: 6px; margin: 1rem 0; padding: 1rem; }
figure, .table { overflow-x: auto; }
figure svg { display: block; height: auto; width: 100%; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { border-bottom: 1px solid var(--rule); padding: .2rem .8rem; text-align: right; white-space: nowrap; }
td:first-child, th:first-child { min-width: 8rem; overflow-wrap: anywhere; padding-left: 0; text-align: left;
                                 white-space: normal; }
.muted { color: var(--muted); }
"""

_INK = "currentColor"  # of the page, which may be dark
_LOOKS = {
    "background": None,
    "axis": {
        "domainColor": _INK,
        "domainOpacity": 0.4,
        "gridColor": _INK,
        "gridOpacity": 0.12,
        "labelColor": _INK,
        "tickColor": _INK,
        "tickOpacity": 0.4,
        "titleColor": _INK,
        "titleFontWeight": "normal",
    },
    "legend": {"labelColor": _INK, "titleColor": _INK},
    "title": {"color": _INK},
    "view": {"stroke": None},
}
"""How a picture looks that stands on the page's own ground."""


def write_page(path: Path, found: dict[str, Any], figure: altair.TopLevelMixin | None) -> Path:
    """Write what was measured to ``path``; no request and no script is in it."""
    make_folder(path.parent)
    replace_file(path, _page(found, None if figure is None else _drawn(figure)).encode())
    return path


def _drawn(figure: altair.TopLevelMixin) -> str:
    specification = in_letters(figure.to_dict())
    looks = {**specification["config"], **_LOOKS}
    drawn: str = vl_convert.vegalite_to_svg(json.dumps({**specification, "config": looks}))
    width = re.search(r'width="([\d.]+)"', drawn)
    # As wide as the page, but never so small that its letters cannot be read: then it is moved sideways.
    least = 0 if width is None else round(0.75 * float(width[1]))
    return drawn.replace("<svg ", f'<svg style="min-width: {least}px" ', 1)


def _page(found: dict[str, Any], picture: str | None) -> str:
    columns = ("co_correlation", "error", "standard_error", "energy_head", "energy_tail")
    heads = ("ϱ", "± numerical", "± sampling", "S(head)", "S(tail)")
    seams = [(row["seam"], *(row[name] for name in columns)) for row in found["seams"]]
    ranks = [(name, rank["value"], rank["error"]) for name, rank in found["ranks"].items()]
    parts = [f"<h1>{escape(found['checkpoint'])}</h1>"]
    if picture is not None:
        energy = f"S(net) = {found['energy']:.4g} on {found['samples']} samples."
        parts += [f"<p>{energy} {escape(found['status'])}</p>", f"<figure>{picture}</figure>"]
        parts.append(_table(("seam", *heads), seams))
    for title in ("margins", "radii"):
        if found[title] is not None:
            rows = [(name.replace("_", " "), value) for name, value in found[title].items()]
            parts += [f"<h2>{title.capitalize()}</h2>", _table(("", "value"), rows)]
    if ranks:
        parts += ["<h2>Stable ranks</h2>", _table(("weight", "‖W‖²_F/‖W‖²", "error"), ranks)]
    parts += [f"<p class='muted'>{escape(note)}</p>" for note in found["notes"]]
    light, dark = (f":root {{ {css_variables(colours)} }}" for colours in (LIGHT, DARK))
    style = f":root {{ color-scheme: light dark; }} {light} @media (prefers-color-scheme: dark) {{ {dark} }}"
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(found['checkpoint'])}</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<style>{style}{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def _table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<div class='table'><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
