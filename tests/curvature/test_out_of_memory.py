"""What is recorded of a loss is given up where no memory is left for products with it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.pretended_gpu import pretended_gpu
from undertow.curvature.hessian_sharpness import curvature_products

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="there is a GPU, which need not be pretended"
)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.LogSigmoid], ids=["by hand", "by autograd"])
def test_products_go_on_in_parts(activation: type[nn.Module]) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 3), activation(), nn.Linear(3, 2)).double().eval()
    x, y = torch.randn(400, 2, dtype=torch.float64), torch.randint(0, 2, (400,))
    with pretended_gpu() as gpu:
        net.to("cuda")
        with curvature_products([net], x.cuda(), y.cuda(), loss="cross-entropy") as (products, _):
            vector = torch.ones(1, products.size, dtype=torch.float64, device="cuda")
            expected = products(vector)
            gpu.operations.largest = 250 * 3 * 8  # another program has taken the rest
            found = products(vector)
            gpu.operations.largest = float("inf")
        torch.testing.assert_close(found.cpu(), expected.cpu())
