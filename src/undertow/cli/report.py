"""Writing reports from the command line."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from undertow.cli.show import print_problems
from undertow.report.figures import Format, draw
from undertow.report.page import write_report
from undertow.store.tolerant import ReadableStore
from undertow.studies.kit.reproduction import reproductions

__all__ = ["make_report"]


def make_report(runs: Path, output: Path, *, figures: Format | None) -> int:
    """Write the report, and the figures as files where a format is given; say where they are."""
    console = Console(highlight=False, soft_wrap=True)
    store = ReadableStore(runs)
    path = write_report(store, output)
    size = path.stat().st_size / 1e6
    print_problems(store, console)
    if figures is not None:
        drawn = [picture for each in reproductions(store) for picture in draw(each, formats=[figures])]
        if drawn:
            folder = store.path / "figures"
            console.print(f"Figures:  {len(drawn)} as {figures} under {escape(shlex.quote(str(folder)))}")
        else:
            console.print("Figures:  none, because the studies here draw none or have no finished trials.")
    console.print(f"Report:   [bold]{escape(shlex.quote(str(path)))}[/]  ({size:.1f} MB, opens offline)")
    return 0
