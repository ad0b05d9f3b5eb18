"""One network measured: the seam profile, ranks, margins and radii, printed, as JSON, as a page."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from torch import Tensor, nn

from undertow.cli.checkpoints import network_from
from undertow.cli.json_output import print_json
from undertow.cli.measured_radii import attacked_within, finite, proved_within, radii_told
from undertow.cli.measured_seams import profile_within
from undertow.cli.samples import Samples, samples_from
from undertow.core.adapting import Adapted, MeasuredElsewhere
from undertow.core.deadline import Deadline, TimeUp
from undertow.core.errors import ModelError, UndertowError
from undertow.core.outputs import picked_output
from undertow.core.scoring import margins_of
from undertow.core.token_inputs import last_tokens
from undertow.jacobian.preconditions import prepare
from undertow.measures.margins import margins
from undertow.measures.rank import stable_rank
from undertow.measures.seam_profile import SeamProfileResult
from undertow.report.measured_page import write_page

__all__ = ["Measured", "measure_checkpoint"]

T = TypeVar("T")
_SHARES = {"seam profile": 0.5, "attacks": 0.75, "ranks": 0.85, "normalised margin": 0.9}
"""By which share of --seconds each is to have ended; proofs have what is left, as they may take any time."""


@dataclass(frozen=True)
class Measured:
    """Everything that is told of one network; sentences where something could not be measured."""

    checkpoint: str
    samples: int
    space: str
    energy: float | None
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
    label: str | None,
    normalise: str | None,
    output: str | None,
    points: int,
    radii: int,
    seams: tuple[str, ...],
    rtol: float,
    limit: float,
    as_json: bool,
    html: Path | None,
) -> int:
    """Measure, print, and write the page where one is asked for."""
    begun = time.perf_counter()
    net = network_from(checkpoint, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeasuredElsewhere)  # it is said with what is measured
        given = samples_from(data, net, points=points, label=label, normalise=normalise, output=output)
    clock = _Clock(max(limit / 2, limit - (time.perf_counter() - begun)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", MeasuredElsewhere)
        profile, found = _measured(checkpoint, net, given, radii=radii, seams=seams, rtol=rtol, clock=clock)
    told = list(dict.fromkeys(str(each.message) for each in said if each.category is MeasuredElsewhere))
    found.notes[:0] = [*told[:1], *given.notes]
    if as_json:
        print_json(asdict(found))
    else:
        _print(found)
    if html is not None:  # last: where it cannot be written, what was measured has been told
        write_page(html, asdict(found), None if profile is None else profile.figure())
        if not as_json:
            Console(highlight=False).print(f"Written: {html}", markup=False)
    return 0


def _measured(
    checkpoint: Path,
    net: nn.Module,
    given: Samples,
    *,
    radii: int,
    seams: tuple[str, ...],
    rtol: float,
    clock: _Clock,
) -> tuple[SeamProfileResult | None, Measured]:
    notes, say = clock.notes, Console(stderr=True, highlight=False, markup=False).print
    y = given.y
    if y is None:
        notes.append("Without labels, margins and radii are those of the network's own decisions.")
        y = _decisions(net, given)
    own = clock.tried("margins", lambda _: _margins(net, given, y))
    profile, left_out = clock.timed(
        "seam profile",
        lambda seconds: profile_within(
            net, given, seams, rtol, seconds=seconds, at_most=clock.left("attacks"), say=say
        ),
    )
    notes += left_out
    attacked = proved = None
    few = slice(0, radii)
    if radii:
        attacked = clock.tried(
            "attacks", lambda seconds: attacked_within(net, given.part(few), y[few], seconds=seconds)
        )
        if attacked is not None and not attacked:
            notes.append("No radii: one sample's takes longer than --seconds allows.")
    ranks = clock.tried("ranks", lambda _: stable_rank(net)) or {}
    if own is not None:
        own["normalised"] = clock.tried("normalised margin", lambda _: _normalised(net, given, y))
    if attacked:
        say(f"proofs of radii: at most {clock.left('proofs'):.2g} s.")
        proved = clock.tried(
            "proofs", lambda seconds: proved_within(net, given.part(few), y[few], seconds=seconds)
        )
        if not any(bool(each.proved.any()) for each in proved or ()):
            notes.append(
                "No radius is proved: a proof takes longer than --seconds allows, or is not known for this network."
            )
    return profile, Measured(
        checkpoint=str(checkpoint),
        samples=0 if profile is None else profile.samples,
        space="" if profile is None else profile.space,
        energy=None if profile is None else profile.energy,
        status="" if profile is None else profile.status.sentence,
        seams=[] if profile is None else profile.frame().to_dicts(),
        ranks={name: {"value": float(rank), "error": float(rank.error)} for name, rank in ranks.items()},
        margins=own,
        radii=radii_told(attacked or (), proved or (), asked=min(radii, len(given))),
        notes=notes,
        seconds={name: round(value, 3) for name, value in clock.seconds.items()},
    )


class _Clock:
    """What each measure may take and has taken; what has no time, or fails, is a note."""

    def __init__(self, limit: float) -> None:
        self.limit, self.begun = limit, time.perf_counter()
        self.notes: list[str] = []
        self.seconds: dict[str, float] = {}

    def left(self, name: str) -> float:
        """Seconds until this one is to have ended; at least a second, in which small networks are done with."""
        return max(1.0, self.begun + _SHARES.get(name, 1.0) * self.limit - time.perf_counter())

    def timed(self, name: str, work: Callable[[float], T]) -> T:
        begun = time.perf_counter()
        try:
            return work(self.left(name))
        finally:
            self.seconds[name] = time.perf_counter() - begun

    def tried(self, name: str, work: Callable[[float], T]) -> T | None:
        """What is measured, or nothing and a note that says why."""
        try:
            with Deadline(self.left(name)):
                return self.timed(name, work)
        except UndertowError as error:
            self.notes.append(f"No {name}: {error}")
        except TimeUp:
            self.notes.append(f"No {name} within --seconds.")
        return None


def _decisions(net: nn.Module, given: Samples) -> Tensor:
    f, points = prepare(net, given.x, None, **given.options)
    with torch.no_grad():
        scores = f(points)
    return (
        (scores.reshape(-1) > 0).long()
        if scores[0].numel() == 1
        else scores.reshape(len(given), -1).argmax(1)
    )


def _margins(net: nn.Module, given: Samples, y: Tensor) -> dict[str, float | None]:
    """Of the scores as they are; what they are worth by the size of the weights takes longer, see ``_normalised``."""
    f, points = prepare(net, given.x, None, **given.options)
    with torch.no_grad():
        values = margins_of(f(points).reshape(len(given), -1).double(), y, "auto")[0]
    return {
        "smallest": float(values.min()),
        "median": float(values.median()),
        "share_right": float((values > 0).double().mean()),
    }


def _normalised(net: nn.Module, given: Samples, y: Tensor) -> float | None:
    f, points = prepare(net, given.x, None, **given.options)
    assert isinstance(f, nn.Module)
    if given.extras:
        raise ModelError("the norm of the weights is compared on samples without extras.")
    if not (isinstance(f, Adapted) and f.entry is not None):
        return finite(margins(f, points, y).normalised)
    # Tokens: the network as it stands takes any number of them.
    output = (lambda found: last_tokens(picked_output(found, None), None)) if f.last else given.output
    return finite(margins(net, given.x, y, output=output).normalised)


def _print(found: Measured) -> None:
    console = Console(highlight=False)
    table = Table(
        Column("seam", overflow="fold"),
        "ϱ",
        "± numerical",
        "± sampling",
        "S(head)",
        "S(tail)",
        pad_edge=False,
        box=None,
    )
    for row in found.seams:
        numbers = ("co_correlation", "error", "standard_error", "energy_head", "energy_tail")
        table.add_row(escape(row["seam"]), *(f"{row[name]:.3g}" for name in numbers))
    if found.energy is not None:
        console.print(table)
        console.print(f"S(net) = {found.energy:.4g} on {found.samples} samples. {found.status}", markup=False)
    if found.space:
        console.print(f"Perturbations are measured at {found.space}.", markup=False)
    ranks = Table(Column("weight", overflow="fold"), "stable rank", pad_edge=False, box=None)
    for name, rank in found.ranks.items():
        ranks.add_row(escape(name), f"{rank['value']:.4g}")
    if found.ranks:
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
