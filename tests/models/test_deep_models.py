"""Deep networks: the sizes that their papers print, their start, and that they can be cut wherever seams are listed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import undertow as ut
from undertow.core.errors import ConfigError, SeamError
from undertow.models import imagenet_resnet, vgg, vision_transformer
from undertow.models.imagenet_resnet import ProjectedBlock
from undertow.training import Recipe, Trainer


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("architecture", "millions"),
    [
        ("resnet-18", 11_689_512),
        ("resnet-50", 25_557_032),
        pytest.param("wrn-50-2", 68_883_240, marks=pytest.mark.full),
    ],
)
def test_residual_networks_have_the_published_numbers_of_parameters(architecture: str, millions: int) -> None:
    net = imagenet_resnet(architecture, image=(3, 224, 224), outputs=1000, generator=seeded())
    assert sum(parameter.numel() for parameter in net.parameters()) == millions


def test_vgg_11_has_the_convolutions_of_its_paper() -> None:
    net = vgg(11, width=2, outputs=10, generator=seeded())
    sizes = [weight.shape[:2] for weight in net.parameters() if weight.dim() == 4]
    assert [tuple(size) for size in sizes] == [
        (2, 3), (4, 2), (8, 4), (8, 8), (16, 8), (16, 16), (16, 16), (16, 16)
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="choose 11 or 16"):
        vgg(13, outputs=10, generator=seeded())


def test_the_start_is_that_of_the_packages() -> None:
    net = imagenet_resnet("resnet-18", width=16, generator=seeded())
    conv = net.get_parameter("layer3.0.residual.conv1.weight").detach()
    assert float(conv.std()) == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.03)
    read_out = net.get_parameter("fc.weight").detach()
    assert float(read_out.abs().max()) == pytest.approx(128**-0.5, rel=0.01)
    for start in (0.0, 1.0):
        own = imagenet_resnet("resnet-10", width=2, residual_start=start, generator=seeded())
        blocks = [module for module in own.modules() if isinstance(module, ProjectedBlock)]
        assert all(
            torch.equal(block.last.weight, torch.full_like(block.last.weight, start)) for block in blocks
        )
        assert all(bool((block.residual.get_parameter("bn1.weight") == 1).all()) for block in blocks)


def test_a_branch_that_starts_at_0_leaves_its_shortcut() -> None:
    net = imagenet_resnet("resnet-18", width=4, residual_start=0.0, generator=seeded()).eval()
    x = torch.rand(3, 4, 8, 8)
    block = net.get_submodule("layer1.0")
    assert torch.equal(block(x), x)


CASES: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "resnet-18": lambda: (
        imagenet_resnet("resnet-18", width=2, image=(1, 16, 16), residual_start=1.0, generator=seeded()),
        torch.rand(3, 256),
    ),
    "bottleneck": lambda: (
        imagenet_resnet("wrn-50-2", width=1, image=(1, 16, 16), residual_start=1.0, generator=seeded()),
        torch.rand(3, 256),
    ),
    "vgg-11": lambda: (
        vgg(11, width=1, image=(1, 32, 32), outputs=3, generator=seeded()),
        torch.rand(2, 1024),
    ),
    "vision transformer": lambda: (
        vision_transformer(image=(1, 8, 8), width=8, heads=2, blocks=2, outputs=3, generator=seeded()),
        torch.rand(3, 64),
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.full] if name == "bottleneck" else []) for name in CASES],
)
def test_seams_are_exactly_where_the_network_can_be_cut(name: str) -> None:
    """Every listed place is accepted, and head(tail(x)) is net(x); all else is refused, or has another name."""
    net, x = CASES[name]()
    net = net.double().eval()
    x = x.double()
    listed = ut.seams(net, x)
    values = {seam: ut.split(net, seam, x=x)[1](x) for seam in listed}
    for seam in listed:
        head, tail = ut.split(net, seam)
        assert torch.equal(head(tail(x)), net(x)), seam
    for other in {module for module, _ in net.named_modules() if module} - set(listed):
        try:
            _, tail = ut.split(net, other, x=x)
        except SeamError:
            continue
        value = tail(x)
        same = (value.shape == known.shape and torch.equal(value, known) for known in values.values())
        assert torch.equal(value, net(x)) or any(same), f"{other} can be cut after, and is not listed"


def test_seams_of_nested_blocks_are_listed_and_parts_are_cut_again() -> None:
    net, x = CASES["resnet-18"]()
    net = net.double().eval()
    x = x.double()
    listed = ut.seams(net, x)
    assert {"layer1.0", "layer2.0", "layer4"} <= set(listed)
    assert not any("residual" in seam for seam in listed)  # a shortcut goes round them
    head, tail = ut.split(net, "layer2.0", x=x)
    behind, before = ut.split(head, "layer3", x=tail(x))
    assert torch.equal(behind(before(tail(x))), net(x))
    assert torch.equal(before(tail(x)), ut.split(net, "layer3", x=x)[1](x))
    with pytest.raises(SeamError):
        ut.split(net, "layer1.0.residual", x=x)


def test_a_profile_of_a_residual_network_is_that_of_dense_jacobians() -> None:
    net = imagenet_resnet(
        "resnet-10",
        width=2,
        image=(1, 8, 8),
        residual_start=1.0,
        outputs=3,
        dtype=torch.float64,
        generator=seeded(),
    ).eval()
    x = torch.rand(3, 64, generator=seeded(1), dtype=torch.float64)
    found = ut.seam_profile(net, x, seams=["maxpool", "layer2"], rtol=1e-3)
    whole = _norms(net, x)
    for row in found.rows:
        head, tail = ut.split(net, row.seam, x=x)
        both = _norms(head, tail(x)) * _norms(tail, x)
        expected = whole.square().mean().sqrt() / both.square().mean().sqrt()
        assert row.co_correlation == pytest.approx(float(expected), rel=2e-3)


def _norms(f: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """‖J‖₂ of every sample by its whole Jacobian."""
    found = []
    for row in x:
        jacobian = torch.func.jacrev(lambda point: f(point[None])[0].flatten())(row)
        found.append(torch.linalg.matrix_norm(jacobian.flatten(1).detach(), ord=2))
    return torch.stack(found)


@pytest.mark.parametrize("name", ["resnet-18", "vision transformer"])
def test_members_train_as_they_would_alone(name: str) -> None:
    """Adam, a frozen read-out, statistics that stop after an epoch: two members together and each by itself."""
    net, x = CASES[name]()
    x, y = torch.cat([x, -x, x + 0.5]), torch.arange(3 * len(x)) % 3
    frozen = tuple(each for each, _ in net.named_parameters() if each.startswith(("fc", "output")))
    recipes = [
        Recipe(
            optimizer="adam", learning_rate=1e-3, epochs=3, batch_size=3, loss="cross-entropy", dtype="float64",
            frozen=frozen, batch_statistics_epochs=1, seed=seed,
        )
        for seed in range(2)
    ]  # fmt: skip
    together = Trainer([net, net], x, y, recipes)
    alone = [Trainer([net], x, y, [recipe]) for recipe in recipes]
    for trainer in (together, *alone):
        trainer.advance(trainer.total_steps)
    for index, own in enumerate(alone):
        expected = own.network(0).state_dict()
        for key, tensor in together.network(index).state_dict().items():
            torch.testing.assert_close(tensor, expected[key], rtol=1e-6, atol=1e-9)
        assert torch.equal(expected[frozen[0]].float(), net.state_dict()[frozen[0]].float())
