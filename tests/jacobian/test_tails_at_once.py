"""Tails that share their products have the norms that they have alone, within errors that hold."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.adapting import MeasuredElsewhere
from undertow.core.status import Status
from undertow.jacobian import tails_at_once
from undertow.jacobian.cutting import tails
from undertow.jacobian.precisions import NetworkSamples
from undertow.jacobian.result import JacobianNorms
from undertow.jacobian.tails_at_once import tail_norms

from ..model_cases import dense_norms


class Deep(nn.Module):
    """Twelve seams, of more numbers than the input and of fewer; what follows them works in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 6, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(6, 6, 3, padding=1) for _ in range(4))
        self.down, self.norm = nn.Conv2d(6, 5, 3, stride=2), nn.LayerNorm(80)
        self.read = nn.ModuleList(nn.Linear(80, 80) for _ in range(3))
        self.last = nn.Linear(80, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = x.relu_()
            x = block(x)
        x = self.norm(self.down(x.sigmoid()).flatten(1))
        for layer in self.read:
            x = layer(x)
            x = x.tanh_()
        found: Tensor = self.last(x)
        return found


def _deep(dtype: torch.dtype = torch.float32) -> tuple[nn.Module, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = Deep().to(dtype).eval(), torch.randn(5, 2, 9, 9).to(dtype)
    return net, x


def _both(net: nn.Module, x: Tensor, **options: Any) -> list[tuple[JacobianNorms, JacobianNorms]]:
    """Every tail's norms from shared products, and by itself."""
    names = ut.seams(net, x)
    given = NetworkSamples(net, x)
    alone = [NetworkSamples(tail, x) for tail in tails(net, names)]
    together = tail_norms(given, names, alone, **options)
    return list(
        zip(
            together,
            [
                tail_norms(given, [name], [tail], **options)[0]
                for name, tail in zip(names, alone, strict=True)
            ],
            strict=True,
        )
    )


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tails were measured at once, time by time."""
    seen: list[int] = []
    together = tails_at_once._together

    def noting(samples: NetworkSamples, names: list[str], *others: Any) -> Any:
        seen.append(len(names))
        return together(samples, names, *others)

    monkeypatch.setattr(tails_at_once, "_together", noting)
    return seen


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_errors_hold_beside_the_dense_jacobian(dtype: torch.dtype, scale: float, shared: list[int]) -> None:
    net, x = _deep(dtype)
    with torch.no_grad():
        net.first.weight.mul_(1 / scale)  # type: ignore[union-attr,operator]
    found = ut.seam_profile(net, x * scale)
    assert max(shared) > 1
    assert len(found.seams) == 10
    precise, points = net.double(), (x * scale).double()
    true = dense_norms(precise, points)
    for row in found.rows:
        head, tail = ut.split(precise, row.seam, x=points)
        t = dense_norms(tail, points).detach()
        assert row.energy_tail == pytest.approx(float(t.square().mean().sqrt()), rel=1e-2)
        with torch.no_grad():
            h = dense_norms(head, tail(points))
        rho = float((true.square().mean() / (h * t).square().mean()).sqrt())
        assert abs(row.co_correlation - rho) <= row.error + 1e-9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_each_sample_takes_the_steps_that_it_takes_alone(dtype: torch.dtype, shared: list[int]) -> None:
    net, x = _deep(dtype)
    close = 1e-5 if dtype is torch.float32 else 1e-12
    for together, alone in _both(net, x, rtol=1e-2):
        assert together.steps.tolist() == alone.steps.tolist()
        torch.testing.assert_close(together.value, alone.value, rtol=close, atol=0)
        torch.testing.assert_close(together.risk, alone.risk, rtol=1e-3, atol=1e-9)
        assert together.status is alone.status
    assert max(shared) > 1


def test_a_generator_goes_on_from_tail_to_tail() -> None:
    net, x = _deep()
    for together, alone in zip(*(_norms(net, x, share) for share in (4, 100)), strict=True):
        assert together.steps.tolist() == alone.steps.tolist()
        torch.testing.assert_close(together.value, alone.value, rtol=1e-5, atol=0)


def _norms(net: nn.Module, x: Tensor, share: int) -> list[JacobianNorms]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tails_at_once, "_SHARE", share)
        names = ut.seams(net, x)
        alone = [NetworkSamples(tail, x) for tail in tails(net, names)]
        generator = torch.Generator().manual_seed(5)
        return tail_norms(NetworkSamples(net, x), names, alone, rtol=1e-2, generator=generator)


def test_one_tail_that_has_no_bound_leaves_the_others_theirs(shared: list[int]) -> None:
    """A window that ties: what lies before it is not concerned."""
    _, x = _deep(torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        before = [nn.Conv2d(2, 20, 1), *(nn.Conv2d(20, 20, 1) for _ in range(4))]
        behind = [nn.Conv2d(20, 20, 1), nn.Tanh(), nn.Conv2d(20, 20, 1), nn.Flatten(), nn.Linear(180, 3)]
        net = nn.Sequential(*before, nn.MaxPool2d(3), *behind)
    net, x[1] = net.double().eval(), 0.3
    names = ut.seams(net, x)
    alone = [NetworkSamples(tail, x) for tail in tails(net, names)]
    found = tail_norms(NetworkSamples(net, x), names, alone, rtol=1e-2)
    assert max(shared) > 1
    for name, norms in zip(names, found, strict=True):
        tied = names.index(name) >= names.index("5")
        assert norms.status is (Status.ROUNDING if tied else Status.CONVERGED)
        assert norms.converged.tolist() == [True, not tied, True, True, True]


class Words(nn.Module):
    """Rows of their own beside x, which samples that are repeated take along."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(9))
        self.read = nn.Linear(16, 2)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        h = self.words(tokens)
        for layer in self.layers:
            h = layer(h).tanh() * mask[:, :, None]
        found: Tensor = self.read(h.sum(1))
        return found


def test_rows_beside_the_samples_are_repeated_with_them(shared: list[int]) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = Words().double().eval()
    tokens = torch.tensor([[1, 2, 3, 4, 5], [4, 5, 6, 7, 8], [1, 1, 2, 2, 3]])
    mask = torch.tensor([[1, 1, 0, 0, 1], [1, 1, 1, 1, 1], [1, 0, 0, 1, 0]]).double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeasuredElsewhere)
        found = ut.seam_profile(net, tokens, extras={"mask": mask})
        assert max(shared) > 1
        for row in found.rows[::3]:
            one = ut.collaboration(net, tokens, seam=row.seam, extras={"mask": mask})
            assert row.energy_tail == pytest.approx(one.energy_tail, rel=1e-2)
            assert row.co_correlation == pytest.approx(one.co_correlation, abs=row.error + one.error)


def test_many_samples_and_small_chunks_share_nothing(shared: list[int]) -> None:
    net, x = _deep()
    ut.seam_profile(net, x, chunk=5)
    ut.seam_profile(net, torch.cat([x] * 8))
    assert shared == []
