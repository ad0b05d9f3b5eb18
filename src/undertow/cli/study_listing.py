"""What can be reproduced: all studies with their costs, or one with its parts and claims."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from undertow.cli.json_output import print_json
from undertow.studies import STUDIES, find
from undertow.studies.kit.study import Scale, Study

__all__ = ["print_studies", "print_study"]

_FIRST_SCALES: tuple[Scale, ...] = ("smoke", "laptop")


def print_studies(*, as_json: bool) -> int:
    """Every study, and what it costs at the two scales that need no GPU."""
    found = [find(name) for name in STUDIES]
    if as_json:
        print_json([_row(study) for study in found])
        return 0
    console = Console(highlight=False)
    for study in found:
        _print_title(console, study)
        costs = "\n".join(f"{scale}: {study.costs[scale]}" for scale in _FIRST_SCALES)
        console.print(Padding(escape(costs), (0, 0, 1, 2)))
    console.print(
        "What one of them asks, at what scales and in what variants: [bold]undertow studies NAME[/]"
    )
    return 0


def print_study(name: str, *, as_json: bool) -> int:
    """One study: what it is about, its variants and costs, its parts, the sentences it tests."""
    study = find(name)
    if as_json:
        print_json(_row(study))
        return 0
    console = Console(highlight=False)
    _print_costs(console, study)
    console.print(Padding(escape(study.summary), (0, 0, 1, 2)))
    parts = (part + " (a table of your own)" * (part == study.own_data) for part in study.parts)
    console.print(f"[bold]--part[/], any of {len(study.parts)}")
    console.print(Padding(escape(", ".join(parts)), (0, 0, 1, 2)))
    console.print(f"[bold]claims[/], {len(study.claims)}")
    longest = max(len(claim.id) for claim in study.claims)
    for source, claims in groupby(study.claims, key=lambda claim: claim.source):
        console.print(Padding(escape(source), (0, 0, 0, 2)), style="dim")
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(min_width=longest)
        for claim in claims:
            table.add_row(claim.id, escape(claim.text))
        console.print(Padding(table, (0, 0, 0, 4)))
    console.print(f"\nRun it: [bold]undertow reproduce {study.name} --scale smoke[/]")
    return 0


def _print_title(console: Console, study: Study) -> None:
    console.print(f"[bold]{study.name}[/]  {escape(study.title)}")
    console.print(Padding(escape(study.source), (0, 0, 0, 2)), style="dim")


def _print_costs(console: Console, study: Study) -> None:
    _print_title(console, study)
    options = Table.grid(padding=(0, 2, 0, 0))
    for scale, cost in study.costs.items():
        options.add_row(f"--scale {scale}", escape(cost))
    for variant, meaning in study.variants.items():
        options.add_row(f"--variant {variant}", escape(meaning))
    console.print(Padding(options, (0, 0, 1, 2)))


def _row(study: Study) -> dict[str, Any]:
    return {
        "name": study.name,
        "title": study.title,
        "source": study.source,
        "costs": {str(scale): cost for scale, cost in study.costs.items()},
        "variants": dict(study.variants),
        "parts": list(study.parts),
        "claims": [claim.id for claim in study.claims],
    }
