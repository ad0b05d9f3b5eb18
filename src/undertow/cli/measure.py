"""One network measured: the seam profile, ranks, margins and radii, printed, as JSON, as a page."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import Tensor, nn

from undertow.cli.checkpoints import network_from, samples_from
from undertow.cli.json_output import print_json
from undertow.cli.measured_radii import Say, finite, radii_within
from undertow.core.adapting import MeasuredElsewhere
from undertow.core.deadline import Deadline, TimeUp
from undertow.core.errors import UndertowError
from undertow.jacobian.preconditions import prepare
from undertow.measures.margins import margins
from undertow.measures.rank import stable_rank
from undertow.measures.seam_profile import SeamProfileResult, seam_profile
from undertow.report.measured_page import write_page

__all__ = ["Measured", "measure_checkpoint"]

_FEW = 2  # samples that tell what the others will take


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
    limit: float,
    as_json: bool,
    html: Path | None,
) -> int:
    """Measure, print, and write the page where one is asked for."""
    net = network_from(checkpoint, model)
    x, y = samples_from(data, net, points=points)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", MeasuredElsewhere)
        profile, found = _measured(checkpoint, net, x, y, radii=radii, seams=seams, rtol=rtol, limit=limit)
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
    limit: float,
) -> tuple[SeamProfileResult, Measured]:
    notes: list[str] = []
    seconds: dict[str, float] = {}
    say = Console(stderr=True, highlight=False, markup=False).print
    begun = time.perf_counter()
    profile = _profile(net, x, seams, rtol, limit=limit / 2, say=say)
    seconds["seam profile"] = time.perf_counter() - begun
    if profile.samples < len(x):
        notes.append(
            f"All {len(x)} samples would take longer than --seconds {limit:g} allows: seams are on two."
        )
    ranks = {
        name: {"value": float(rank), "error": float(rank.error)} for name, rank in stable_rank(net).items()
    }
    if y is None:
        notes.append("Without labels, margins and radii are those of the network's own decisions.")
        y = _decisions(net, x)
    own = _tried(lambda: _margins(net, x, y), "margins", notes, seconds)
    few = slice(0, radii)
    rest = max(limit / 4, limit - (time.perf_counter() - begun))
    bracket = None
    if radii:
        say(f"radii of {min(radii, len(x))} samples: at most about {rest:.3g} s.")
        work = partial(radii_within, net, x[few], y[few], seconds=rest, say=say)
        bracket = _tried(work, "radii", notes, seconds)
    if bracket is not None and bracket["share_proved"] == 0:
        notes.append(
            "No radius is proved: a proof takes longer than --seconds allows, or is not known for this network."
        )
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


def _profile(
    net: nn.Module, x: Tensor, seams: tuple[str, ...], rtol: float, *, limit: float, say: Say
) -> SeamProfileResult:
    """On all samples, or, where the time is not enough for them, on two."""
    begun = time.perf_counter()
    profile = seam_profile(net, x[:_FEW], seams=seams or None, rtol=rtol)
    took = time.perf_counter() - begun
    if len(x) > _FEW:
        most = min(limit, took * len(x) / _FEW)
        say(f"seams: {_FEW} of {len(x)} samples took {took:.2g} s; all of them take {most:.2g} s at most.")
        with suppress(TimeUp), Deadline(limit):
            profile = seam_profile(net, x, seams=seams or None, rtol=rtol)
    return profile


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
        "normalised": finite(found.normalised),
        "share_right": float((values > 0).double().mean()),
    }


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
