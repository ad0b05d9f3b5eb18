"""The co-correlation study's full grid at paper scale: where the seconds go, group by group.

One variant is 140 networks: widths 2⁴ … 2¹³ × 7 q × {linear, ReLU}, trained on MNIST's 60,000 images for 50 epochs,
with ϱ on all 10,000 test points at 51 moments; 20 groups of 7 networks. Everything goes the way of `undertow
reproduce`: same trials, same store, weights not kept. The times are those that every trial's provenance holds.

    python benchmarks/paper_grid.py --variant authors                one GPU: the whole grid, without attacks
    python benchmarks/paper_grid.py --attack                         and robust accuracy in the end
    python benchmarks/paper_grid.py --widths 512 8192 --epochs 3     a sample of it, with a projection to 50 epochs
    python benchmarks/paper_grid.py --warm --rtol 5e-3               norms started from those of the epoch before
    python benchmarks/paper_grid.py                                  without a GPU: a small sample

What to expect of one H200 (4 TB/s; 350 TFLOP/s in TF32, 50 in float32), in seconds for a whole variant:

- Training. Forward, and backward for W alone: 4·784·m·60,000 FLOP per network-epoch, 1.5 TFLOP at m = 8192;
  measured 4.0e-2 s there, in proportion to m below, and about 2e-3 s where launches decide. 14 networks × 50
  epochs × (4.0 + 2.0 + 1.0 + 0.5 + 0.35 + 5 × 0.2)e-2 ≈ 62 s.
- Tails ReLU(Wx), m ≥ 1024. A Lanczos step for 10,000 points is two products of 2·784·m FLOP each, in three TF32
  parts (2.2 ms at m = 8192), traffic of the m-wide vectors (0.8 ms there), and 0.7 ms of orthogonalising at any
  width: 3.7, 2.2, 1.5, 1.1 ms for m = 8192 … 1024. Times 60 steps on average, 7 networks, 51 moments: 79 + 47 +
  32 + 24 ≈ 180 s from cold starts; warm ones take about half of the steps.
- Tails with 128 ≤ m ≤ 512: W Wᵀ in place of W and Wᵀ, 7 networks as one batch; 5 to 12 s a width, 25 s in all,
  most of it orthogonalising. m ≤ 64: exact, some 5 s a width.
- Bounds (tridiagonal matrices of up to 70,000 points): six to ten checks of 5 ms at every moment, 51 × 7 × 40
  ms ≈ 15 s.
- Whole networks: one logit is a gradient; ten classes are ten products of 2·784·m FLOP per point, 15 s over all
  widths, and Gram matrices of size 10.
- Linear networks: one matrix each, about 1 s a width.

Together five minutes from cold starts (`paper`), under four from warm ones; ten classes add half a minute.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from study_parts import Clock, machine, run

from undertow.config.grid import Group, StudyConfig
from undertow.config.trial import validate
from undertow.store.store import Store
from undertow.studies import find

EPOCHS = 50
ATTACKS = ("robust-accuracy",)


def wanted(options: argparse.Namespace) -> StudyConfig:
    """The full grid with what the command line changes of it."""
    (study,) = find("co-correlation").grids("paper", options.variant, parts=("full-grid",))
    document = study.model_dump(mode="json")
    measures = [
        each for each in document["probe"]["measures"] if options.attack or each["name"] not in ATTACKS
    ]
    for each in measures:
        if each["name"] == "collaboration":
            each.update({"rtol": options.rtol or each["rtol"], "warm": options.warm})
        if options.points:
            each["limit"] = options.points
    document["probe"].update({"measures": measures, "limit": options.points or document["probe"]["limit"]})
    document["training"]["epochs"] = options.epochs
    document["data"]["limit"] = options.samples
    document["grid"]["width"] = options.widths or document["grid"]["width"]
    document["grid"]["activation"] = options.activations or document["grid"]["activation"]
    return validate(StudyConfig, document)


class GridClock(Clock):
    def describe(self, group: Group) -> str:
        model: Any = group.trials[0].model
        return f"{model.activation:>6} {model.width:>5} × {len(group.trials)}"


def conclude(clock: Clock, options: argparse.Namespace, *, whole: float) -> None:
    """The totals, and what they would be at the paper's number of epochs."""
    moments = (EPOCHS + 1) / (options.epochs + 1)
    once = {*ATTACKS, "spectrum", "rest"}  # taken at the ends alone, however many epochs there are
    projected = 0.0
    for name, seconds in sorted(clock.seconds.items(), key=lambda item: -item[1]):
        more = EPOCHS / options.epochs if name == "training" else 1.0 if name in once else moments
        projected += more * seconds
        print(f"{name:>16} {seconds:8.1f} s   at {EPOCHS} epochs {more * seconds:8.1f} s")
    print(f"{'together':>16} {whole:8.1f} s   at {EPOCHS} epochs {projected:8.1f} s")


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--variant", choices=("paper", "paper-low-high", "authors"), default="paper")
    parser.add_argument("--widths", type=int, nargs="+", default=None if gpu else [16, 256])
    parser.add_argument("--activations", nargs="+", choices=("linear", "relu"))
    parser.add_argument("--epochs", type=int, default=EPOCHS if gpu else 1)
    parser.add_argument("--attack", action="store_true", help="robust accuracy after training")
    parser.add_argument("--rtol", type=float, help="of every Jacobian norm")
    parser.add_argument("--warm", action="store_true", help="start norms from those of the epoch before")
    parser.add_argument("--samples", type=int, default=None if gpu else 2000, help="train on so many")
    parser.add_argument("--points", type=int, default=None if gpu else 100, help="measure on so many")
    parser.add_argument("--runs", type=Path, help="keep the trials in this folder")
    parser.add_argument("--seconds-budget", type=float, default=float("inf"), help="stop after so long")
    options = parser.parse_args()

    print(f"co-correlation, full-grid, {options.variant}, on {machine()}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as scratch:
        store, studies = Store(options.runs or scratch), (wanted(options),)
        clock = GridClock(store, studies)
        whole = run(store, studies, clock, budget=options.seconds_budget)
        conclude(clock, options, whole=whole)
    if gpu:
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
