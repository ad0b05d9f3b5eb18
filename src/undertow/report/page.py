"""The HTML report of a store: one file that opens offline.

Figures and grids travel as gzipped JSON in base64 and are unpacked by the browser when they come into view. The page
allows itself no request at all, and no script but the two it was written with (by their checksums).
"""

from __future__ import annotations

import base64
import datetime
import functools
import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from undertow import __version__
from undertow.drawing.palette import DARK, LIGHT, MARKS, css_variables
from undertow.report import words
from undertow.report.contents import Contents, Picture, Run, gather
from undertow.report.interval_bar import Evidence, bars
from undertow.store.atomic import make_folder, replace_file
from undertow.store.store import Store
from undertow.store.tolerant import ReadableStore
from undertow.studies.kit.claim import Verdict
from undertow.studies.kit.ledger import Entry, judge
from undertow.studies.kit.reproduction import reproductions

__all__ = ["render", "write_report"]

_ASSETS = Path(__file__).parent / "assets"
_SCRIPTS = ("base", "theme", "ledger", "looks", "figures", "series", "saving", "charts", "browser", "start")
_VERDICTS = ("holds", "fails", "undecided")


def write_report(store: Store | Path | str, path: Path | str) -> Path:
    """Write the report of a store, or of the folder of one, to ``path`` and return that.

    What is missing or damaged is left out, and the report says so.
    """
    if not isinstance(store, ReadableStore):
        store = ReadableStore(store.path if isinstance(store, Store) else store)
    judged = [(each, judge(each)) for each in reproductions(store)]
    page = render(gather(store, judged))
    path = Path(path)
    make_folder(path.parent)
    replace_file(path, page.encode())
    return path


def render(contents: Contents) -> str:
    """The report as HTML."""
    loader = jinja2.FileSystemLoader(_ASSETS)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.get_template("page.html")
    pictures: list[dict[str, Any]] = []
    groups = [_group(runs, pictures) for runs in _by_study(contents.runs)]
    claims = _claims(contents.runs)
    tally = [(verdict, sum(run.verdicts[verdict] for run in contents.runs)) for verdict in _VERDICTS]
    # What these hold is ours or packed: everything else in the page is escaped by the template.
    library, script = _library(), _script()
    return template.render(
        allowed=Markup(" ".join(f"'sha256-{_checksum(each)}'" for each in (library, script))),
        style=Markup(_style()),
        library=Markup(library),
        script=Markup(script),
        figures=_packed({"figures": pictures, "tables": contents.tables}),
        grids=[(grid, _packed(grid)) for grid in contents.grids],
        anchors={"claim": _claim_anchor},
        claims=[claim for claim in claims if not claim["check"]],
        checks=[claim for claim in claims if claim["check"]],
        check_tally=[
            (verdict, verdict.name.lower(), sum(run.checks[verdict] for run in contents.runs))
            for verdict in (Verdict.KEPT, Verdict.VIOLATED)
        ],
        contents=contents,
        facts=words.facts(contents),
        groups=groups,
        headline=words.headline(contents),
        lead=words.lead(contents),
        lines=any(row["bar"] and row["bar"].line is not None for claim in claims for row in claim["rows"]),
        made=datetime.datetime.now().astimezone().strftime("%-d %B %Y, %H:%M %Z"),
        marks=MARKS,
        studies=list(dict.fromkeys(run.study for run in contents.runs if run.entries)),
        tally=tally,
        tally_words=words.listed([f"{number} {verdict}" for verdict, number in tally if number]),
        variants=list(dict.fromkeys(run.variant for run in contents.runs if run.entries)),
        version=__version__,
        words=words,
    )


def _by_study(runs: Sequence[Run]) -> list[list[Run]]:
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.study, run.scale), []).append(run)
    return list(groups.values())


def _group(runs: list[Run], pictures: list[dict[str, Any]]) -> dict[str, Any]:
    """A study at one scale, its variants side by side; their figures are added to ``pictures``."""
    first = runs[0]
    by_name: dict[str, dict[str, Any]] = {}
    for run in runs:
        for picture in run.pictures:
            figure = by_name.setdefault(
                picture.name,
                {
                    "name": picture.name,
                    "caption": picture.caption,
                    "anchor": _figure_anchor(run, picture.name),
                    "cells": [],
                },
            )
            figure["cells"].append(_cell(run, picture, pictures))
    names = ("title", "summary", "source", "scale")
    return {
        **{name: getattr(first, name) for name in names},
        "runs": runs,
        "figures": list(by_name.values()),
        "printed": _printed(runs),
    }


def _printed(runs: list[Run]) -> list[dict[str, Any]]:
    """Every number that the paper printed once, with ours in each of the runs, in their order."""
    rows: dict[str, dict[str, Any]] = {}
    for place, run in enumerate(runs):
        for each in run.printed:
            row = rows.setdefault(each.what, {"number": each, "ours": [""] * len(runs)})
            row["ours"][place] = each.ours
    return list(rows.values())


def _cell(run: Run, picture: Picture, pictures: list[dict[str, Any]]) -> dict[str, Any]:
    number = None
    if picture.spec is not None:
        number = len(pictures)
        pictures.append({"spec": picture.spec, "columns": picture.columns})
    return {
        "number": number,
        "variant": run.variant,
        "meaning": "; ".join(filter(None, (words.seeds(run.seed_set), run.meaning))),
        "problem": picture.problem,
        "height": 300,
        "file": f"{run.parts[0].whole}.{picture.name}",
    }


def _claims(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Every claim once, with its finding in each variant and at each scale."""
    claims: dict[str, dict[str, Any]] = {}
    for run in runs:
        drawn = {picture.name for picture in run.pictures if picture.spec is not None}
        for entry in run.entries:
            claim = claims.setdefault(
                _claim_anchor(entry),
                {
                    "anchor": _claim_anchor(entry),
                    "id": entry.claim.id,
                    "study": entry.study,
                    "text": entry.claim.text,
                    "source": entry.claim.source,
                    "check": entry.is_check,
                    "rows": [],
                },
            )
            figure = _figure_anchor(run, entry.claim.figure) if entry.claim.figure in drawn else None
            claim["rows"].append(
                {
                    "variant": run.variant,
                    "scale": run.scale,
                    "seed_set": run.seed_set,
                    "verdict": entry.verdict,
                    "style": entry.verdict.name.lower(),
                    "words": words.finding(entry.finding),
                    "among": words.among(entry),
                    "note": entry.finding.note,
                    "asides": words.asides(entry),
                    "figure": figure,
                    "evidence": Evidence(entry.finding.effect, entry.finding.interval, entry.finding.line),
                }
            )
    for claim in claims.values():
        for row, bar in zip(claim["rows"], bars([row["evidence"] for row in claim["rows"]]), strict=True):
            row["bar"] = bar
    return list(claims.values())


def _claim_anchor(entry: Entry) -> str:
    return f"claim-{entry.study}-{entry.claim.id}"


def _figure_anchor(run: Run, name: str | None) -> str:
    return f"figure-{run.study}-{run.scale}-{name}"


def _packed(document: Any) -> str:
    data = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    return base64.b64encode(gzip.compress(data, compresslevel=6, mtime=0)).decode()


def _style() -> str:
    light, dark = css_variables(LIGHT), css_variables(DARK)
    colours = (
        f":root {{ color-scheme: light; {light} }} "
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ color-scheme: dark; {dark} }} }} "
        f":root[data-theme=dark] {{ color-scheme: dark; {dark} }}"
    )
    return "\n".join([colours, *((_ASSETS / f"{name}.css").read_text() for name in ("theme", "report"))])


def _script() -> str:
    parts = [(_ASSETS / "script" / f"{name}.js").read_text() for name in _SCRIPTS]
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();"


@functools.cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script."""
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _checksum(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
