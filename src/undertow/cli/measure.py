"""One network measured: the seam profile, ranks, margins and radii, printed, as JSON, as a page."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import Tensor, nn

from undertow.adversary.robustness import robustness
from undertow.cli.checkpoints import network_from, samples_from
from undertow.cli.json_output import print_json
from undertow.core.adapting import MeasuredElsewhere
from undertow.core.errors import UndertowError
from undertow.jacobian.preconditions import prepare
from undertow.measures.margins import margins
from undertow.measures.rank import stable_rank
from undertow.measures.seam_profile import SeamProfileResult, seam_profile
from undertow.report.measured_page import write_page

__all__ = ["Measured", "measure_checkpoint"]


@dataclass(frozen=True)
class Measured:
    """Everything that is told of one network; sentences where something could not be measured."""

    checkpoint: str
    samples: int
    space: str
    energy: float
    status: str
    seams: list[dict[str, Any]]
    ranks: dict[str, dict[str, float]]
    margins: dict[str, float | None] | None
    radii: dict[str, float | int | None] | None
    notes: list[str]
    seconds: dict[str, float]


def measure_checkpoint(
    checkpoint: Path,
    *,
    model: str | None,
    data: str,
    points: int,
    radii: int,
    seams: tuple[str, ...],
    rtol: float,
    as_json: bool,
    html: Path | None,
) -> int:
    """Measure, print, and write the page where one is asked for."""
    net = network_from(checkpoint, model)
    x, y = samples_from(data, net, points=points)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", MeasuredElsewhere)
        profile, found = _measured(checkpoint, net, x, y, radii=radii, seams=seams, rtol=rtol)
    told = list(dict.fromkeys(str(each.message) for each in said if each.category is MeasuredElsewhere))
    found.notes[:0] = told[:1]
    if html is not None:
        write_page(html, asdict(found), profile.figure())
    if as_json:
        print_json(asdict(found))
    else:
        _print(found, html)
    return 0


def _measured(
    checkpoint: Path,
    net: nn.Module,
    x: Tensor,
    y: Tensor | None,
    *,
    radii: int,
    seams: tuple[str, ...],
    rtol: float,
) -> tuple[SeamProfileResult, Measured]:
    notes: list[str] = []
    seconds: dict[str, float] = {}
    begun = time.perf_counter()
    profile = seam_profile(net, x, seams=seams or None, rtol=rtol)
    seconds["seam profile"] = time.perf_counter() - begun
    ranks = {
        name: {"value": float(rank), "error": float(rank.error)} for name, rank in stable_rank(net).items()
    }
    if y is None:
        notes.append("Without labels, margins and radii are those of the network's own decisions.")
        y = _decisions(net, x)
    own = _tried(lambda: _margins(net, x, y), "margins", notes, seconds)
    few = slice(0, radii)
    bracket = _tried(lambda: _radii(net, x[few], y[few]), "radii", notes, seconds) if radii else None
    return profile, Measured(
        checkpoint=str(checkpoint),
        samples=profile.samples,
        space=profile.space,
        energy=profile.energy,
        status=profile.status.sentence,
        seams=profile.frame().to_dicts(),
        ranks=ranks,
        margins=own,
        radii=bracket,
        notes=notes,
        seconds={name: round(value, 3) for name, value in seconds.items()},
    )


def _tried(work: Any, name: str, notes: list[str], seconds: dict[str, float]) -> Any:
    """What is measured, or nothing and a note that says why."""
    begun = time.perf_counter()
    try:
        return work()
    except UndertowError as error:
        notes.append(f"No {name}: {error}")
        return None
    finally:
        seconds[name] = time.perf_counter() - begun


def _decisions(net: nn.Module, x: Tensor) -> Tensor:
    f, points = prepare(net, x, None)
    with torch.no_grad():
        scores = f(points)
    return (scores.reshape(-1) > 0).long() if scores[0].numel() == 1 else scores.reshape(len(x), -1).argmax(1)


def _margins(net: nn.Module, x: Tensor, y: Tensor) -> dict[str, float | None]:
    f, points = prepare(net, x, None)
    assert isinstance(f, nn.Module)
    found = margins(f, points, y)
    values = found.value.double()
    return {
        "smallest": float(found.smallest),
        "median": float(values.median()),
        "normalised": _finite(found.normalised),
        "share_right": float((values > 0).double().mean()),
    }


def _radii(net: nn.Module, x: Tensor, y: Tensor) -> dict[str, float | int | None]:
    found = robustness(net, x, y, shorten=False)
    return {
        "samples": len(x),
        "attacked_median": _finite(found.attacked.median()),
        "attacked_smallest": _finite(found.attacked.min()),
        "certified_median": _finite(found.certified.median()),
        "share_proved": found.share_proved,
        "estimate_median": _finite(found.estimate.median()),
    }


def _finite(number: Any) -> float | None:
    return float(number) if math.isfinite(float(number)) else None


def _print(found: Measured, html: Path | None) -> None:
    console = Console(highlight=False)
    table = Table("seam", "ϱ", "± numerical", "± sampling", "S(head)", "S(tail)", pad_edge=False, box=None)
    for row in found.seams:
        numbers = ("co_correlation", "error", "standard_error", "energy_head", "energy_tail")
        table.add_row(escape(row["seam"]), *(f"{row[name]:.3g}" for name in numbers))
    console.print(table)
    console.print(f"S(net) = {found.energy:.4g} on {found.samples} samples. {found.status}", markup=False)
    if found.space:
        console.print(f"Perturbations are measured at {found.space}.", markup=False)
    ranks = Table("weight", "stable rank", pad_edge=False, box=None)
    for name, rank in found.ranks.items():
        ranks.add_row(escape(name), f"{rank['value']:.4g}")
    console.print(ranks)
    for title, own in (("margins", found.margins), ("radii (L2)", found.radii)):
        if own is not None:
            words = ", ".join(
                f"{name} {'–' if value is None else f'{value:.4g}'}" for name, value in own.items()
            )
            console.print(f"{title}: {words}".replace("_", " "), markup=False)
    for note in found.notes:
        console.print(note, markup=False)
    costs = ", ".join(f"{name} {value:.2g} s" for name, value in found.seconds.items())
    console.print(f"It took: {costs}; the same again will cost no more.", markup=False)
    if html is not None:
        console.print(f"Written: {html}", markup=False)
