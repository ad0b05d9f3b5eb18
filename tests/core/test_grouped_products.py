"""Mixtures of experts, whose grouped products PyTorch has in float32 and not in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from tests.model_cases import dense_norms
from undertow.core.grouped_products import GroupedProducts

pytestmark = pytest.mark.skipif(
    not hasattr(torch, "_grouped_mm"), reason="this PyTorch has no grouped products"
)


class Experts(nn.Module):
    """Tokens (N, length, 8) to the better of four experts each, sorted by it, as transformers writes it."""

    def __init__(self, *, plain: bool = False) -> None:
        super().__init__()
        self.plain = plain
        self.router = nn.Linear(8, 4)
        self.weights = nn.Parameter(torch.randn(4, 8, 8) / 3)
        self.head = nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, 8)
        share, expert = self.router(rows).softmax(1).max(1)
        if self.plain:
            mixed = (rows[:, None] @ self.weights[expert])[:, 0]
        else:
            order = expert.argsort()
            counts = torch.histc(expert.float(), bins=4, min=0, max=3)
            ends = counts.cumsum(0, dtype=torch.int32)
            mixed = torch._grouped_mm(rows[order], self.weights, offs=ends)[order.argsort()]
        return self.head((rows + (share[:, None] * mixed).tanh()).reshape(len(x), -1))


def _made() -> tuple[Experts, Experts, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = Experts().eval(), torch.randn(5, 3, 8)
    plain = Experts(plain=True).double().eval()
    plain.load_state_dict(net.state_dict())
    return net, plain, x


def test_norms_of_a_mixture_of_experts() -> None:
    net, plain, x = _made()
    found = ut.jacobian_norms(net, x, dtype=torch.float64)
    torch.testing.assert_close(found.value, dense_norms(plain, x.double()))
    single = ut.jacobian_norms(net, x)
    assert single.status.ok
    assert bool(((single.value - found.value).abs() <= single.error).all())
    assert bool((single.error < 1e-3 * single.value).all())  # counts of tokens are not rounded


def test_margins_and_curvature_of_a_mixture_of_experts() -> None:
    net, plain, x = _made()
    y = torch.tensor([0, 1, 2, 0, 1])
    torch.testing.assert_close(ut.margins(net, x, y).value, ut.margins(plain, x.double(), y).value)
    ours = ut.sharpness(net, x, y, loss="cross-entropy", dtype=torch.float64)
    theirs = ut.sharpness(plain, x.double(), y, loss="cross-entropy")
    assert abs(ours.value - theirs.value) <= ours.error + theirs.error
    ours_kkt, theirs_kkt = ut.kkt(net, x, net(x).argmax(1)), ut.kkt(plain, x.double(), net(x).argmax(1))
    assert ours_kkt.residual == pytest.approx(theirs_kkt.residual, rel=1e-6)


@pytest.mark.parametrize("ends", [[2, 2, 7], [0, 3, 5]])
def test_groups_may_be_empty_and_rows_may_belong_to_none(ends: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    matrices = torch.randn(3, 4, 2, generator=generator, dtype=torch.float64)
    offs = torch.tensor(ends, dtype=torch.int32)
    with GroupedProducts():
        found = torch._grouped_mm(rows, matrices, offs=offs)
        each = torch.vmap(lambda row, end: torch._grouped_mm(row, matrices, offs=end))(rows[None], offs[None])
    begin = 0
    for end, matrix in zip(ends, matrices, strict=True):
        torch.testing.assert_close(found[begin:end], rows[begin:end] @ matrix)
        begin = end
    assert bool((found[begin:] == 0).all())
    torch.testing.assert_close(each[0], found)
