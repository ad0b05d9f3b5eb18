"""Jacobian norms: undertow against the published power iteration, in one process.

For the hidden layer φ(x) = ReLU(Wx) of two-layer nets on inputs of 784 pixels, at initialisation and after
training, prints

- time to the same true error (10⁻³ in the worst sample, judged by a reference at 10⁻⁵): ours, and the power
  iteration given as many steps as it needs;
- time against the published 30-step form, with both errors;
- a warm-started re-measurement after one more epoch against a cold one;
- how cost grows with points and width (log–log slopes), and peak memory against the budget.

The baseline is written as the paper describes it: torch.func's jvp and vjp of the vmapped layer, every step
from scratch, in batches of 1000. "as published" also compares the change sample by sample in Python to stop, as
the authors' code does; "vectorised" does that on the device, which is the strongest form of the same method.

    python benchmarks/jacobian_norms.py                       two CPU cores, 1,000 points
    python benchmarks/jacobian_norms.py --device cuda         10,000 points, width 8192 too
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from undertow.core.errors import DataError
from undertow.data import load
from undertow.jacobian.memory import default_budget
from undertow.jacobian.norms import jacobian_norms


def published_power(
    layer: nn.Module, x: Tensor, *, steps: int, reference: Tensor | None = None, in_python: bool = False
) -> tuple[Tensor, int]:
    """Power iteration on vmapped jvp/vjp; stops early once within 10⁻³ of ``reference`` everywhere."""
    values, most = [], 0
    for begin in range(0, len(x), 1000):
        batch = x[begin : begin + 1000]
        goal = None if reference is None else reference[begin : begin + 1000]
        func = torch.func.vmap(layer)
        generator = torch.Generator(device=batch.device).manual_seed(begin)
        u = torch.rand(batch.shape, generator=generator, device=batch.device)
        u = u / u.norm(dim=1, keepdim=True)
        old: Tensor | None = None
        for step in range(1, steps + 1):
            v = torch.func.jvp(func, (batch,), (u,))[1]
            u = torch.func.vjp(func, batch)[1](v)[0]
            length = u.norm(dim=1)
            norms = length / v.norm(dim=1)
            u = u / length[:, None]
            if goal is None and old is not None:
                change = (norms - old) / old
                if bool(max(change) < 1e-4) if in_python else bool(change.max() < 1e-4):
                    break
            if goal is not None and step % 10 == 0 and bool(((norms - goal).abs() <= 1e-3 * goal).all()):
                break
            old = norms
        values.append(norms.detach())
        most = max(most, step)
    return torch.cat(values).double(), most


def clock(work: Callable[[], object], device: str, repeats: int = 3) -> float:
    """Best of a few runs, in seconds."""
    best = math.inf
    for _ in range(repeats):
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best


def pixels(count: int, device: str) -> tuple[Tensor, Tensor]:
    """MNIST's test set where it lies on this machine, otherwise blobs of its sparsity and range in ten classes."""
    try:
        data = load("mnist", split="test", limit=count, flatten=True, download=False)
        print("data: MNIST test images")
        return data.x.to(device), data.y.to(device)
    except DataError:
        print("data: made-up blobs (set UNDERTOW_DATA to a folder with MNIST's files for the real ones)")
    generator = torch.Generator().manual_seed(0)
    centres = torch.rand(count, 4, 2, generator=generator) * 16 + 6
    grid = torch.stack(torch.meshgrid(torch.arange(28.0), torch.arange(28.0), indexing="ij"), dim=-1)
    distance = (grid[None, None] - centres[:, :, None, None]).square().sum(-1)
    x = torch.exp(-distance / 6).amax(1).flatten(1)
    return x.to(device), (x @ torch.randn(784, 10, generator=generator)).argmax(1).to(device)


def network(width: int, device: str) -> nn.Sequential:
    generator = torch.Generator().manual_seed(width)
    net = nn.Sequential(nn.Linear(784, width, bias=False), nn.ReLU(), nn.Linear(width, 10, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(torch.randn(width, 784, generator=generator) / math.sqrt(width))  # type: ignore[operator]
        net[2].weight.copy_(torch.randn(10, width, generator=generator) / math.sqrt(width))  # type: ignore[operator]
    return net.to(device)


def train(net: nn.Sequential, x: Tensor, y: Tensor, epochs: int) -> None:
    """The co-correlation paper's training: SGD, batch 512, learning rate 0.003."""
    net.requires_grad_(True)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.003)
    for _ in range(epochs):
        for begin in range(0, len(x), 512):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(net(x[begin : begin + 512]), y[begin : begin + 512])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()


def compare(width: int, state: str, net: nn.Sequential, x: Tensor, device: str, slow_points: int) -> None:
    layer = net[:2]
    layer.requires_grad_(False)
    reference = jacobian_norms(layer, x, rtol=1e-5, risk=1e-6).value

    def worst(values: Tensor, of: Tensor = reference) -> float:
        return float(((values - of).abs() / of).max())

    jacobian_norms(layer, x[:64])  # warm up
    tolerances = (1e-3, 5e-3, 1e-2, 2e-2, 5e-2)
    ours = {rtol: jacobian_norms(layer, x, rtol=rtol) for rtol in tolerances}
    errors = {rtol: worst(norms.value) for rtol, norms in ours.items()}
    times = {rtol: clock(partial(jacobian_norms, layer, x, rtol=rtol), device) for rtol in tolerances}
    matched = max(rtol for rtol in tolerances if errors[rtol] <= 1e-3)

    few, share = x[:slow_points], len(x) / min(slow_points, len(x))
    begin = time.perf_counter()
    _, steps = published_power(layer, few, steps=5000, reference=reference[:slow_points])
    if device == "cuda":
        torch.cuda.synchronize()
    slow = (time.perf_counter() - begin) * share
    quick = clock(lambda: published_power(layer, x, steps=30), device, 1)
    quick_error = worst(published_power(layer, x, steps=30)[0])
    literal = clock(lambda: published_power(layer, x, steps=30, in_python=True), device, 1)
    better = max(rtol for rtol in tolerances if errors[rtol] < quick_error)
    print(f"width {width:5d}  {state}")
    for rtol in tolerances:
        held = bool(((reference - ours[rtol].value).abs() <= ours[rtol].error).all())
        print(
            f"  ours, bound {rtol:.0e} {times[rtol]:8.3f} s  true error {errors[rtol]:.1e} "
            f"{float(ours[rtol].steps.double().mean()):5.0f} steps  "
            f"{'bound holds in every sample' if held else 'BOUND BROKEN'}"
        )
    print(
        f"  power to 1e-3     {slow:8.3f} s  {steps} steps; ours at equal true error (bound {matched:.0e}) "
        f"{slow / times[matched]:.0f}x faster, with the bound at 1e-3 {slow / times[1e-3]:.0f}x"
    )
    print(
        f"  power, 30 steps   {literal:8.3f} s as published, {quick:.3f} s vectorised, true error {quick_error:.1e}; "
        f"ours, more accurate (bound {better:.0e}), {literal / times[better]:.0f}x and {quick / times[better]:.1f}x"
    )


def warm(width: int, x: Tensor, y: Tensor, device: str) -> None:
    net = network(width, device)
    train(net, x, y, 1)
    before = jacobian_norms(net[:2], x, keep_vectors=True)
    train(net, x, y, 1)
    cold_time = clock(lambda: jacobian_norms(net[:2], x), device)
    warm_time = clock(lambda: jacobian_norms(net[:2], x, start=before), device)
    cold, again = jacobian_norms(net[:2], x), jacobian_norms(net[:2], x, start=before)
    gap = float(((again.value - cold.value).abs() / cold.value).max())
    print(
        f"width {width:5d}  warm start after one epoch: {warm_time / cold_time:.2f} of a cold one "
        f"({float(again.steps.double().mean()):.0f} steps for {float(cold.steps.double().mean()):.0f}), "
        f"values apart {gap:.1e}"
    )


def slope(sizes: list[int], times: list[float]) -> float:
    logs = torch.tensor(sizes).double().log(), torch.tensor(times).double().log()
    centred = [values - values.mean() for values in logs]
    return float((centred[0] * centred[1]).sum() / centred[0].square().sum())


def growth(x: Tensor, device: str, widths: list[int]) -> None:
    base = network(512, device)[:2]
    counts = [len(x) // 4, len(x) // 2, len(x)]
    times = [clock(partial(jacobian_norms, base, x[:n], chunk=n), device) for n in counts]
    print(f"log–log slope of time in points {counts}: {slope(counts, times):.2f}")
    # Wider layers have other spectra: compare at equal steps.
    nets = [network(width, device)[:2] for width in widths]
    times = [clock(partial(jacobian_norms, net, x, max_steps=24, rtol=1e-6), device) for net in nets]
    print(f"log–log slope of time in width {widths} at 24 steps: {slope(widths, times):.2f}")


def peak_memory(count: int, device: str) -> None:
    """Peak memory of 10,000 points at width 8192, within the default budget and within a small one."""
    if device != "cuda":
        return
    x, layer = pixels(count, device)[0], network(8192, device)[:2]
    for budget in (default_budget(torch.device(device)), 2**30):
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        jacobian_norms(layer, x, memory_budget=budget)
        used = torch.cuda.max_memory_allocated() - held
        print(
            f"peak memory of {count} points at width 8192: {used / 2**30:.2f} GiB of a budget of {budget / 2**30:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--points", type=int)
    parser.add_argument("--widths", type=int, nargs="+")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    count = options.points or (10_000 if on_gpu else 1000)
    widths = options.widths or [64, 512, 2048, *([8192] if on_gpu else [])]
    name = torch.cuda.get_device_name() if on_gpu else f"{torch.get_num_threads()} CPU threads"
    print(f"{count} points of 784 pixels on {name}, torch {torch.__version__}\n")
    x, y = pixels(count, options.device)
    for width in widths:
        net = network(width, options.device)
        compare(width, "at initialisation", net, x, options.device, 2000 if on_gpu else 300)
        train(net, x, y, 50)
        compare(width, "after 50 epochs", net, x, options.device, 2000 if on_gpu else 300)
    print()
    for width in widths[1:3]:
        warm(width, x, y, options.device)
    growth(x, options.device, [512, 1024, 2048] if not on_gpu else [1024, 2048, 4096, 8192])
    peak_memory(count, options.device)


if __name__ == "__main__":
    main()
