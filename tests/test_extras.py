"""What a network takes beside x, in every public measure: a row for each sample, cut and reordered with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.errors import InputError
from undertow.measures.energy import Energy
from undertow.measures.kkt import KktResiduals
from undertow.measures.margins import Margins
from undertow.measures.sharpness import Sharpness

Found = dict[str, Tensor]
Measure = Callable[..., Found]
UNITS = 1e-3  # of x: nothing may take it for dust


class Masked(nn.Module):
    """Sees of each sample what its mask admits, and counts that too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        count = mask.sum(1, keepdim=True)
        return self.last(self.act(self.first(x / UNITS * mask))) / count.to(x.dtype)


class Fixed(nn.Module):
    """The same with one mask for whatever comes."""

    def __init__(self, net: nn.Module, row: Tensor) -> None:
        super().__init__()
        self.net = net
        self.row = row

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x, self.row.expand(len(x), -1))


class Folded(nn.Module):
    """The same for a network whose mask and samples come as one tensor."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, both: Tensor) -> Tensor:
        return self.net(both[:, :4], both[:, 4:])


@pytest.fixture
def case() -> tuple[Masked, Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    net = Masked().double().eval()
    x = UNITS * torch.randn(5, 4).double()
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 1]])
    return net, x, net(x, mask).argmax(1), mask


def _norms(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:  # noqa: ARG001
    return {"value": ut.jacobian_norms(net, x, **options).value}


def _operator(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:  # noqa: ARG001
    operator = ut.jacobian_operator(net, x, **options)
    return {"rows": operator.vjp(torch.ones(len(x), 3, dtype=x.dtype))}


def _energy(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    plain = ut.energy(net, x, **options)
    lossy = ut.energy(net, x, y, loss="cross-entropy", **options)
    return {"value": plain.per_sample, "loss": lossy.per_sample}


def _act(net: nn.Module) -> str:
    return next(name for name, module in net.named_modules() if isinstance(module, nn.ReLU))


def _collaboration(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:  # noqa: ARG001
    found = ut.collaboration(net, x, seam=_act(net), **options)
    return {"of_all": torch.tensor([found.co_correlation, found.energy_tail, found.energy])}


def _profile(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:  # noqa: ARG001
    found = ut.seam_profile(net, x, seams=[_act(net)], **options)
    return {"of_all": torch.tensor([*found.co_correlation, *found.energy_head])}


def _split(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:  # noqa: ARG001
    head, tail = ut.split(net, _act(net), x=x, **options)
    return {"value": head(tail(x))}


def _chain(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:  # noqa: ARG001
    tail, head = ut.chain(net, [_act(net)], x=x, **options)
    return {"value": head(tail(x))}


def _margins(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    found = ut.margins(net, x, y, chunk=2, **options)
    coarse = ut.margins(net, x, y, dtype=torch.float32, **options)
    return {
        "value": found.value,
        "of_all": torch.tensor([found.smallest, found.smoothed, found.order]),
        "coarse": coarse.value.float(),
    }


def _kkt(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    free, few = ut.kkt(net, x, y, kinks=1e-2, **options), ut.kkt(net, x, y, limit=3, **options)
    dense = ut.kkt(net, x, y, method="dense", **options)
    return {
        "multipliers": free.multipliers.float(),
        "of_all": torch.tensor(
            [free.residual, free.slackness, free.misalignment, few.residual, dense.residual]
        ),
    }


def _sharpness(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    exact = ut.sharpness(net, x, y, loss="cross-entropy", **options)
    krylov = ut.sharpness(net, x, y, loss="cross-entropy", method="krylov", chunk=2, rtol=1e-6, **options)
    return {"of_all": torch.tensor([exact.value, krylov.value])}


def _trace(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    return {"of_all": torch.tensor([ut.hessian_trace(net, x, y, loss="cross-entropy", **options).value])}


def _robust_accuracy(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    found = ut.robust_accuracy(net, x, y, eps=[0.0, 3e-4, 1e-3], attack=["apgd-t", "fab-t"], **options)
    return {
        "distance": found.distance.float(),
        "of_all": torch.cat([torch.as_tensor(found.value), torch.tensor([float(found.clean)])]),
    }


def _robust_curve(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    found = ut.robust_curve(net, x, y, eps=[0.0, 3e-4], attack="apgd-t", **options)
    return {"of_all": torch.cat([found.value, found.lower, found.upper, found.proved])}


def _attack_cost(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    found = ut.attack_cost(net, x, y, eps=1e-3, attack="apgd-t", **options)
    return {"of_all": torch.tensor([float(found.forward), float(found.backward)])}


def _certified_accuracy(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    found = ut.certified_accuracy(net, x, y, eps=[0.0, 1e-4], **options)
    return {"proved": found.proved.T, "of_all": torch.as_tensor(found.value)}


def _lipschitz(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    plain = ut.lipschitz(net, x, radius=1e-3 * torch.ones(len(x)), **options)
    return {
        "lower": plain.lower.float(),
        "gaps": ut.lipschitz(net, x, radius=0.0, y=y, **options).lower.float(),
    }


def _robustness(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    found = ut.robustness(net, x, y, **options)
    return {"attacked": found.attacked.float(), "certified": found.certified}


def _adversarial_risk(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    found = ut.adversarial_risk(net, x, y, eps=[0.0, 3e-4], **options)
    numbers = [
        *torch.as_tensor(found.value),
        *torch.as_tensor(found.standard_error),
        torch.tensor(found.clean),
    ]
    return {"losses": found.losses.T.float(), "of_all": torch.stack(numbers).float()}


def _risk_bound(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    found = ut.risk_bound(net, x, y, radii=[3e-4], resamples=10, **options)
    return {"of_all": torch.cat([found.risk[None], found.energy[None], found.gap]).float()}


def _probe(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:
    measures: list[Any] = [Energy(), Margins(), KktResiduals(loss="cross-entropy"), Sharpness(rtol=1e-6)]
    probe = ut.Probe(net, x, y, measures=measures, every="epoch", **options)
    probe.epoch_end()
    wanted = {"residual", "slackness", "smallest", "normalised", ""}
    rows = [row for row in probe.records if row.key in wanted]
    assert {row.measure for row in rows} == {"energy", "margins", "kkt", "sharpness"}
    return {"of_all": torch.tensor([row.value for row in rows])}


def _seams(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Found:  # noqa: ARG001
    return {"of_all": torch.tensor(len(ut.seams(net, x, **options)))}


MEASURES: dict[str, Measure] = {
    "jacobian_norms": _norms,
    "jacobian_operator": _operator,
    "split": _split,
    "chain": _chain,
    "energy": _energy,
    "collaboration": _collaboration,
    "seam_profile": _profile,
    "margins": _margins,
    "kkt": _kkt,
    "sharpness": _sharpness,
    "hessian_trace": _trace,
    "robust_accuracy": _robust_accuracy,
    "robust_curve": _robust_curve,
    "attack_cost": _attack_cost,
    "certified_accuracy": _certified_accuracy,
    "lipschitz": _lipschitz,
    "robustness": _robustness,
    "adversarial_risk": _adversarial_risk,
    "risk_bound": _risk_bound,
    "Probe": _probe,
}
OF_WEIGHTS = ("margins", "kkt", "sharpness", "hessian_trace")
WITHOUT = {  # no samples, no network, no measure, or (seams) names alone
    *("stable_rank", "near_orthogonality", "Classifier", "Store", "UndertowError", "__version__", "seams"),
    *("JacobianNorms", "JacobianOperator", "SharpnessResult", "LipschitzBracket"),
}


def test_every_public_name_has_its_place() -> None:
    assert set(ut.__all__) == set(MEASURES) | WITHOUT


def _same(found: Found, other: Found) -> None:
    for name, value in found.items():
        torch.testing.assert_close(value, other[name], rtol=1e-4, atol=1e-9, msg=f"{name} differs")


@pytest.mark.parametrize("name", MEASURES)
def test_the_same_rows_for_all_are_a_constant_of_the_network(
    name: str, case: tuple[Masked, Tensor, Tensor, Tensor]
) -> None:
    net, x, _, mask = case
    same = mask[1:2].expand(5, -1)
    y = net(x, same).argmax(1)
    _same(MEASURES[name](net, x, y, extras={"mask": same}), MEASURES[name](Fixed(net, mask[1]), x, y))


@pytest.mark.parametrize("name", MEASURES)
def test_each_sample_is_measured_with_its_own_row(
    name: str, case: tuple[Masked, Tensor, Tensor, Tensor]
) -> None:
    net, x, y, mask = case
    found = MEASURES[name](net, x, y, extras={"mask": mask})
    if name in OF_WEIGHTS:  # the same function of the weights, where x holds the mask
        _same(found, MEASURES[name](Folded(net), torch.cat([x, mask.double()], 1), y))
        return
    of_each = {key: value for key, value in found.items() if key != "of_all"}
    for index, row in enumerate(mask):
        part = slice(index, index + 1)
        alone = MEASURES[name](Fixed(net, row), x[part], y[part]) if of_each else {}
        _same({key: value[part] for key, value in of_each.items()}, alone)


@pytest.mark.parametrize("name", MEASURES)
def test_samples_in_another_order_give_the_same(
    name: str, case: tuple[Masked, Tensor, Tensor, Tensor]
) -> None:
    net, x, y, mask = case
    found = MEASURES[name](net, x, y, extras={"mask": mask})
    order = torch.tensor([3, 1, 4, 0, 2])
    other = MEASURES[name](net, x[order], y[order], extras={"mask": mask[order]})
    _same({key: value if key == "of_all" else value[order] for key, value in found.items()}, other)


@pytest.mark.parametrize("name", [*MEASURES, "seams"])
def test_a_misspelt_extra_and_one_of_another_length_are_refused(
    name: str, case: tuple[Masked, Tensor, Tensor, Tensor]
) -> None:
    net, x, y, mask = case
    measure = MEASURES.get(name, _seams)
    with pytest.raises(InputError, match="takes no 'msak' beside x; did you mean 'mask'"):
        measure(net, x, y, extras={"msak": mask})
    with pytest.raises(InputError, match="but there are 5 samples: give it one row for each"):
        measure(net, x, y, extras={"mask": mask[:3]})


@pytest.mark.parametrize("name", MEASURES)
def test_measuring_leaves_the_network_as_it_was(
    name: str, case: tuple[Masked, Tensor, Tensor, Tensor]
) -> None:
    net, x, y, mask = case
    MEASURES[name](net, x, y, extras={"mask": mask})
    hooks = [*net._forward_pre_hooks, *net._forward_hooks, *net._forward_pre_hooks_with_kwargs]
    assert not hooks
    assert not any(key in vars(net) for key in ("forward",))


def test_extras_of_several_networks_are_refused(case: tuple[Masked, Tensor, Tensor, Tensor]) -> None:
    net, x, y, mask = case
    with pytest.raises(InputError, match="are for one network"):
        ut.robust_accuracy([net, net], x, y, eps=0.1, extras={"mask": mask})


def test_a_classifier_around_a_network_takes_extras(case: tuple[Masked, Tensor, Tensor, Tensor]) -> None:
    net, x, y, mask = case
    scaled = ut.Classifier(net, mean=0.0, std=1e-2)
    found = ut.robustness(scaled, 1e-2 * x, y, extras={"mask": mask}, attack="fast")
    plain = ut.robustness(net, x, y, extras={"mask": mask}, attack="fast")
    torch.testing.assert_close(found.attacked, 1e-2 * plain.attacked, rtol=1e-3, atol=0)
