"""The bounds on overlaps cover the true ones, so that the run may leave most reorthogonalisations out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from undertow.jacobian.factor import Factor
from undertow.jacobian.krylov import _Run
from undertow.jacobian.layered import LayeredOperator
from undertow.jacobian.overlaps import Overlaps

SIZE, STEPS = 200, 80
SPECTRA: dict[str, Callable[[], Tensor]] = {
    "even": lambda: torch.linspace(0.01, 1.0, SIZE),
    "two above the rest": lambda: torch.cat([torch.tensor([10.0, 9.0]), torch.linspace(0.1, 1.0, SIZE - 2)]),
    "geometric": lambda: 0.9 ** torch.arange(SIZE),
    "falling faster": lambda: 0.75 ** torch.arange(SIZE),
    "all nearly equal": lambda: 1 - 1e-3 * torch.arange(SIZE) / SIZE,
    "a double top": lambda: torch.cat([torch.ones(2), torch.linspace(0.1, 0.9, SIZE - 2)]),
}


def _operator(values: Tensor, dtype: torch.dtype, *, seed: int = 0) -> LayeredOperator:
    generator = torch.Generator().manual_seed(seed)
    left, right = (
        torch.linalg.qr(torch.randn(len(values), len(values), generator=generator, dtype=torch.float64))[0]
        for _ in range(2)
    )
    matrix = (left * values.double() @ right).to(dtype)
    return LayeredOperator((Factor(matrix),), (None,), (1,))


def _run(values: Tensor, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch, *, always: bool) -> _Run:
    """A run of all its steps; ``run.touched`` counts those that reorthogonalised."""
    touched = []
    ask = Overlaps.passes

    def passes(self: Overlaps, *arguments: Any, **options: Any) -> int:
        touched.append(1 if always else ask(self, *arguments, **options))
        return touched[-1]

    monkeypatch.setattr(Overlaps, "passes", passes)
    start = torch.randn(1, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    run = _Run(_operator(values, dtype), start, None, 1e-12, STEPS, 1e-6, False)
    run.next_looks = [STEPS]  # no stopping before
    while run.advance():
        pass
    monkeypatch.undo()
    run.touched = sum(each > 0 for each in touched)  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", SPECTRA)
def test_the_basis_stays_orthogonal_to_the_square_root_of_rounding(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _run(SPECTRA[name](), dtype, monkeypatch, always=False)
    basis = run.basis[0, :STEPS].double()
    overlap = float((basis @ basis.T - torch.eye(STEPS)).abs().max())
    assert overlap < math.sqrt(torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", SPECTRA)
def test_the_largest_ritz_value_is_that_of_full_reorthogonalisation(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    partly, fully = (
        _run(SPECTRA[name](), dtype, monkeypatch, always=always).found.value.item()
        for always in (False, True)
    )
    assert partly == pytest.approx(fully, rel=20 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_whatever_rounding_does_the_bounds_cover_it(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spectra with nothing special about them; a recurrence with signs falls short on some of these."""
    size = 65
    bounds: list[Tensor] = []
    ask = Overlaps.passes

    def passes(self: Overlaps, *arguments: Any, **options: Any) -> int:
        found = ask(self, *arguments, **options)
        bounds.append(self._newest[0])
        return found

    monkeypatch.setattr(Overlaps, "passes", passes)
    for seed in range(40):
        bounds.clear()
        generator = torch.Generator().manual_seed(seed)
        values = torch.rand(size, generator=generator, dtype=torch.float64)
        start = torch.randn(1, size, generator=generator, dtype=torch.float64).to(dtype)
        run = _Run(_operator(values, dtype, seed=seed), start, None, 1e-12, size, 1e-6, False)
        run.next_looks = [size]
        while run.advance():
            pass
        basis = run.basis[0].double()
        for place, bound in enumerate(bounds[:-1], start=1):
            assert float((basis[:place] @ basis[place]).abs().max()) <= float(bound.max()), (seed, place)


def test_most_steps_leave_the_basis_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    few = _run(SPECTRA["even"](), torch.float64, monkeypatch, always=False).touched  # type: ignore[attr-defined]
    some = _run(SPECTRA["even"](), torch.float32, monkeypatch, always=False).touched  # type: ignore[attr-defined]
    assert 0 < few < some < STEPS / 2


def test_without_reorthogonalising_the_basis_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Overlaps, "passes", lambda *_, **__: 0)
    start = torch.randn(1, SIZE, generator=torch.Generator().manual_seed(1))
    run = _Run(_operator(SPECTRA["two above the rest"](), torch.float32), start, None, 1e-12, 40, 1e-6, False)
    run.next_looks = [40]
    while run.advance():
        pass
    basis = run.basis[0, :40].double()
    assert float((basis @ basis.T - torch.eye(40)).abs().max()) > 0.1


def test_samples_that_are_not_asked_about_decide_nothing() -> None:
    overlaps = Overlaps(2, 100, dtype=torch.float32, device=torch.device("cpu"))
    diagonal = torch.ones(2, 5, dtype=torch.float64)
    off = torch.full((2, 5), 0.5, dtype=torch.float64)
    length, largest = torch.tensor([0.5, 1e-9]), torch.ones(2)  # the second has all but closed
    assert not overlaps.passes(diagonal, off, length, largest, asked=torch.tensor([0]))
    again = Overlaps(2, 100, dtype=torch.float32, device=torch.device("cpu"))
    assert again.passes(diagonal, off, length, largest, asked=torch.tensor([0, 1]))


def test_a_batch_too_small_to_ask_about_is_cleaned_of_what_was_left_before() -> None:
    overlaps = Overlaps(1, 100, dtype=torch.float32, device=torch.device("cpu"))
    numbers = {name: torch.full((1, 5), 0.5, dtype=torch.float64) for name in ("diagonal", "off")}
    numbers |= {"length": torch.full((1,), 0.5), "largest": torch.ones(1), "asked": torch.arange(1)}
    overlaps._at_once = 2  # as on a GPU
    assert overlaps.passes(**numbers) == 1  # the basis is orthogonal to rounding
    overlaps._at_once = 0
    assert overlaps.passes(**numbers) == 0
    overlaps._at_once = 2
    assert overlaps.passes(**numbers) == 2
