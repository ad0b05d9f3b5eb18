"""What networks do to samples and gradients is said in a sentence, by measures and attacks alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import undertow as ut
from undertow.adversary.closest import closest_examples
from undertow.core.errors import InputError, ModelError, SeamError, UndertowError
from undertow.core.plain_words import in_plain_words

X = torch.linspace(-1, 1, 30).reshape(5, 6)


class Layers(nn.Module):
    """Two layers, and a forward of each test's own."""

    def __init__(self, forward: Callable[[Layers, Tensor], Tensor]) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.own = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.own(self, x)


def overwritten(net: Layers, x: Tensor) -> Tensor:
    h = torch.relu(net.first(x))
    h += 1  # relu's gradient needs what this overwrites
    return net.last(h)  # type: ignore[no-any-return]


def own_input_doubled(net: Layers, x: Tensor) -> Tensor:
    return net.last(torch.relu(net.first(x.mul_(2.0))))  # type: ignore[no-any-return]


def first_layer_without_gradient(net: Layers, x: Tensor) -> Tensor:
    with torch.no_grad():
        h = torch.relu(net.first(x))
    return net.last(h)  # type: ignore[no-any-return]


def plain(net: Layers, x: Tensor) -> Tensor:
    return net.last(torch.relu(net.first(x)))  # type: ignore[no-any-return]


def decided(net: nn.Module) -> Tensor:
    """Labels of which none is an error already."""
    with torch.no_grad():
        return net(X.clone()).reshape(5, -1).argmax(1)


def radii(net: nn.Module, x: Any) -> Any:
    return ut.robustness(net, x, decided(net), shorten=False)


def examples(net: nn.Module, x: Any) -> Any:
    return closest_examples(net, x, decided(net))


def accuracy(net: nn.Module, x: Any) -> Any:
    return ut.robust_accuracy(net, x, decided(net), eps=0.1)


MEASURES = [ut.jacobian_norms, ut.energy, ut.seam_profile]
ATTACKS = [radii, examples, accuracy]


@pytest.mark.parametrize("measure", [*MEASURES, *ATTACKS])
def test_what_is_overwritten_before_its_gradient_is_taken(measure: Any) -> None:
    with pytest.raises(
        ModelError, match=r"overwrites what the gradient.*write h = h \+ 1.*inplace operation"
    ):
        measure(Layers(overwritten).eval(), X)


@pytest.mark.parametrize("measure", [*MEASURES, *ATTACKS, ut.seams])
def test_a_network_that_works_in_place_on_its_input_is_measured_and_changes_no_sample(measure: Any) -> None:
    given = X.clone()
    measure(Layers(own_input_doubled).eval(), given)
    assert torch.equal(given, X)


def test_and_the_numbers_are_those_of_the_function_that_it_computes() -> None:
    doubling, plainly = Layers(own_input_doubled).eval(), Layers(plain).eval()
    norms = ut.jacobian_norms(doubling, X).value
    torch.testing.assert_close(norms, 2 * ut.jacobian_norms(plainly, 2 * X).value)
    y = decided(doubling)
    near, twice = ut.robustness(doubling, X, y), ut.robustness(plainly, 2 * X, y)
    torch.testing.assert_close(near.attacked, twice.attacked / 2, rtol=0.01, atol=0)


def test_what_is_computed_without_a_gradient_is_not_taken_for_a_constant() -> None:
    net = Layers(first_layer_without_gradient).eval()
    for measure in (ut.jacobian_norms, ut.energy):
        with pytest.raises(ModelError, match=r"changes with its input but carries no gradient.*no_grad"):
            measure(net, X)
    with pytest.raises(SeamError, match=r"no seam.*nn\.Identity\(\)"):
        ut.seam_profile(net, X)
    for attack in ATTACKS:
        with pytest.raises(ModelError, match=r"no gradient leads from the network's scores to its input"):
            attack(net, X)
    assert float(ut.jacobian_norms(Layers(lambda net, x: net.last.bias + 0 * x[:, :3]), X).value.max()) == 0


def test_decisions_are_no_scores() -> None:
    net = Layers(lambda net, x: plain(net, x).argmax(1)).eval()
    with pytest.raises(ModelError, match=r"returns torch\.int64: measure its logits"):
        ut.jacobian_norms(net, X)
    for attack in ATTACKS:
        with pytest.raises(ModelError, match=r"returns torch\.int64: attack its logits"):
            attack(net, X)
    assert ut.seams(net, X) == []


@pytest.mark.parametrize("measure", [*MEASURES, *ATTACKS, ut.seams])
@pytest.mark.parametrize("given", [X.tolist(), X.numpy()], ids=["list", "array"])
def test_samples_are_tensors(measure: Any, given: Any) -> None:
    with pytest.raises(InputError, match=r"x must be a torch\.Tensor of shape \(N, …\), not (list|ndarray)"):
        measure(Layers(plain).eval(), given)


@pytest.mark.parametrize("measure", [*MEASURES, ut.seams])
def test_one_sample_alone_is_no_batch(measure: Any) -> None:
    with pytest.raises(ModelError, match=r"shape \(6,\).*x\[None\]"):
        measure(Layers(plain).eval(), X[0])


def test_what_a_network_that_is_to_be_cut_cannot_take() -> None:
    for cut in (ut.split, ut.collaboration):
        with pytest.raises(ModelError, match=r"cannot take x of shape \(5, 7\).*mat1 and mat2"):
            cut(Layers(plain).eval(), seam="first", x=torch.ones(5, 7))


def test_want_of_memory_is_not_blamed_on_the_network() -> None:
    def full(_net: Layers, _x: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("no room")

    for measure in (ut.seams, ut.jacobian_norms):
        with pytest.raises(torch.OutOfMemoryError):
            measure(Layers(full).eval(), X)
    with pytest.raises(KeyError), in_plain_words(X):
        raise KeyError("a fault of one's own")


ENTRY_POINTS: dict[str, Callable[[nn.Module, Any, Any], object]] = {
    "adversarial_risk": lambda net, x, y: ut.adversarial_risk(net, x, y, eps=0.1),
    "attack_cost": lambda net, x, y: ut.attack_cost(net, x, y, eps=0.1),
    "certified_accuracy": lambda net, x, y: ut.certified_accuracy(net, x, y, eps=0.1),
    "hessian_trace": lambda net, x, y: ut.hessian_trace(net, x, y, loss="cross-entropy"),
    "kkt": lambda net, x, y: ut.kkt(net, x, y),
    "lipschitz": lambda net, x, y: ut.lipschitz(net, x, radius=0.1, y=y),
    "margins": lambda net, x, y: ut.margins(net, x, y),
    "risk_bound": lambda net, x, y: ut.risk_bound(net, x, y, radii=[0.1]),
    "robust_accuracy": lambda net, x, y: ut.robust_accuracy(net, x, y, eps=0.1, attack="fast"),
    "robust_curve": lambda net, x, y: ut.robust_curve(net, x, y, eps=[0.1], attack="fast"),
    "robustness": lambda net, x, y: ut.robustness(net, x, y),
    "sharpness": lambda net, x, y: ut.sharpness(net, x, y, loss="cross-entropy"),
}
UNLABELLED: dict[str, Callable[[nn.Module, Any], object]] = {
    "chain": lambda net, x: ut.chain(net, ["first"], x=x),
    "collaboration": lambda net, x: ut.collaboration(net, x, seam="first"),
    "energy": lambda net, x: ut.energy(net, x),
    "jacobian_norms": lambda net, x: ut.jacobian_norms(net, x),
    "jacobian_operator": lambda net, x: ut.jacobian_operator(net, x),
    "seam_profile": lambda net, x: ut.seam_profile(net, x),
    "seams": lambda net, x: ut.seams(net, x),
    "split": lambda net, x: ut.split(net, "first", x=x),
}
NO_TENSORS = {
    r"ndarray: use torch\.as_tensor": X.numpy(),
    r"DataLoader: take one batch of it, x, y = next\(iter\(loader\)\)": DataLoader(TensorDataset(X)),
    r"dict: pass the tensor of samples": {"x": X},
}


@pytest.mark.parametrize("words", NO_TENSORS)
@pytest.mark.parametrize("name", [*ENTRY_POINTS, *UNLABELLED])
def test_what_is_no_tensor_is_refused_with_what_to_pass(name: str, words: str) -> None:
    given, net, labels = NO_TENSORS[words], Layers(plain).eval(), torch.tensor([0, 1, 2, 0, 1])
    with pytest.raises(InputError, match=f"x must be a torch.Tensor.*{words}"):
        ENTRY_POINTS[name](net, given, labels) if name in ENTRY_POINTS else UNLABELLED[name](net, given)
    if name in ENTRY_POINTS:
        with pytest.raises(InputError, match=r"y must be a torch\.Tensor"):
            ENTRY_POINTS[name](net, X, given)


def test_a_batch_is_taken_apart_by_the_names_in_it() -> None:
    batch = {"input_ids": X.long(), "attention_mask": X.long(), "labels": X[:, 0]}
    remedy = r"batch\['input_ids'\].*as extras=\{'attention_mask': batch\['attention_mask'\]\}\.$"
    with pytest.raises(InputError, match=remedy):
        ut.jacobian_norms(Layers(plain).eval(), batch)  # type: ignore[arg-type]


def _small() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).eval()


@pytest.mark.parametrize(
    "measured",
    [
        lambda net, x: ut.jacobian_norms(net, x),
        lambda net, x: ut.seams(net, x),
        lambda net, x: ut.seam_profile(net, x),
        lambda net, x: ut.margins(net, x, torch.zeros(len(x), dtype=torch.int64)),
        lambda net, x: ut.sharpness(net, x, torch.zeros(len(x), dtype=torch.int64), loss="cross-entropy"),
        lambda net, x: ut.robustness(net, x, torch.zeros(len(x), dtype=torch.int64)),
    ],
    ids=["norms", "seams", "profile", "margins", "sharpness", "robustness"],
)
def test_networks_and_samples_without_numbers_or_derivatives(measured: Callable[..., Any]) -> None:
    x = torch.randn(3, 4)
    with pytest.raises(UndertowError, match="on the meta device, which holds no numbers"):
        measured(_small().to("meta"), x.to("meta"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(_small())
        quantised = torch.ao.quantization.quantize_dynamic(_small(), {nn.Linear})
    with pytest.raises(ModelError, match="give the module that it was made from"):
        measured(scripted, x)
    with pytest.raises(ModelError, match="0 is a Linear: quantised layers have no derivative"):
        measured(quantised, x)


def test_within_transforms_of_functions_nothing_is_measured() -> None:
    net = _small()
    with pytest.raises(InputError, match="call undertow outside"):
        torch.vmap(lambda x: ut.jacobian_norms(net, x).value)(torch.randn(2, 3, 4))
    with pytest.raises(InputError, match="JacobianPenalty"):
        torch.func.grad(lambda x: ut.jacobian_norms(net, x).value.sum())(torch.randn(3, 4))


def test_a_network_that_takes_one_number_of_samples() -> None:
    class Four(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            assert len(x) == 4, "exported so"
            return super().forward(x)

    with pytest.raises(ModelError, match="takes 4 samples and no other number"):
        ut.jacobian_norms(Four(3, 2), torch.randn(4, 3))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_samples_of_several_sizes_are_refused_in_a_sentence(layout: torch.layout) -> None:
    x = torch.nested.nested_tensor([torch.ones(3, 6), torch.ones(2, 6)], layout=layout)
    net, y = Layers(lambda own, x: own.last(own.first(x))), torch.zeros(2).long()
    for measured in (
        lambda: ut.energy(net, x),
        lambda: ut.margins(net, x, y),
        lambda: ut.sharpness(net, x, y, loss="cross-entropy"),
        lambda: ut.robustness(net, x, y),
        lambda: ut.seam_profile(net, x),
    ):
        with pytest.raises(InputError, match=r"x is a nested tensor.*to_padded_tensor"):
            measured()
