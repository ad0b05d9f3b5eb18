"""A chain in a probe: against the budget itself, and the paper's estimators against dense singular values."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from undertow.core.errors import ConfigError, InputError
from undertow.jacobian.cutting import chain
from undertow.measures import measure
from undertow.measures.chain import Chain
from undertow.measures.chain_norms import batched_chain_norms
from undertow.measures.printed import PrintedCollaboration
from undertow.models import mlp, two_layer
from undertow.models.initialisation import Gaussian
from undertow.probe import Probe


def test_the_factors_of_a_deep_network_multiply_to_its_energy() -> None:
    generator = torch.Generator().manual_seed(0)
    net = mlp(inputs=7, widths=[6, 5, 4], outputs=3, dtype=torch.float64, generator=generator)
    x = torch.randn(9, 7, dtype=torch.float64, generator=generator)
    found = {key: value for key, value, _ in Chain()(net, x, None)}
    jacobians = torch.func.vmap(torch.func.jacrev(lambda v: net(v[None])[0]))(x)
    dense = torch.linalg.matrix_norm(jacobians, ord=2).square().mean().sqrt().item()
    product = math.prod(found[f"{index}:module"] for index in range(4))
    for seam in ("activation1", "activation2", "activation3"):
        product *= found[f"{seam}:co_correlation"] * found[f"{seam}:linear_correlation"]
        product *= math.hypot(1.0, found[f"{seam}:relative_std"])
    assert product == pytest.approx(dense, rel=1e-9)
    assert found["energy"] == pytest.approx(dense, rel=1e-9)
    assert found["identity_gap"] < 1e-12
    named = {key: value for key, value, _ in Chain(seams=("activation1", "hidden3"))(net, x, None)}
    assert named["energy"] == pytest.approx(dense, rel=1e-9)
    with pytest.raises(InputError, match="no activation to cut after"):
        list(
            Chain()(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)), torch.ones(1, 2), None)
        )


@pytest.mark.parametrize("widths", [[90, 80, 70], [70, 80, 90]], ids=["narrowing", "widening"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "linear"])
def test_deep_networks_together_have_the_norms_of_dense_jacobians(activation: str, widths: list[int]) -> None:
    """Wider than what is solved exactly, so that Lanczos goes through several layers and W₁W₁ᵀ."""
    generator = torch.Generator().manual_seed(0)
    nets = [
        mlp(
            inputs=100,
            widths=widths,
            outputs=5,
            activation=activation,
            dtype=torch.float64,
            generator=generator,
        )
        for _ in range(3)
    ]
    x = torch.randn(7, 100, dtype=torch.float64, generator=generator)
    seams = ["activation1", "activation2", "activation3"]
    for net, norms in zip(nets, batched_chain_norms(nets, x, seams=seams, rtol=1e-9), strict=True):
        *parts, whole = (*chain(net, seams), net)
        values = [x]
        for part in parts:
            values.append(part(values[-1]).detach())
        for part, at, found in zip(parts, values[:-1], norms.modules, strict=True):
            torch.testing.assert_close(found.value, _dense(part, at))
        upto = [parts[0], torch.nn.Sequential(*parts[:2]), torch.nn.Sequential(*parts[:3]), whole]
        for part, found in zip(upto, norms.prefixes, strict=True):
            torch.testing.assert_close(found.value, _dense(part, x))


def _dense(net: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    jacobians = torch.func.vmap(torch.func.jacrev(lambda v: net(v[None])[0]))(x)
    return torch.linalg.matrix_norm(jacobians, ord=2).detach()


def test_printed_forms_are_those_of_dense_singular_values() -> None:
    generator = torch.Generator().manual_seed(1)
    net = two_layer(
        inputs=8,
        width=6,
        outputs=3,
        init=Gaussian(1.0),
        head="gaussian",
        dtype=torch.float64,
        generator=generator,
    )
    x = torch.randn(20, 8, dtype=torch.float64, generator=generator)
    found = {key: value for key, value, _ in PrintedCollaboration(seam="activation")(net, x, None)}
    weight, head = (parameter.detach() for parameter in net.parameters())
    tails = (x @ weight.T > 0).double()[:, :, None] * weight
    whole = torch.linalg.matrix_norm(head @ tails, ord=2)
    product = torch.linalg.matrix_norm(head, ord=2) * torch.linalg.matrix_norm(tails, ord=2)
    rms = (whole.square().mean() / product.square().mean()).sqrt().item()
    means = (whole.mean() / product.mean()).item()
    assert found["equation-9:auto"] == pytest.approx(rms, rel=1e-9)
    assert found["algorithm-1:auto"] == pytest.approx(means, rel=1e-9)
    assert found["equation-9:power"] == pytest.approx(rms, rel=1e-3)
    assert found["algorithm-1:power-authors"] == pytest.approx(means, rel=0.03)
    assert rms != pytest.approx(means, rel=1e-3)  # or the test would prove nothing


def test_an_unknown_method_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'power'"):
        measure("printed-collaboration", seam="0", methods=["powr"])


def test_a_chain_of_a_network_with_extras_is_cut_after_its_own_activations() -> None:
    """The network is inside what knows its output and extras; its activations go by their own names."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.bent, self.last = nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": self.last(self.bent(self.first(x)) * scale)}

    x, scale = torch.randn(6, 3), torch.rand(6, 1)
    probe = Probe(Scaled(), x, measures=[Chain(), Chain(rtol=1e-2, points=4)], extras={"scale": scale})
    assert [record.key for record in probe.records if record.key.endswith(":co_correlation")] == [
        "bent:co_correlation"
    ] * 2
