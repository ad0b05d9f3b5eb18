"""Sharpness: is the error inside its bound, and what does it cost beside a power iteration and ARPACK?

Prints

- over ``--runs`` runs on small networks and losses, each with weights, data and a random start of its own: how many
  have λ_1 of the whole Hessian (float64) between value − rounding and value + error;
- on an MLP d → 200 → 200 → 10 over 5,000 points, before and after some training: products, time and true error of
  ours asked for 10⁻² (proved) and for 10⁻¹, of a power iteration given as many steps as it needs for a true error of
  10⁻² (it has no way to know), of one that stops as published (a relative change below 10⁻³), of ARPACK (scipy's
  eigsh, which="LA", tol=10⁻²) on the same products as ours, and of PyHessian where that is installed (its defaults);
- how time grows with points and with parameters (log–log slopes).

The power iteration takes Hessian products as they are usually written, by differentiating the gradient, from scratch
every time, which is faster here than forward-over-reverse mode. "True" is a run at rtol = 10⁻³, whose value is far
closer than its error says. Times are the processor's, because machines are shared.

    PYTHONPATH=. python benchmarks/sharpness.py --runs 1000                 two CPU cores, networks of the tests
    PYTHONPATH=. python benchmarks/sharpness.py --only costs --data cifar10
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn

from tests.curvature.curvature_cases import CURVATURE_CASES, dense_hessian
from undertow.core.losses import Loss, mean_loss
from undertow.curvature.hessian_sharpness import curvature_products, sharpness
from undertow.data import load

T = TypeVar("T")
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
    ) -> Problem:
        torch.manual_seed(0)
        x, y = _points(data, points)
        net = nn.Sequential(
            nn.Linear(x.shape[1], width),
            activation(),
            nn.Linear(width, width),
            activation(),
            nn.Linear(width, 10),
        )
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

    def power(self, stop: Callable[[float, float], bool], most: int = 300) -> tuple[float, int]:
        size = sum(parameter.numel() for parameter in self.net.parameters())
        vector = torch.randn(size, generator=torch.Generator().manual_seed(1))
        vector, before = vector / vector.norm(), math.inf
        value, steps = math.nan, 0
        while steps < most:
            image = self.usual_product(vector)
            value, steps = float(image @ vector), steps + 1
            if stop(value, before):
                break
            vector, before = image / image.norm(), value
        return value, steps

    def arpack(self) -> tuple[float, int]:
        with curvature_products([self.net], self.x, self.y, loss=self.loss) as (products, _):

            def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
                image: NDArray[np.float64] = (
                    products(torch.from_numpy(vector.ravel().copy()).float()[None])[0].double().numpy()
                )
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
        made = kind(self.net, criterion, data=(self.x, self.y), cuda=False)
        (value,), _ = made.eigenvalues(maxIter=100, tol=1e-3, top_n=1)
        for parameter in self.net.parameters():
            parameter.grad = None
        return float(value)


def _points(data: str, count: int) -> tuple[Tensor, Tensor]:
    if data != "random":
        found = load(data, limit=count, flatten=True, normalise="standardised")
        return found.x.float(), found.y.long()
    centres, y = torch.randn(10, 3072), torch.randint(0, 10, (count,))
    return 0.3 * centres[y] + torch.randn(count, 3072), y


def clocked(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and the processor's seconds: the machine may be shared."""
    begin = time.process_time()
    found = work()
    return found, time.process_time() - begin


def costs(data: str, points: int) -> None:
    columns = (
        "problem",
        "λ₁",
        "method",
        "products",
        "seconds",
        "true error",
        "error that it states",
        "times ours at 10⁻²",
        "at 10⁻¹",
    )
    table = Table(*columns)
    settings: list[tuple[Callable[[], nn.Module], Loss]] = [(nn.Tanh, "square"), (nn.ReLU, "cross-entropy")]
    for activation, loss in settings:
        for steps in (0, 100):
            _compare(Problem.of(data, activation, loss, steps=steps, points=points), table)
    console.print(table)


def _compare(problem: Problem, table: Table) -> None:
    net, x, y, loss = problem.net, problem.x, problem.y, problem.loss
    truth = sharpness(net, x, y, loss=loss, rtol=1e-3).value
    ours, own = clocked(lambda: sharpness(net, x, y, loss=loss))
    loose, loose_time = clocked(lambda: sharpness(net, x, y, loss=loss, rtol=0.1))
    (known, known_steps), known_time = clocked(
        lambda: problem.power(lambda value, _: abs(value - truth) <= 1e-2 * truth)
    )
    (published, published_steps), published_time = clocked(
        lambda: problem.power(lambda value, before: abs(value - before) <= 1e-3 * abs(value))
    )
    (arpack, arpack_products), arpack_time = clocked(problem.arpack)
    rows = [
        ("ours, 10⁻² proved", ours.value, ours.products, own, f"{ours.error / truth:.1e}"),
        ("ours, 10⁻¹ proved", loose.value, loose.products, loose_time, f"{loose.error / truth:.1e}"),
        ("power, told when to stop", known, known_steps, known_time, "none"),
        ("power, as published", published, published_steps, published_time, "none"),
        ("ARPACK", arpack, arpack_products, arpack_time, "residual"),
    ]
    if importlib.util.find_spec("pyhessian") is not None:
        theirs, theirs_time = clocked(problem.pyhessian)
        rows.append(("PyHessian", theirs, 0, theirs_time, "none"))
    for place, (method, value, products, seconds, stated) in enumerate(rows):
        first = (problem.name, f"{truth:.4g}") if place == 0 else ("", "")
        error = f"{abs(value - truth) / truth:.1e}"
        ratios = f"{seconds / own:.2f}", f"{seconds / loose_time:.2f}"
        table.add_row(*first, method, str(products or "?"), f"{seconds:.1f}", error, stated, *ratios)


def growth(data: str) -> None:
    """Seconds per product as points and parameters grow."""
    for what, sizes in (("points", (500, 1000, 2000, 4000)), ("parameters", (100, 200, 400, 800))):
        counts, seconds = [], []
        for size in sizes:
            grown = {"points": size} if what == "points" else {"width": size, "points": 1000}
            problem = Problem.of(data, nn.Tanh, "square", steps=0, **grown)
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
    parser.add_argument("--only", choices=("coverage", "costs", "growth"))
    options = parser.parse_args()
    if options.only in (None, "coverage"):
        coverage(options.runs)
    if options.only in (None, "costs"):
        costs(options.data, options.points)
    if options.only in (None, "growth"):
        growth(options.data)
