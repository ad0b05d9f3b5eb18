"""Sharpness: is the error inside its bound, and what does it cost beside a power iteration and ARPACK?

Prints

- over ``--runs`` runs on small networks and losses, each with weights, data and a random start of its own: how many
  have λ_1 of the whole Hessian (float64) between value − rounding and value + error;
- on an MLP d → 200 → 200 → 10 over 5,000 points, before and after some training, products, seconds and true error of

  - ours as it is called, asked for 10⁻² (proved) and for 10⁻¹;
  - ours told when to stop: given as many steps as it needs for a true error of 10⁻², rounding measured all the same;
  - ours from an eighth: twelve products with an eighth of the points, and a warm start from there with all of them,
    once until it says "tracked" and once told; products with an eighth count as an eighth;
  - power iterations told in the same way, which have no way to know: on products from scratch, as they are
    usually written (differentiating the gradient), and on the recorded gradient, as PyHessian takes them of one batch;
  - a power iteration as published (PyHessian: until the value changes by less than 10⁻³), and one of a hundred steps,
    its limit there, which it comes to where the two largest eigenvalues are close;
  - ARPACK (scipy's eigsh, which="LA", tol=10⁻²) on the same products as ours; and the power iterations of PyHessian and
    hessian-eigenthings with their own limits (100 steps; 10⁻³ and 10⁻⁴), where these are installed;

- how time grows with points and with parameters (log–log slopes).

Every method begins at the same three random vectors; products and seconds are medians over these, errors the largest.
"At equal true error" is the power iteration told against ours told, with or without the head start: none proves
anything, and all are right to 10⁻². "True" is a run at rtol = 10⁻³, whose value is far closer than its error says. On a
CPU times are the processor's, because machines are shared; on a GPU those of the clock.

    PYTHONPATH=. python benchmarks/sharpness.py --runs 1000                 two CPU cores, networks of the tests
    PYTHONPATH=. python benchmarks/sharpness.py --only costs --data cifar10 [--device cuda]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn

from tests.curvature.curvature_cases import CURVATURE_CASES, dense_hessian
from undertow.core.losses import Loss, mean_loss
from undertow.curvature.curvature_result import SharpnessResult
from undertow.curvature.hessian_sharpness import curvature_products, sharpness
from undertow.data import load

T = TypeVar("T")
STARTS = (0, 1, 2)
HEAD_START = 12  # products with an eighth of the points: six and eight were too few from some starts
console = Console(width=140)


def coverage(runs: int) -> None:
    """How often the true eigenvalue lies where the result says."""
    console.print("runs  inside  converged  mean error/|λ|  largest true error/error  products  case")
    for place, case in enumerate(CURVATURE_CASES):
        count = runs // len(CURVATURE_CASES) + (place < runs % len(CURVATURE_CASES))
        inside, converged, errors, used, products = 0, 0, 0.0, 0.0, 0
        for seed in range(count):
            net, x, y = case.make(seed)
            truth = float(torch.linalg.eigvalsh(dense_hessian(net, x, y, case.loss))[-1])
            generator = torch.Generator().manual_seed(10_000 + seed)
            found = sharpness(net, x, y, loss=case.loss, method="krylov", generator=generator)
            inside += found.value - found.rounding <= truth <= found.value + found.error
            converged += found.status.ok
            errors += found.error / max(abs(truth), 1e-300) / count
            used = max(used, abs(truth - found.value) / max(found.error, 1e-300))
            products += found.products
        if count:
            numbers = f"{count:4d}  {inside:6d}  {converged:9d}  {errors:14.1e}  {used:24.1e}"
            console.print(f"{numbers}  {products / count:8.0f}  {case.name}")


@dataclass(frozen=True)
class Problem:
    """An MLP with its points."""

    name: str
    net: nn.Module
    x: Tensor
    y: Tensor
    loss: Loss

    @classmethod
    def of(
        cls,
        data: str,
        activation: Callable[[], nn.Module],
        loss: Loss,
        *,
        steps: int,
        points: int = 5000,
        width: int = 200,
        device: str = "cpu",
    ) -> Problem:
        torch.manual_seed(0)
        x, y = (each.to(device) for each in _points(data, points))
        net = nn.Sequential(
            nn.Linear(x.shape[1], width),
            activation(),
            nn.Linear(width, width),
            activation(),
            nn.Linear(width, 10),
        ).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        for _ in range(steps):
            optimizer.zero_grad()
            mean_loss(net(x), y, loss).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        optimizer.zero_grad()
        return cls(f"{activation.__name__}, {loss}, {steps} steps", net.eval(), x, y, loss)

    def usual_product(self, vector: Tensor) -> Tensor:
        """H v by differentiating the gradient, from scratch."""
        parameters = list(self.net.parameters())
        slopes = torch.autograd.grad(
            mean_loss(self.net(self.x), self.y, self.loss), parameters, create_graph=True
        )
        flat = torch.cat([slope.flatten() for slope in slopes])
        return torch.cat([each.flatten() for each in torch.autograd.grad(flat @ vector, parameters)])

    def recorded_product(self) -> Callable[[Tensor], Tensor]:
        """The same from a gradient that is recorded once, as PyHessian does for one batch."""
        parameters = list(self.net.parameters())
        slopes = torch.autograd.grad(
            mean_loss(self.net(self.x), self.y, self.loss), parameters, create_graph=True
        )

        def product(vector: Tensor) -> Tensor:
            pieces = torch.split(vector, [parameter.numel() for parameter in parameters])
            along = [piece.view_as(each) for piece, each in zip(pieces, parameters, strict=True)]
            found = torch.autograd.grad(slopes, parameters, along, retain_graph=True)
            return torch.cat([each.flatten() for each in found])

        return product

    def power(
        self,
        stop: Callable[[float, float], bool],
        *,
        start: int = 0,
        most: int = 300,
        recorded: bool = False,
    ) -> tuple[float, int]:
        product = self.recorded_product() if recorded else self.usual_product
        size = sum(parameter.numel() for parameter in self.net.parameters())
        drawn = torch.randn(size, generator=torch.Generator().manual_seed(start), dtype=torch.float64)
        vector = drawn.to(self.x)
        vector, before = vector / vector.norm(), math.inf
        value, steps = math.nan, 0
        while steps < most:
            image = product(vector)
            value, steps = float(image @ vector), steps + 1
            if stop(value, before):
                break
            vector, before = image / image.norm(), value
        return value, steps

    def arpack(self) -> tuple[float, int]:
        with curvature_products([self.net], self.x, self.y, loss=self.loss) as (products, _):

            def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
                given = torch.from_numpy(vector.ravel().copy()).float()[None].to(self.x)
                image: NDArray[np.float64] = products(given)[0].double().cpu().numpy()
                return image

            size = products.size
            start = np.random.default_rng(0).standard_normal(size)
            operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
            value = eigsh(operator, k=1, which="LA", tol=1e-2, v0=start, return_eigenvectors=False)[0]
            return float(value), products.products

    def pyhessian(self) -> float:
        """PyHessian's top eigenvalue, by its own power iteration."""
        kind = importlib.import_module("pyhessian").hessian
        criterion = partial(mean_loss, loss=self.loss)
        # It reads the parameters' gradients, and leaves its own there.
        made = kind(self.net, criterion, data=(self.x, self.y), cuda=self.x.is_cuda)
        (value,), _ = made.eigenvalues(maxIter=100, tol=1e-3, top_n=1)
        for parameter in self.net.parameters():
            parameter.grad = None
        return float(value)

    def eigenthings(self) -> tuple[float, int]:
        """The power iteration of hessian-eigenthings."""
        theirs = importlib.import_module("hessian_eigenthings")
        told = theirs.supervised_loss(partial(mean_loss, loss=self.loss))
        operator = theirs.HessianOperator(self.net, [(self.x, self.y)], told)
        value, _, _, steps, _ = theirs.power_iteration_one(operator, seed=0)
        return float(value), int(steps)


def _points(data: str, count: int) -> tuple[Tensor, Tensor]:
    if data != "random":
        found = load(data, limit=count, flatten=True, normalise="standardised")
        return found.x.float(), found.y.long()
    centres, y = torch.randn(10, 3072), torch.randint(0, 10, (count,))
    return 0.3 * centres[y] + torch.randn(count, 3072), y


def clocked(work: Callable[[], T], *, gpu: bool = False) -> tuple[T, float]:
    """The result, and the processor's seconds, as the machine may be shared; with a GPU those of the clock."""
    if not gpu:
        begin = time.process_time()
        return work(), time.process_time() - begin
    torch.cuda.synchronize()
    begin = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return found, time.perf_counter() - begin


def costs(data: str, points: int, device: str, budget: float) -> None:
    began = time.monotonic()
    columns = (
        "problem",
        "λ₁",
        "method",
        "products",
        "seconds",
        "true error",
        "error that it states",
        "times ours, proved",
        "times ours, told",
        "times ours, from an eighth, told",
    )
    table = Table(*columns)
    settings: list[tuple[Callable[[], nn.Module], Loss]] = [(nn.Tanh, "square"), (nn.ReLU, "cross-entropy")]
    for activation, loss in settings:
        for steps in (0, 100):
            if time.monotonic() - began > budget:
                break
            _compare(Problem.of(data, activation, loss, steps=steps, points=points, device=device), table)
    console.print(table)


@dataclass(frozen=True)
class Row:
    """What a method came to from each of the starts."""

    method: str
    values: list[float]
    products: list[float]
    seconds: list[float]
    stated: str

    @property
    def cost(self) -> float:
        return statistics.median(self.seconds)


def _compare(problem: Problem, table: Table) -> None:
    """All methods from the same starts."""
    gpu = problem.x.is_cuda

    def ours(seed: int, **options: Any) -> SharpnessResult:
        generator = torch.Generator().manual_seed(seed)
        return sharpness(problem.net, problem.x, problem.y, loss=problem.loss, generator=generator, **options)

    truth = ours(0, rtol=1e-3).value
    wanted = 1e-2 * truth

    def enough(start: int, method: Callable[..., SharpnessResult], low: int = 1, high: int = 64) -> int:
        """The fewest steps to a true error of 10⁻², more than one: a Ritz value only grows."""
        while high - low > 1:
            middle = (low + high) // 2
            near = abs(method(start, max_steps=middle).value - truth) <= wanted
            low, high = (low, middle) if near else (middle, high)
        return high

    def ahead(start: int, **options: Any) -> SharpnessResult:
        drawn = torch.randperm(len(problem.x), generator=torch.Generator().manual_seed(100 + start))
        few = drawn[: len(drawn) // 8].to(problem.x.device)
        x, y = problem.x[few], problem.y[few]
        # Its random part is to be independent of that of the warm start.
        other = torch.Generator().manual_seed(1000 + start)
        begin = sharpness(problem.net, x, y, loss=problem.loss, max_steps=HEAD_START, generator=other)
        return ours(start, start=begin, **options)

    def near(value: float, _: float) -> bool:
        return abs(value - truth) <= wanted

    def settled(value: float, before: float) -> bool:
        return abs(value - before) <= 1e-3 * abs(value)

    def measured(name: str, method: Callable[..., SharpnessResult] = ours, **options: Any) -> Row:
        found = [clocked(partial(method, start, **options), gpu=gpu) for start in STARTS]
        return _row(name, found, truth, before=0 if method is ours else HEAD_START / 8)

    def told(name: str, method: Callable[..., SharpnessResult]) -> Row:
        steps = [enough(start, method) for start in STARTS]
        found = [
            clocked(partial(method, start, max_steps=few), gpu=gpu)
            for start, few in zip(STARTS, steps, strict=True)
        ]
        return _row(name, found, truth, before=0 if method is ours else HEAD_START / 8)

    def iterated(method: str, stop: Callable[[float, float], bool], **options: Any) -> Row:
        found = [clocked(partial(problem.power, stop, start=start, **options), gpu=gpu) for start in STARTS]
        values, products = ([each[place] for each, _ in found] for place in (0, 1))
        return Row(method, values, products, [seconds for _, seconds in found], "none")

    power = iterated("power, told", near)
    hundred, _ = problem.power(lambda *_: False, most=100, recorded=True)
    (arpack, arpack_products), arpack_time = clocked(problem.arpack, gpu=gpu)
    rows = [
        measured("ours, 10⁻² proved"),
        measured("ours, 10⁻¹ proved", rtol=0.1),
        told("ours, told", ours),
        measured("ours, from an eighth, tracked", ahead),
        told("ours, from an eighth, told", ahead),
        power,
        iterated("power, told, recorded", near, recorded=True),
        iterated("power, as published", settled),
        Row("power, 100 steps", [hundred], [100], [100 * sum(power.seconds) / sum(power.products)], "none"),
        Row("ARPACK", [arpack], [arpack_products], [arpack_time], "residual"),
    ]
    if importlib.util.find_spec("pyhessian") is not None:
        theirs, theirs_time = clocked(problem.pyhessian, gpu=gpu)
        rows.append(Row("PyHessian", [theirs], [0], [theirs_time], "none"))
    if importlib.util.find_spec("hessian_eigenthings") is not None:
        (theirs, steps), theirs_time = clocked(problem.eigenthings, gpu=gpu)
        rows.append(Row("hessian-eigenthings", [theirs], [steps], [theirs_time], "none"))
    for place, row in enumerate(rows):
        first = (problem.name, f"{truth:.4g}") if place == 0 else ("", "")
        error = f"{max(abs(value - truth) for value in row.values) / truth:.1e}"
        ratios = (f"{row.cost / rows[against].cost:.2f}" for against in (0, 2, 4))
        products = f"{statistics.median(row.products):.3g}"
        table.add_row(*first, row.method, products, f"{row.cost:.3f}", error, row.stated, *ratios)


def _row(method: str, found: list[tuple[SharpnessResult, float]], truth: float, *, before: float = 0) -> Row:
    results = [result for result, _ in found]
    stated = f"{max(each.error for each in results) / truth:.1e}"
    values, products = [each.value for each in results], [each.products + before for each in results]
    return Row(method, values, products, [seconds for _, seconds in found], stated)


def growth(data: str) -> None:
    """Seconds per product as points and parameters grow."""
    for what, sizes in (("points", (500, 1000, 2000, 4000)), ("parameters", (100, 200, 400, 800))):
        counts, seconds = [], []
        for size in sizes:
            points, width = (size, 200) if what == "points" else (1000, size)
            problem = Problem.of(data, nn.Tanh, "square", steps=0, points=points, width=width)
            found, spent = clocked(
                partial(sharpness, problem.net, problem.x, problem.y, loss="square", max_steps=12)
            )
            parameters = sum(parameter.numel() for parameter in problem.net.parameters())
            counts.append(size if what == "points" else parameters)
            seconds.append(spent / found.products)
        slope = np.polyfit(np.log(counts), np.log(seconds), 1)[0]
        told = ", ".join(f"{count}: {each:.3f} s" for count, each in zip(counts, seconds, strict=True))
        console.print(f"a product by {what}: {told}; slope {slope:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=160)
    parser.add_argument("--data", choices=("random", "mnist", "cifar10"), default="random")
    parser.add_argument("--points", type=int, default=5000)
    parser.add_argument("--device", default="cpu", help="of the costs: cpu or cuda")
    parser.add_argument(
        "--seconds-budget", type=float, default=math.inf, help="of the costs: begin no problem after so long"
    )
    parser.add_argument("--only", choices=("coverage", "costs", "growth"))
    options = parser.parse_args()
    if options.only in (None, "coverage"):
        coverage(options.runs)
    if options.only in (None, "costs"):
        costs(options.data, options.points, options.device, options.seconds_budget)
    if options.only in (None, "growth"):
        growth(options.data)
