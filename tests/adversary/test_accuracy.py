from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.adversary.cases import decisions, digits, mlp, parity, points
from undertow.adversary import Classifier, Groups, robust_accuracy, robust_curve
from undertow.adversary.accuracy import RobustAccuracyResult
from undertow.adversary.attacks.search import Search
from undertow.adversary.geometry import lengths
from undertow.adversary.scorer import margins_of
from undertow.core.errors import ConfigError, InputError

BOX = (0.0, 1.0)


@pytest.mark.full  # smaller: test_the_library_is_adapted_to_few_classes_and_free_inputs
@pytest.mark.parametrize(("norm", "eps"), [(2, 0.5), (math.inf, 0.06)])
def test_equals_an_independent_run_of_pyautoattack(norm: float, eps: float) -> None:
    library = pytest.importorskip("pyautoattack")
    net, x, y = digits()
    x, y = x[:250], y[:250]
    with torch.random.fork_rng():
        images = nn.Sequential(nn.Flatten(), net)
        attack = library.AutoAttack(images, norm="L2" if norm == 2 else "Linf", eps=eps, seed=7)
        found, _ = attack.run_standard_evaluation(x.reshape(-1, 1, 8, 8), y, batch_size=250)
    independent = (images(found).argmax(1) == y).double().mean()
    ours = robust_accuracy(net, x, y, eps=eps, norm=norm, bounds=BOX)
    assert abs(float(ours.value) - float(independent)) <= 0.004
    assert 0.1 < float(ours.value) < 0.8  # neither all nor nothing: the comparison means something


@cache
def _best() -> float:
    net, x, y = digits()
    found = robust_accuracy(net, x[:80], y[:80], eps=0.3, bounds=BOX, attack=["apgd-t", "fab-t"])
    return float(found.value)


@pytest.mark.parametrize(
    "attack", ["apgd-ce", "apgd-dlr", "apgd-t", "fab-t", "pgd", "pgd-once", "cw", "deepfool"]
)
def test_every_attack_comes_close_to_the_ensemble(attack: str) -> None:
    net, x, y = digits()
    x, y = x[:80], y[:80]
    best = _best()
    alone = float(robust_accuracy(net, x, y, eps=0.3, bounds=BOX, attack=attack).value)
    assert -0.013 <= alone - best <= 0.05


def test_square_alone_comes_close_without_gradients() -> None:
    net, x, y = digits()
    x, y = x[:16], y[:16]
    for norm, eps in ((2, 0.6), (math.inf, 0.1)):
        strong = float(robust_accuracy(net, x, y, eps=eps, norm=norm, bounds=BOX, attack="apgd-t").value)
        found = robust_accuracy(net, x, y, eps=eps, norm=norm, bounds=BOX, attack="square")
        assert abs(strong - float(found.value)) <= 0.25
        assert float(found.value) < float(found.clean)


def test_one_logit_two_classes_and_groups_agree_exactly() -> None:
    net, x, y = digits()
    one, two = parity(net)
    labels = y % 2
    options = {"eps": [0.0, 0.2, 0.4], "bounds": BOX, "attack": ["apgd-ce", "apgd-t", "fab-t"]}
    odd, even = (1, 3, 5, 7, 9), (0, 2, 4, 6, 8)
    results = [robust_accuracy(each, x, labels, **options) for each in (one, two)]  # type: ignore[arg-type]
    assert torch.equal(torch.as_tensor(results[0].value), torch.as_tensor(results[1].value))
    # distances to rounding only: a product with one column and one with two round differently
    assert torch.allclose(results[0].distance, results[1].distance, rtol=1e-5)
    groups = robust_accuracy(net, x, labels, readout=Groups(odd, even), **options)  # type: ignore[arg-type]
    # the same function, summed in another order
    assert torch.allclose(torch.as_tensor(groups.value), torch.as_tensor(results[0].value), atol=0.003)


def test_zero_eps_is_clean_accuracy_and_the_curve_never_rises() -> None:
    net, x, y = digits()
    curve = robust_curve(
        net, x[:120], y[:120], eps=[0.4, 0.0, 0.1, 0.2], bounds=BOX, attack=["apgd-ce", "fab-t"]
    )
    clean = (net(x[:120]).argmax(1) == y[:120]).double().mean()
    assert float(curve.value[1]) == float(clean) == curve.accuracy.clean
    ordered = curve.value[torch.tensor([1, 2, 3, 0])]
    assert bool((ordered.diff() <= 0).all())
    assert float(ordered[-1]) < float(ordered[0])
    assert bool(
        ((curve.lower <= curve.value) & (curve.value <= curve.upper) & (curve.proved <= curve.value)).all()
    )
    assert float(curve.proved[2]) > 0.5, "proofs with slopes and the ball, not plain ones"
    (rows,) = curve.figure().to_dict()["datasets"].values()
    drawn = {(row["kind"], row["eps"]): row["mean"] for row in rows}
    assert [drawn["attacked", radius] for radius in curve.eps] == curve.value.tolist()
    assert [drawn["proved", radius] for radius in curve.eps] == curve.proved.tolist()


@pytest.mark.parametrize("norm", [2, math.inf])
def test_the_examples_reproduce_the_count(norm: float) -> None:
    net, x, y = digits()
    eps = 0.4 if norm == 2 else 0.05
    found = robust_accuracy(net, x, y, eps=eps, norm=norm, bounds=BOX, attack=["apgd-ce", "fab-t"])
    inside = lengths(found.examples - x, float(norm)) <= eps
    correct = margins_of(net(found.examples), y) > 0
    assert float((correct | ~inside).double().mean()) == found.value
    assert float(found.examples.min()) >= 0
    assert float(found.examples.max()) <= 1
    assert sum(count[0] for count in found.broken_by.values()) == round(float(found.clean) * len(x)) - round(
        float(found.value) * len(x)
    )


@pytest.mark.parametrize(("attack", "starts"), [("pgd", 9), ("pgd-once", 0)])
def test_pgd_has_as_many_starts_as_its_name_says(
    attack: str, starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, x, y = digits()
    drawn: list[int] = []

    def start(search: Search, *_: object) -> torch.Tensor:
        drawn.append(1)
        return search.x

    monkeypatch.setattr("undertow.adversary.attacks.pgd.random_start", start)
    robust_accuracy(net, x[:10], y[:10], eps=0.1, attack=attack, certify=False)
    assert len(drawn) == starts  # beside the first, which is the sample itself


@cache
def _plain(attack: str) -> RobustAccuracyResult:
    net, x, y = digits()
    return robust_accuracy(net, x[:30], y[:30], eps=0.3, bounds=BOX, attack=attack)


@pytest.mark.full  # smaller: test_units.py
@pytest.mark.parametrize("factor", [1e-12, 1e3])
@pytest.mark.parametrize("attack", ["apgd-ce", "apgd-t", "fab-t", "cw", "deepfool", "pgd", "pgd-once"])
def test_the_scale_of_the_logits_does_not_matter(attack: str, factor: float) -> None:
    net, x, y = digits()
    x, y = x[:30], y[:30]
    plain = _plain(attack)
    scaled = robust_accuracy(lambda v: factor * net(v), x, y, eps=0.3, bounds=BOX, attack=attack)
    assert abs(float(plain.value) - float(scaled.value)) <= 1 / 30 + 1e-9


def test_a_seed_decides_everything_and_the_global_generator_is_left_alone() -> None:
    net, x, y = digits()
    before = torch.get_rng_state()
    runs = [
        robust_accuracy(net, x[:50], y[:50], eps=0.3, bounds=BOX, attack="apgd-ce", seed=3) for _ in range(2)
    ]
    assert torch.equal(runs[0].examples, runs[1].examples)
    pytest.importorskip("pyautoattack")
    robust_accuracy(net, x[:10], y[:10], eps=5.0, bounds=BOX, engine="pyautoattack")
    assert torch.equal(before, torch.get_rng_state())


def test_certificates_change_the_cost_and_not_the_result() -> None:
    net, x, y = digits()
    x, y = x[:100], y[:100]
    with_proofs = robust_accuracy(net, x, y, eps=0.2, bounds=BOX, attack=["apgd-t"])
    without = robust_accuracy(net, x, y, eps=0.2, bounds=BOX, attack=["apgd-t"], certify=False)
    assert with_proofs.value == without.value
    assert 0 < float(with_proofs.proved) <= float(with_proofs.value)


def test_members_together_equal_members_alone() -> None:
    nets = [mlp(seed, inputs=6, outputs=4) for seed in range(5)]
    x = points(0, 40, 6)
    y = decisions(nets[0], x)
    together = robust_accuracy(nets, x, y, eps=[0.1, 0.3], attack=["apgd-ce", "fab-t"])
    alone = [robust_accuracy(net, x, y, eps=[0.1, 0.3], attack=["apgd-ce", "fab-t"]) for net in nets]
    assert torch.as_tensor(together.value).shape == (5, 2)
    assert torch.allclose(
        torch.as_tensor(together.value), torch.stack([torch.as_tensor(a.value) for a in alone])
    )
    assert together.examples.shape == (5, 40, 6)


def test_a_function_with_a_member_axis_is_attacked_like_the_list() -> None:
    nets = [mlp(seed, outputs=1) for seed in range(3)]
    x = points(1, 30)
    y = decisions(nets[0], x)
    function = Classifier(
        lambda v: torch.stack([net(part) for net, part in zip(nets, v, strict=True)]), members=3
    )
    listed = robust_accuracy(nets, x, y, eps=0.2, attack="apgd-ce")
    called = robust_accuracy(function, x, y, eps=0.2, attack="apgd-ce")
    assert torch.equal(torch.as_tensor(listed.value), torch.as_tensor(called.value))


def test_convolutions_with_batch_norm_are_stacked_too() -> None:
    def net(seed: int) -> nn.Sequential:
        torch.manual_seed(seed)
        made = nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(72, 3)
        )
        made(torch.randn(8, 1, 8, 8))  # gives BatchNorm some statistics
        return made

    with torch.random.fork_rng():
        nets = [net(0), net(1)]
        x = torch.rand(20, 1, 8, 8)
    y = nets[0].eval()(x).argmax(1)
    for each in nets:
        each.train()
    found = robust_accuracy(nets, x, y, eps=0.5, bounds=BOX, attack="apgd-ce")
    alone = robust_accuracy(nets[0], x, y, eps=0.5, bounds=BOX, attack="apgd-ce")
    assert float(torch.as_tensor(found.value)[0]) == alone.value
    assert all(module.training for each in nets for module in each.modules())


@pytest.mark.parametrize("outputs", [1, pytest.param(2, marks=pytest.mark.full), 3])
def test_the_library_is_adapted_to_few_classes_and_free_inputs(outputs: int) -> None:
    pytest.importorskip("pyautoattack")
    net = mlp(outputs, inputs=6, outputs=outputs).float()
    x = points(2, 40, 6).float()
    y = decisions(net, x)
    library = robust_accuracy(net, x, y, eps=0.3, engine="pyautoattack")
    native = robust_accuracy(net, x, y, eps=0.3)
    assert abs(float(library.value) - float(native.value)) <= 1 / 40
    assert any("padded" in note for note in library.notes)
    assert any("unbounded" in note for note in library.notes)


def test_normalisation_belongs_to_the_classifier() -> None:
    net, x, y = digits()
    shifted = Classifier(nn.Sequential(_Undo(), *net), mean=0.5, std=0.25, bounds=BOX)
    plain = robust_accuracy(net, x[:80], y[:80], eps=0.3, bounds=BOX, attack="apgd-t")
    assert (
        abs(
            float(robust_accuracy(shifted, x[:80], y[:80], eps=0.3, attack="apgd-t").value)
            - float(plain.value)
        )
        <= 1 / 80
    )


class _Undo(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.25 * x + 0.5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_robust_accuracy() -> None:
    net, x, y = digits()
    plain = robust_accuracy(net, x, y, eps=[0.2, 0.4], bounds=BOX)
    moved = nn.Sequential(*[type(layer)(*_sizes(layer)) for layer in net])
    moved.load_state_dict(net.state_dict())
    nets = [moved.cuda(), moved.cuda()]
    on_gpu = torch.as_tensor(robust_accuracy(nets, x.cuda(), y.cuda(), eps=[0.2, 0.4], bounds=BOX).value)
    assert torch.allclose(on_gpu, torch.as_tensor(plain.value).expand(2, 2), atol=0.005)


def _sizes(layer: nn.Module) -> tuple[int, ...]:
    return (layer.in_features, layer.out_features) if isinstance(layer, nn.Linear) else ()


def test_bad_options_are_named() -> None:
    net, x, y = digits()
    with pytest.raises(ConfigError, match="did you mean 'apgd-ce'"):
        robust_accuracy(net, x, y, eps=0.1, attack="apgd-cee")
    with pytest.raises(ConfigError, match="engine"):
        robust_accuracy(net, x, y, eps=0.1, engine="foolbox")
    with pytest.raises(InputError, match="norm"):
        robust_accuracy(net, x, y, eps=0.1, norm=1)
    with pytest.raises(InputError, match="eps"):
        robust_accuracy(net, x, y, eps=-0.1)


def test_what_float32_rounds_to_an_error_is_not_proved_robust() -> None:
    net = nn.Linear(3, 1, bias=False).requires_grad_(False)
    net.weight.fill_(1.0)
    x = torch.tensor([[1e8, 1.0, -1e8], [1e8, -1e8, 1.0], [1.0, 1e8, -1e8]])  # 1 in exact arithmetic
    found = robust_accuracy(net, x, torch.ones(3, dtype=torch.long), eps=[0.0, 0.1], attack="apgd-ce")
    assert bool((torch.as_tensor(found.proved) <= torch.as_tensor(found.value)).all())


def test_eps_may_be_a_number_of_any_library() -> None:
    net, x = mlp(0), points(0, 4)
    y = decisions(net, x)
    numbers: list[Any] = [np.float32(0.25), np.array(0.25), torch.tensor(0.25)]
    for eps in numbers:
        assert isinstance(robust_accuracy(net, x, y, eps=eps, attack="apgd-ce").value, float)
    lists: list[Any] = [np.array([0.1, 0.25]), torch.tensor([0.1, 0.25])]
    for several in lists:
        value = robust_accuracy(net, x, y, eps=several, attack="apgd-ce").value
        assert isinstance(value, torch.Tensor)
        assert value.shape == (2,)
