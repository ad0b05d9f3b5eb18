"""Energies and Lipschitz constants side by side, against whole Jacobians in float64."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from undertow.core.errors import ModelError
from undertow.measures.steepness import Steepness
from undertow.models import He, mlp


def network(seed: int, *, activation: str = "relu", outputs: int = 3) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    return mlp(
        inputs=5,
        widths=[7, 6],
        outputs=outputs,
        activation=activation,
        init=He(),
        dtype=torch.float64,
        generator=generator,
    )


@pytest.mark.parametrize("activation", ["relu", "tanh", "silu"])
def test_all_four_are_those_of_whole_jacobians(activation: str) -> None:
    nets = [network(seed, activation=activation) for seed in range(2)]
    x, y = torch.randn(9, 5, dtype=torch.float64), torch.arange(9) % 3
    for net, readings in zip(nets, Steepness().batched(nets, x, y), strict=True):
        found = {key: value for key, value, _ in readings}
        whole = torch.stack([torch.autograd.functional.jacobian(net, row[None])[0, :, 0] for row in x])
        norms = torch.linalg.matrix_norm(whole, ord=2)
        assert found["energy"] == pytest.approx(float(norms.square().mean().sqrt()), rel=1e-6)
        assert found["largest"] == pytest.approx(float(norms.max()), rel=1e-6)
        leaf = x.clone().requires_grad_()
        losses = nn.functional.cross_entropy(net(leaf), y, reduction="sum")
        (slopes,) = torch.autograd.grad(losses, leaf)
        assert found["loss_energy"] == pytest.approx(
            float(slopes.norm(dim=1).square().mean().sqrt()), rel=1e-6
        )
        product = 1.0998393**2 if activation == "silu" else 1.0  # of the slopes
        for weight in (p for p in net.parameters() if p.dim() == 2):
            product *= float(torch.linalg.matrix_norm(weight.detach(), ord=2))
        assert found["product"] == pytest.approx(product, rel=1e-5)
        assert found["energy"] <= found["largest"] <= found["product"]


def test_a_network_of_other_layers_is_refused_in_a_sentence() -> None:
    net = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 1, 3), nn.Flatten())
    with pytest.raises(ModelError, match="linear layers and activations"):
        list(Steepness()(net.eval(), torch.randn(3, 4), torch.tensor([0, 1, 0])))
