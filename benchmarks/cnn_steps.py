"""How long a training step of the margin study's CNN takes on a GPU, alone and five networks side by side.

    python benchmarks/cnn_steps.py                        MNIST's sizes, batch 100: float32, compiled, TF32, both
    python benchmarks/cnn_steps.py --members 1 5 10 --variants float32 compiled
    python benchmarks/cnn_steps.py --kernels 30           what one step consists of, on the device
    python benchmarks/cnn_steps.py --variants compiled --tries 3      and what a try does: an epoch, then the whole loss
    python benchmarks/cnn_steps.py --device cpu --samples 400 --steps 4 --variants float32      to see that it runs

Images are random: the time of a step does not depend on them. Steps follow the loss-based rate, as in the study. Before
the times, networks trained side by side are compared with each alone, and compiled ones with those that are not.
``plain`` is the least that a framework does: forward, cross-entropy, backward and w ← w − ηg as one graph.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from undertow.core.precision import deterministic_convolutions, matmul_precision
from undertow.models import cnn
from undertow.training import LossBased, Recipe, Trainer
from undertow.training.capture import capture

VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {},
    "compiled": {"compiled": True},
    "tf32": {"matmul_precision": "tf32"},
    "tf32-compiled": {"matmul_precision": "tf32", "compiled": True},
}
PLAIN = {
    "plain": (True, False),
    "plain-channels-last": (True, False),
    "plain-searched": (True, True),
    "plain-not-repeatable": (False, False),
}
"""Whether cuDNN must repeat itself bit for bit, and whether it tries its algorithms out."""


def network(seed: int) -> nn.Module:
    return cnn(
        image=(1, 28, 28),
        stages=[(32,), (64,)],
        kernels=(5, 3),
        dense=(1024,),
        outputs=10,
        generator=torch.Generator().manual_seed(seed),
    )


def images(samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return torch.rand(samples, 784, generator=draw), torch.randint(10, (samples,), generator=draw)


def trainer(seeds: list[int], device: str, *, samples: int, **settings: Any) -> Trainer:
    recipes = [
        Recipe(
            optimizer="sgd",
            batch_size=100,
            learning_rate=0.1,
            epochs=1000,
            loss="cross-entropy",
            rate=LossBased(frame_at_start=10.0),
            seed=seed,
            **settings,
        )
        for seed in seeds
    ]
    return Trainer([network(seed) for seed in seeds], *images(samples), recipes, device=device)


def plain_step(device: str, *, channels_last: bool) -> Callable[[], None]:
    """Forward, backward and update on one batch, captured where there is a GPU; at a rate that changes nothing much."""
    net = network(0).to(device)
    if channels_last:
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x, y = (tensor.to(device) for tensor in images(100))
    weights: list[torch.Tensor] = list(net.parameters())

    def step() -> None:
        with torch.enable_grad():
            loss = nn.functional.cross_entropy(net(x), y)
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            torch._foreach_add_(weights, gradients, alpha=-1e-9)

    replay = capture(step, changed=[p.data for p in weights]) if device == "cuda" else None
    return step if replay is None else replay


def timed(advance: Callable[[int], None], wait: Callable[[], None], steps: int) -> float:
    """Milliseconds a step."""
    advance(20)
    wait()
    began = time.perf_counter()
    advance(steps)
    wait()
    return (time.perf_counter() - began) / steps * 1e3


def plain_time(name: str, options: argparse.Namespace) -> float:
    cudnn = torch.backends.cudnn
    with matmul_precision("float32"), deterministic_convolutions():
        cudnn.deterministic, cudnn.benchmark = PLAIN[name]
        step = plain_step(options.device, channels_last=name.endswith("channels-last"))

        def advance(steps: int) -> None:
            for _ in range(steps):
                step()

        return timed(
            advance, torch.cuda.synchronize if options.device == "cuda" else lambda: None, options.steps
        )


def show_tries(made: Trainer, options: argparse.Namespace, milliseconds: float) -> None:
    """How long tries take that are made to their end, and which of it is the loss over all images."""
    made.run_epoch()
    made.wait()
    made.spared, first, began = 0, made.step, time.perf_counter()
    for _ in range(options.tries):
        made.run_epoch()
    made.wait()
    whole = (time.perf_counter() - began) / options.tries
    steps = (made.step - first - made.spared) / options.tries
    made._step.log_loss()
    made.wait()
    began = time.perf_counter()
    for _ in range(5):
        made._step.log_loss()
    made.wait()
    loss = (time.perf_counter() - began) / 5
    print(
        f"  a try takes {whole:.3f} s: {steps:.0f} steps {steps * milliseconds / 1e3:.3f}, the loss {loss:.3f}",
        flush=True,
    )


def farthest(ours: nn.Module, theirs: nn.Module) -> float:
    """The largest difference of two networks' weights, relative to the largest weight of their tensor."""
    pairs = zip(*(map(torch.detach, net.parameters()) for net in (ours, theirs)), strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


@torch.no_grad()
def compare(options: argparse.Namespace) -> None:
    """In float64, after nine steps of an epoch of ten, so that no epoch is taken back."""
    together = trainer([0, 1, 2], options.device, samples=1000, dtype="float64")
    together.advance(9)
    for seed in range(3):
        alone = trainer([seed], options.device, samples=1000, dtype="float64")
        alone.advance(9)
        print(
            f"network {seed}: side by side and alone differ by {farthest(together.network(seed), alone.network(0)):.1e}"
        )
    if "compiled" in options.variants:
        compiled = trainer([2], options.device, samples=1000, dtype="float64", compiled=True)
        compiled.advance(9)
        print(
            f"network 2: compiled and not differ by {farthest(compiled.network(0), alone.network(0)):.1e}",
            flush=True,
        )


def show_kernels(options: argparse.Namespace, name: str) -> None:
    """What the device does in a step, the longest first."""
    made = trainer([0], options.device, samples=options.samples, **VARIANTS[name])
    made.advance(20)
    made.wait()
    on_gpu = options.device == "cuda"
    with torch.profiler.profile() as found:
        made.advance(10)
        made.wait()
    own = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    rows = [each for each in found.key_averages() if each.device_type.name == options.device.upper()]
    rows.sort(key=lambda each: -getattr(each, own))
    count, spent = sum(each.count for each in rows), sum(getattr(each, own) for each in rows)
    print(f"{name}: {count / 10:.0f} kernels and {spent / 1e4:.3f} ms of device time a step")
    for each in rows[: options.kernels]:
        print(f"  {getattr(each, own) / 10:8.1f} µs  {each.count / 10:5.1f} ×  {each.key[:100]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--variants", nargs="+", choices=[*PLAIN, *VARIANTS], default=[*PLAIN, *VARIANTS])
    parser.add_argument("--members", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--kernels", type=int, default=0, help="list so many kernels of a step")
    parser.add_argument("--tries", type=int, default=0, help="time so many tries of the loss-based rule")
    options = parser.parse_args()
    print(f"{options.device}, torch {torch.__version__}")
    compare(options)
    for name in options.variants:
        if name in PLAIN:
            print(f"{name:20}   1 network   {plain_time(name, options):7.3f} ms a step", flush=True)
            continue
        first = 0.0
        for members in options.members:
            made = trainer(list(range(members)), options.device, samples=options.samples, **VARIANTS[name])
            found = timed(made.advance, made.wait, options.steps)
            first = first or found
            print(
                f"{name:20} {members:3} networks  {found:7.3f} ms a step  {found / first:5.2f} × the first",
                flush=True,
            )
            if options.tries:
                show_tries(made, options, found)
        if options.kernels:
            show_kernels(options, name)


if __name__ == "__main__":
    main()
