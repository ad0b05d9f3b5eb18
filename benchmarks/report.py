"""What a report of a paper-scale grid costs: seconds to build, bytes, seconds to open, milliseconds per click.

The store is real and published as any other; only its records are made up, so that nothing need be trained: the
co-correlation study's grid at paper scale, 140 networks of 51 moments and about ten readings each in two variants,
with spectra and adversarial examples. Opening and clicking are measured in Chromium.
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from undertow.config.grid import StudyConfig
from undertow.config.trial import TrialConfig
from undertow.core.tensor_files import pack
from undertow.probe.records import Record
from undertow.store.provenance import environment
from undertow.store.record_files import encode_all
from undertow.store.store import Store
from undertow.store.stored_trial import FinishedTrial
from undertow.studies import find

_FACTORS = (
    "co_correlation",
    "linear_correlation",
    "relative_std",
    "energy_head",
    "energy_tail",
    "energy",
    "identity_gap",
)
_COMMAND = "from undertow.cli import main; main()"
_CHROMIUM = "/usr/bin/chromium"
_QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
]


def readings(measure: dict[str, Any]) -> list[str]:
    """The keys that a measure of a configuration writes."""
    name = measure["name"]
    if name == "collaboration":
        return [f"{measure['seam']}:{factor}" for factor in _FACTORS]
    if name == "spectrum":
        return [f"hidden.weight:{index}" for index in range(measure["count"])]
    if name == "robust-accuracy":
        return [repr(eps) for eps in measure["eps"]]
    known = {
        "accuracy": [""],
        "energy": [""],
        "loss": ["mean", "log10"],
        "stable-rank": ["hidden.weight", "output.weight"],
    }
    return known[name]


def made_up(trial: TrialConfig, moments: int) -> Iterator[Record]:
    """Records of a trial that was never run: every reading rises from one level to another, with some noise."""
    chance = random.Random(trial.id)
    steps = 100
    for measure in trial.probe.measures:
        every = measure.get("every") or trial.probe.every
        epochs = {"end": [moments - 1], "ends": [0, moments - 1]}.get(str(every), range(moments))
        for key in readings(measure):
            start, end = sorted((chance.uniform(0.1, 0.5), chance.uniform(0.3, 0.95)))
            for epoch in epochs:
                level = start + (end - start) * (1 - math.exp(-5 * epoch / moments)) + chance.gauss(0, 0.005)
                yield Record(trial.id, epoch * steps, epoch, measure["name"], key, level, 1e-5)


def examples(count: int) -> bytes:
    generator = torch.Generator().manual_seed(0)
    clean = torch.rand(count, 784, generator=generator) * (torch.rand(count, 784, generator=generator) < 0.2)
    return pack(
        {
            "x": clean,
            "adversarial": clean + 0.02 * torch.randn(count, 784, generator=generator),
            "label": torch.arange(count) % 10,
            "predicted": (torch.arange(count) + 1) % 10,
            "distance": torch.full((count,), 0.5),
        }
    )


def publish(store: Store, grid: StudyConfig) -> int:
    """Fill a store with a grid's trials; returns how many records they hold."""
    store.add_study(grid)
    pictures, weights = examples(8), pack({"hidden.weight": torch.zeros(2, 2)})
    provenance = {
        **environment(),
        "data": {"name": "made up", "checksum": "0" * 64, "samples": 0},
        "group": {"id": "0" * 16, "size": len(grid.points)},
        "cost": {"seconds": 1.0, "restarts": 0},
    }
    number = 0
    finished = []
    for point in grid.points:
        records = list(made_up(point.trial, grid.training.epochs + 1))
        number += len(records)
        finished.append(
            FinishedTrial(
                config=point.trial,
                records=encode_all(records),
                weights=weights,
                status={"status": "finished", "step": 100 * grid.training.epochs, "reason": None},
                provenance={**provenance, "seeds": {"trial": point.trial.seed, "data": None}},
                examples=pictures,
            )
        )
    store.publish(finished)
    return number


def build(runs: Path, report: Path) -> float:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", _COMMAND, "report", str(runs), "-o", str(report)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


_CLICK = """(selector) => new Promise((done) => {
  const control = document.querySelector(selector), began = performance.now();
  if (control.tagName === "SELECT") {
    control.selectedIndex = (control.selectedIndex + 1) % control.options.length;
    control.dispatchEvent(new Event("change", { bubbles: true }));
  } else control.click();
  document.body.getBoundingClientRect();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
})"""


def open_and_click(report: Path) -> dict[str, float]:
    """Seconds until the page can be read and used, and milliseconds from a click to the picture it makes."""
    from playwright.sync_api import sync_playwright

    found: dict[str, float] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_QUIET)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        began = time.perf_counter()
        page.goto(report.as_uri())
        found["open (s)"] = time.perf_counter() - began
        page.wait_for_selector("#browser-view .chart")
        found["all usable (s)"] = time.perf_counter() - began
        clicks = {
            "verdict filter": ".toggle",
            "study filter": "#filter-study",
            "another grid": "#browser-grid",
        }
        clicks |= {"another width": "[data-axis=width]", "all seeds and q": "[data-axis=q]"}
        for name, selector in clicks.items():
            if page.locator(selector).count():
                found[f"{name} (ms)"] = sorted(page.evaluate(_CLICK, selector) for _ in range(5))[2]
        for axis in page.locator("#browser-controls [data-axis]:visible").all():
            axis.select_option("")
        found["60 networks at once (ms)"] = page.evaluate(_CLICK, "[data-axis=activation]")
        card = page.locator(".card[data-figure]").first
        card.scroll_into_view_if_needed()
        began = time.perf_counter()
        page.wait_for_selector(".card[data-drawn=yes]")
        found["first figure, seen (s)"] = time.perf_counter() - began
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="grid", help="which part of the co-correlation study")
    parser.add_argument("--keep", type=Path, help="keep the store and the report in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        runs, report = folder / "runs", folder / "report.html"
        study = find("co-correlation")
        grids = [study.grids("paper", variant, parts=[options.part])[0] for variant in ("paper", "authors")]
        records = sum(publish(Store(runs), grid) for grid in grids)
        print(
            f"{sum(len(grid.points) for grid in grids)} networks, {records:,} records, {len(study.figures)} figures"
        )
        print(f"build   {build(runs, report):6.1f} s   (bar: 20 s)")
        print(f"size    {report.stat().st_size / 1e6:6.2f} MB  (bar: 8 MB)")
        if not Path(_CHROMIUM).exists():
            print(f"opening and clicking are not measured: there is no {_CHROMIUM}")
            return
        for name, value in open_and_click(report).items():
            print(f"{name:28} {value:8.2f}")
        print("bars: open 2 s, each click 100 ms")


if __name__ == "__main__":
    main()
