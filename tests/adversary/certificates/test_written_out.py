"""What networks write out by hand, or PyTorch computes in place, read as what it is."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import undertow as ut
from tests.adversary.certificates.architectures import tried
from undertow.adversary.certificates.certified import gap_bounds
from undertow.adversary.certificates.network_graph import NetworkGraph, read_graph
from undertow.adversary.certificates.recorded_graph import UnreadableError
from undertow.adversary.classifier import Classifier

Function = Callable[[Tensor], Tensor]


class _Between(nn.Module):
    """A function of twelve numbers between two linear layers."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.function = nn.Linear(16, 12), function
        self.last = nn.Linear(function(torch.zeros(1, 12)).flatten(1).shape[1], 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)).flatten(1))  # type: ignore[no-any-return]


def _read(net: nn.Module) -> tuple[NetworkGraph, Tensor, Tensor]:
    net = net.double().eval().requires_grad_(False)
    x = torch.rand(3, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return read_graph(Classifier(net), net, x), x, net(x).argmax(1)


def _proved(function: Function, radius: float = 0.1) -> Tensor:
    graph, x, y = _read(_Between(function))
    return gap_bounds(graph, x, y, torch.full((3,), radius, dtype=torch.float64), 2.0)


GELU_TANH = math.sqrt(2 / math.pi)
WRITTEN: dict[str, tuple[Function, Function]] = {
    "GELU": (lambda h: h * 0.5 * (1 + torch.erf(h / math.sqrt(2))), functional.gelu),
    "GELU with tanh": (
        lambda h: 0.5 * h * (1 + torch.tanh(GELU_TANH * (h + 0.044715 * torch.pow(h, 3.0)))),
        lambda h: functional.gelu(h, approximate="tanh"),
    ),
    "SiLU": (lambda h: torch.sigmoid(h) * h, functional.silu),
    "the quick GELU": (lambda h: h * torch.sigmoid(1.702 * h), lambda h: functional.silu(1.702 * h) / 1.702),
    "SiLU by tanh": (lambda h: h * (1 + torch.tanh(h / 2)), lambda h: 2 * functional.silu(h)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_curve_written_out_is_that_curve(name: str) -> None:
    written, known = WRITTEN[name]
    assert torch.allclose(_proved(written), _proved(known), rtol=1e-9, atol=1e-9)


def test_a_curve_that_is_only_nearly_known_is_none() -> None:
    """GELU with a constant that is wrong in its seventh digit lies elsewhere by more than rounding."""

    def nearly(h: Tensor) -> Tensor:
        return 0.5 * h * (1 + torch.tanh(0.7978846 * (h + 0.044715 * torch.pow(h, 3.0))))

    assert not torch.allclose(_proved(nearly), _proved(WRITTEN["GELU with tanh"][1]), rtol=1e-3)


def _recurrent(kind: Callable[..., nn.Module]) -> nn.Module:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.run, self.head = kind(8, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.run(x.reshape(-1, 2, 8))[0][:, -1])  # type: ignore[no-any-return]

    return Last()


def _pictures(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 4, 3), *layers, nn.Flatten(), nn.Linear(16, 3)
    )


def _rooted(h: Tensor) -> Tensor:
    return h / torch.sqrt(h.square().mean(-1, keepdim=True) + 1e-6)


def _in_place(h: Tensor) -> Tensor:
    own = h * 1
    own[:, :6].add_(own[:, 6:]).mul_(2)
    return torch.relu_(own)


def _into_a_part(h: Tensor) -> Tensor:
    found = torch.relu(h) * 1
    found[:, 2:5] = h[:, :3] * 2
    found[:, 7] = h[:, 0]
    found[:, 9:] = -1
    return found


READ: dict[str, Callable[[], nn.Module]] = {
    "RMSNorm": lambda: nn.Sequential(nn.Linear(16, 8), nn.RMSNorm(8, eps=1e-6), nn.Linear(8, 3)),
    "RMSNorm written out": lambda: _Between(_rooted),
    "LayerNorm written out": lambda: _Between(
        lambda h: (h - h.mean(1, keepdim=True)) / h.std(1, keepdim=True)
    ),
    "divided by its length": lambda: _Between(lambda h: functional.normalize(h, dim=1)),
    "cosines": lambda: _Between(lambda h: functional.cosine_similarity(h[:, :6], h[:, 6:] + 1).unsqueeze(1)),
    "GroupNorm": lambda: _pictures(nn.GroupNorm(2, 4), nn.ReLU()),
    "InstanceNorm": lambda: _pictures(nn.InstanceNorm2d(4, affine=True), nn.SiLU()),
    "RNN": lambda: _recurrent(nn.RNN),
    "GRU": lambda: _recurrent(nn.GRU),
    "LSTM": lambda: _recurrent(nn.LSTM),
    "changed in place": lambda: _Between(_in_place),
    "written into a part": lambda: _Between(_into_a_part),
    "the larger half": lambda: _Between(
        lambda h: torch.maximum(h[:, :6], torch.minimum(h[:, 6:], -h[:, :6]))
    ),
    "the smallest": lambda: _Between(lambda h: h.reshape(-1, 4, 3).amin(2)),
    "logarithms of shares": lambda: nn.Sequential(
        nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3), nn.LogSoftmax(1)
    ),
    "log Σ exp": lambda: _Between(lambda h: h.reshape(-1, 4, 3).logsumexp(2)),
    "a gate": lambda: _Between(functional.glu),
    "a sum with a product": lambda: _Between(lambda h: torch.addcmul(h, h.sigmoid(), h.tanh(), value=0.5)),
    "between two": lambda: _Between(lambda h: torch.lerp(h, torch.relu(h), 0.3).nan_to_num()),
    "Mish": lambda: _Between(functional.mish),
    "log σ": lambda: _Between(functional.logsigmoid),
    "softsign": lambda: _Between(functional.softsign),
}


@pytest.mark.parametrize("name", READ)
def test_no_difference_is_below_its_bound_and_something_is_proved(name: str) -> None:
    torch.manual_seed(0)
    net = READ[name]()
    graph, x, y = _read(net)
    for norm, radius in ((2.0, 1e-3), (2.0, 0.2), (math.inf, 0.05), (2.0, 30.0)):
        eps = torch.full((3,), radius, dtype=torch.float64)
        proved = gap_bounds(graph, x, y, eps, norm)
        assert radius > 1e-3 or bool((proved > 0).all())
        for at in tried(x, eps, norm, net, y):
            gaps = net(at).gather(1, y.unsqueeze(1)) - net(at)
            assert not bool(((gaps < proved - 1e-12) & proved.isfinite()).any())


def test_roots_of_wide_sums_of_squares_have_bounds() -> None:
    """Rounding puts the lower limit of such a sum below zero, where its root is none."""
    for name in ("RMSNorm", "RMSNorm written out"):
        graph, x, y = _read(READ[name]())
        proved = gap_bounds(graph, x, y, torch.full((3,), 1e6, dtype=torch.float64), 2.0)
        assert not bool((proved == -math.inf).any())


def test_logarithms_of_shares_are_proved_as_the_logits_are() -> None:
    torch.manual_seed(0)
    logits = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    both = []
    for net in (logits, nn.Sequential(*logits, nn.LogSoftmax(1))):
        graph, x, y = _read(net)
        both.append(gap_bounds(graph, x, y, torch.full((3,), 0.1, dtype=torch.float64), 2.0))
    assert torch.allclose(both[0], both[1], rtol=1e-9, atol=1e-9)


def test_what_was_changed_through_another_tensor_is_refused() -> None:
    class Own(torch.autograd.Function):
        """Which nothing can free of mutations."""

        @staticmethod
        def forward(ctx: object, h: Tensor) -> Tensor:  # noqa: ARG004
            other = (h * 1).detach()
            seen = other.view(-1)
            other.mul_(3)
            return seen.view(h.shape) + 0

        @staticmethod
        def backward(ctx: object, *grads: Tensor) -> Tensor:  # noqa: ARG004
            return 3 * grads[0]

    with pytest.raises(UnreadableError, match=r"through another tensor|could not be recorded"):
        _read(_Between(lambda h: Own.apply(h)))  # type: ignore[no-any-return, no-untyped-call]


def test_a_function_of_the_networks_own_is_read_operation_by_operation() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, h: Tensor) -> Tensor:  # noqa: ARG004
            return 2 * torch.relu(h)

        @staticmethod
        def backward(ctx: object, *grads: Tensor) -> Tensor:  # noqa: ARG004
            return 2 * grads[0]

    found = _proved(lambda h: Doubled.apply(h))  # type: ignore[no-any-return, no-untyped-call]
    assert torch.allclose(found, _proved(lambda h: 2 * torch.relu(h)), rtol=1e-9)


def test_statistics_of_a_batch_are_refused_as_such() -> None:
    with pytest.raises(UnreadableError, match="mixes its samples"):
        _read(_pictures(nn.BatchNorm2d(4, track_running_stats=False)))


def test_slices_of_nothing_are_read() -> None:
    net = _Between(lambda h: torch.cat([h[:, :0], torch.relu(h)], 1))
    graph, x, y = _read(net)
    assert bool((gap_bounds(graph, x, y, torch.zeros(3, dtype=torch.float64), 2.0) > 0).all())


@pytest.mark.filterwarnings("ignore::undertow.core.adapting.MeasuredElsewhere")
def test_the_radius_of_a_language_model_written_as_gpt_2_is() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embed, self.three, self.head = nn.Embedding(7, 8), nn.Linear(8, 24), nn.Linear(8, 3)

        def forward(self, tokens: Tensor) -> Tensor:
            h = self.embed(tokens)
            query, key, value = self.three(h).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)
            seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            seen = seen.transpose(1, 2).flatten(2)
            return self.head(WRITTEN["GELU with tanh"][0](h + seen)[:, -1])  # type: ignore[no-any-return]

    tokens, net = torch.tensor([[1, 2, 3]]), Block().eval()
    found = ut.robustness(net, tokens, net(tokens).argmax(1), attack="fast", refine=False)
    assert 0.1 < float(found.certified / found.attacked) < 1
