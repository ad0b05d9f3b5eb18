"""Figure 2's networks on one GPU, several processes side by side, in the order in which their verdicts matter.

A profile of a deep network is thousands of small launches and leaves a GPU partly idle: while one process measures,
others train. Every group is stored when it has ended, and weights are not kept; what has not ended after
``--seconds-budget`` is lost. With ``--pack`` the trials are put into files of 16 MiB whenever a group has ended, which
`study_parts.py --unpack` takes up. Beside other programs, ``UNDERTOW_GPU_SHARE=0.5`` keeps all workers together to half
of a GPU's memory.

    python benchmarks/deep_networks.py --scale smoke --jobs authors:deep-networks --runs RUNS
    python benchmarks/deep_networks.py --scale paper --workers 3 --runs RUNS --seconds-budget 540 --pack new
    python benchmarks/deep_networks.py --profile resnet-50 --points 1000          nine cuts to a certified 1e-2
    python benchmarks/deep_networks.py --steps resnet-50                          a training step, captured, in TF32
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from study_parts import Clock, machine, run
from torch import Tensor, nn

import undertow as ut
from undertow.config.grid import Group, StudyConfig
from undertow.execution.engines.processes import Processes
from undertow.models import imagenet_resnet
from undertow.store.carried import Packer
from undertow.store.store import Store
from undertow.studies import find
from undertow.studies.co_correlation.deep_networks.parts import CUTS
from undertow.training import Recipe, Trainer

_NEVER = 1e9  # seconds between checkpoints: they would not outlive the machine
_FILE, _FILES = 16 * 2**20, 4  # of --pack
_JOBS = (
    *("authors:deep-networks", "authors:deep-start", "authors:deep-statistics", "paper:deep-networks"),
    *("authors:deep-wide", "paper:deep-start", "paper:deep-wide"),
)


def batch(count: int, device: str) -> tuple[Tensor, Tensor]:
    """Noise of CIFAR's size: what is timed does not depend on what is seen."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, 3072, generator=generator) * 2 - 1
    return x.to(device), torch.randint(0, 10, (count,), generator=generator).to(device)


def network(architecture: str, *, width: int, start: float, device: str) -> nn.Module:
    """A fresh network whose BatchNorms have seen a batch."""
    net = imagenet_resnet(
        architecture, width=width, residual_start=start, generator=torch.Generator().manual_seed(0)
    ).to(device)
    with torch.no_grad():
        for _ in range(20):
            net(batch(128, device)[0])
    return net.eval()


def time_profile(architecture: str, points: int, *, starts: Sequence[float], width: int, device: str) -> None:
    """Seconds for ϱ at all nine cuts, a second time once libraries are loaded, and the largest error."""
    for start in starts:
        net, (x, _) = network(architecture, width=width, start=start, device=device), batch(points, device)
        for turn in ("first", "again"):
            began = time.monotonic()
            found = ut.seam_profile(net, x, seams=CUTS, rtol=1e-2)
            seconds = time.monotonic() - began
            print(
                f"{architecture}, residual branches from {start:g}, {points} points, nine cuts, {turn}: "
                f"{seconds:.2f} s, error of ϱ at most {max(found.error):.1e}, {found.status}",
                flush=True,
            )
        print("  ϱ " + "  ".join(f"{row.seam} {row.co_correlation:.3f}" for row in found.rows))


def time_steps(architecture: str, *, width: int, device: str) -> None:
    """Milliseconds of a step of one network and of two side by side, BatchNorm by the batch and frozen."""
    size = 1024 if device == "cuda" else 16
    for members in (1, 2):
        recipe = Recipe(
            optimizer="adam", learning_rate=5e-4, batch_size=size, epochs=60, shuffle=False,
            matmul_precision="tf32", batch_statistics_epochs=30,
        )  # fmt: skip
        nets = [
            imagenet_resnet(architecture, width=width, generator=torch.Generator().manual_seed(seed))
            for seed in range(members)
        ]
        trainer = Trainer(nets, *batch(2 * size, device), [recipe] * members)
        trainer.advance(4)
        for mode in ("by the batch", "frozen"):
            steps = 20 if device == "cuda" else 2
            trainer.wait()
            began = time.monotonic()
            trainer.advance(steps)
            trainer.wait()
            each = 1e3 * (time.monotonic() - began) / steps / members
            print(f"{architecture} × {members}, BatchNorm {mode}: {each:.1f} ms a step", flush=True)
            trainer.advance(max(0, 62 - trainer.step))
        del trainer


class PackingClock(Clock):
    """Also packs what there is whenever a group has ended."""

    def __init__(
        self, store: Store, grids: tuple[StudyConfig, ...], workers: int, folder: Path | None
    ) -> None:
        super().__init__(store, grids, workers)
        self._packer = Packer(store, folder, largest=_FILE, most=_FILES) if folder else None

    def ended(self, group: Group, *, finished: bool) -> None:
        super().ended(group, finished=finished)
        if finished and self._packer:
            self._packer.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", choices=("smoke", "laptop", "paper"), default="smoke")
    parser.add_argument("--jobs", nargs="+", default=_JOBS, help="variant:part, the most important first")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--seconds-budget", type=float, default=float("inf"))
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--profile", help="time a profile of this architecture instead")
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--starts", type=float, nargs="+", default=[0.0, 1.0], help="of residual branches")
    parser.add_argument("--steps", help="time training steps of this architecture instead")
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"on {machine()}, torch {torch.__version__}", flush=True)
    if options.profile:
        time_profile(
            options.profile, options.points, starts=options.starts, width=options.width, device=device
        )
    if options.steps:
        time_steps(options.steps, width=options.width, device=device)
    if options.runs is None:
        return
    study = find("co-correlation")
    named = [job.split(":") for job in options.jobs]
    grids = [grid for variant, part in named for grid in study.grids(options.scale, variant, parts=[part])]
    store = Store(options.runs)
    engine = Processes(options.workers, checkpoint_seconds=_NEVER, keep_weights=False)
    clock = PackingClock(store, tuple(grids), options.workers, options.pack)
    seconds = run(store, tuple(grids), clock, budget=options.seconds_budget, using=engine)
    print(f"together {seconds:.1f} s")


if __name__ == "__main__":
    main()
