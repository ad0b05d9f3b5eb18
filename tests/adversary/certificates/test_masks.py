"""Attention with a mask, against attention that is not given what the mask hides."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import undertow as ut
from tests.adversary.certificates.architectures import tried
from undertow.adversary.certificates.activation_curves import curve_of
from undertow.adversary.certificates.certified import certified_radii, gap_bounds
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.network_graph import NetworkGraph, read_graph
from undertow.adversary.certificates.operations import AffineMap
from undertow.adversary.certificates.recorded_graph import UnreadableError
from undertow.adversary.certificates.relaxations import curve_range, lines_around
from undertow.adversary.certificates.stacked_graphs import stacked_graph
from undertow.adversary.classifier import Classifier

TOKENS = 4
CAUSAL = torch.ones(TOKENS, TOKENS).tril().bool()
Attended = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Queries, keys, values (B, heads, tokens, width) and which keys (tokens, tokens) each query sees."""


def _weighed(change: Callable[[Tensor, Tensor], Tensor]) -> Attended:
    def attended(query: Tensor, key: Tensor, value: Tensor, seen: Tensor) -> Tensor:
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
        return change(scores, seen).softmax(-1) @ value

    return attended


def _added(lowest: float) -> Attended:
    return _weighed(
        lambda scores, seen: scores + torch.zeros_like(seen, dtype=scores.dtype).masked_fill(~seen, lowest)
    )


def _filled(lowest: float) -> Attended:
    return _weighed(lambda scores, seen: scores.masked_fill(~seen, lowest))


def _in_place(scores: Tensor, seen: Tensor) -> Tensor:
    scores[:, :, ~seen] = -math.inf
    return scores


def _row_by_row(scores: Tensor, seen: Tensor) -> Tensor:
    for at in range(len(seen) - 1):
        scores[:, :, at, at + 1 :] = -math.inf
    return scores + 0 * seen


def _with_itself(query: Tensor, key: Tensor, value: Tensor, seen: Tensor) -> Tensor:
    """The product and the mask as one operation, as `torch.nn.MultiheadAttention` has it where it gives weights."""
    lowest = torch.zeros_like(seen, dtype=query.dtype).masked_fill(~seen, -math.inf)
    flat = [part.flatten(0, 1) for part in (query / math.sqrt(query.shape[-1]), key, value)]
    lowest = lowest.repeat(len(flat[0]), 1, 1)
    shares = torch.baddbmm(lowest, flat[0], flat[1].transpose(1, 2)).softmax(-1)
    return torch.bmm(shares, flat[2]).unflatten(0, query.shape[:2])


def _of_pytorch(query: Tensor, key: Tensor, value: Tensor, seen: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)


WAYS: dict[str, Attended] = {
    "filled with −∞": _filled(-math.inf),
    "filled with the smallest number": _filled(torch.finfo(torch.float64).min),
    "filled with the smallest number of float32": _filled(torch.finfo(torch.float32).min),
    "filled with −10⁹": _filled(-1e9),
    "−∞ added": _added(-math.inf),
    "the smallest number added": _added(torch.finfo(torch.float64).min),
    "−10⁴ added": _added(-1e4),
    "taken off": _weighed(lambda scores, seen: scores - 1e9 * (1 - seen.to(scores.dtype))),
    "chosen": _weighed(lambda scores, seen: torch.where(seen, scores, -math.inf)),
    "added twice": _weighed(
        lambda scores, seen: scores.masked_fill(~seen, -math.inf) + scores.new_zeros(1).expand_as(seen) - 1e4
    ),
    "written in place": _weighed(_in_place),
    "written into a row": _weighed(_row_by_row),
    "in float32": _weighed(lambda scores, seen: scores.masked_fill(~seen, -math.inf).float().double()),
    "and scaled": _weighed(lambda scores, seen: (scores * 2).masked_fill(~seen, -math.inf) / 2),
    "one operation": _with_itself,
    "given to PyTorch": _of_pytorch,
}


def _one_by_one(query: Tensor, key: Tensor, value: Tensor, seen: Tensor) -> Tensor:
    """Every query with the keys that it sees, and no others: a softmax of one entry is 1."""
    rows = []
    for at, some in enumerate(seen):
        own = [part[:, :, some] for part in (key, value)]
        if not bool(some.any()):
            rows.append(0 * query[:, :, at : at + 1])
            continue
        scores = query[:, :, at : at + 1] @ own[0].transpose(2, 3) / math.sqrt(query.shape[-1])
        rows.append(scores.softmax(-1) @ own[1])
    return torch.cat(rows, 2)


class Attending(nn.Module):
    """A block of attention and an MLP on four tokens."""

    def __init__(self, attended: Attended, seen: Tensor = CAUSAL, unit: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attended, self.unit = attended, unit
        self.seen = nn.Buffer(seen)
        self.embed, self.three, self.back = nn.Linear(4, 8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        stream = self.embed((x / self.unit).reshape(-1, TOKENS, 4))
        query, key, value = self.three(stream).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        stream = stream + self.back(self.attended(query, key, value, self.seen).transpose(1, 2).flatten(2))
        return self.head((stream + self.mlp(stream)).mean(1))  # type: ignore[no-any-return]


def _drawn(attended: Attended, seen: Tensor = CAUSAL, unit: float = 1.0) -> nn.Module:
    net = Attending(attended, seen, unit).double().eval().requires_grad_(False)
    net.get_parameter("three.weight").mul_(2.0)
    return net


def _graph(net: nn.Module, x: Tensor) -> NetworkGraph:
    return read_graph(Classifier(net), net, x)


def _samples(count: int = 3) -> Tensor:
    return torch.rand(count, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("way", WAYS)
def test_a_mask_is_as_good_as_keys_that_are_not_there(way: str) -> None:
    net, x, eps = _drawn(WAYS[way]), _samples(), torch.full((3,), 0.05, dtype=torch.float64)
    alone, y = _drawn(_one_by_one), net(x).argmax(1)
    assert torch.allclose(net(x), alone(x), atol=1e-6)
    for norm in (2.0, math.inf):
        found, truth = (gap_bounds(_graph(own, x), x, y, eps, norm) for own in (net, alone))
        assert torch.allclose(found, truth, rtol=1e-4, atol=1e-5)
        assert bool((truth > 0).all())


@pytest.mark.parametrize("way", ["filled with −∞", "the smallest number added", "given to PyTorch"])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_no_difference_is_below_its_bound_with_a_mask(way: str, unit: float) -> None:
    net, x = _drawn(WAYS[way], unit=unit), unit * _samples()
    graph, y = _graph(net, x), net(x).argmax(1)
    for norm in (2.0, math.inf):
        for radius in (0.0, 0.1, 20.0):
            eps = torch.full((3,), radius * unit, dtype=torch.float64)
            proved = gap_bounds(graph, x, y, eps, norm)
            for at in tried(x, eps, norm, net, y):
                scores = net(at)
                gaps = scores.gather(1, y.unsqueeze(1)) - scores
                assert not bool(((gaps < proved - 1e-12) & proved.isfinite()).any())


def test_shares_of_what_is_masked_are_known_without_any_width() -> None:
    x = _samples(1)
    graph = _graph(_drawn(_filled(-math.inf)), x)
    ball = LinearBounds(graph, 2.0).ball(x, torch.ones(1, dtype=torch.float64))
    ((low, high),) = (
        ball.limits[at]
        for at, operation in enumerate(graph.operations)
        if isinstance(operation, AffineMap) and operation.kind == ("kept",)
    )
    assert float(high[..., ~CAUSAL].abs().max()) == float(low[..., ~CAUSAL].abs().max()) == 0
    assert float((low[..., 0, 0] - 1).abs().max()) < 1e-12
    assert float((high[..., 0, 0] - 1).abs().max()) < 1e-12
    assert float((high - low)[..., -1, :].min()) > 0.01


@pytest.mark.parametrize("name", ["exp of scores", "share"])
def test_lines_around_scores_that_are_far_apart(name: str) -> None:
    """Differences of 10³⁸ and more, and what was rounded to either side of the end of a sum."""
    curve = curve_of(name)
    assert curve is not None
    ends = [
        (90, 110),
        (-1e25, 1e25),
        (3e38, 3.1e38),
        (-3e38, -2e38),
        (-1e30, 4e43),
        (1 - 1e-14, 1),
        (0.9, 3),
        (-200, 99),
    ]
    low, high = torch.tensor(ends, dtype=torch.float64).T
    lines = lines_around(curve, low, high)
    h = low + (high - low) * torch.linspace(0, 1, 2001, dtype=torch.float64).unsqueeze(1)
    value, slack = curve.value(h), 1e-13 * (1 + lines.size)
    assert bool((lines.low_slope * h + lines.low_offset <= value + slack).all())
    assert bool((lines.high_slope * h + lines.high_offset >= value - slack).all())
    least, most = curve_range(curve, low, high)
    assert bool((least <= value.amin(0)).all())
    assert bool((most >= value.amax(0)).all())


def test_a_row_without_any_key_is_zero_to_pytorch_and_refused_elsewhere() -> None:
    seen, x = CAUSAL.clone(), _samples()
    seen[1] = False
    eps = torch.full((3,), 0.05, dtype=torch.float64)
    net, alone = _drawn(_of_pytorch, seen), _drawn(_one_by_one, seen)
    y = net(x).argmax(1)
    found, truth = (gap_bounds(_graph(own, x), x, y, eps, 2.0) for own in (net, alone))
    assert torch.allclose(found, truth, rtol=1e-4, atol=1e-5)
    for way in ("filled with −∞", "−∞ added"):
        with pytest.raises(UnreadableError, match="every entry is masked"):
            _graph(_drawn(WAYS[way], seen), x)


def test_a_row_filled_with_one_number_has_equal_shares() -> None:
    seen, x = CAUSAL.clone(), _samples()
    seen[2] = False
    eps = torch.full((3,), 0.05, dtype=torch.float64)
    net = _drawn(_filled(torch.finfo(torch.float32).min), seen)
    proved = gap_bounds(_graph(net, x), x, net(x).argmax(1), eps, 2.0)
    assert bool((proved > 0).all())


def test_a_row_that_10_to_the_38_was_added_to_may_have_any_shares() -> None:
    """In exact arithmetic nothing happens to it, as it is executed all of its scores are rounded to one number."""
    seen, x = CAUSAL.clone(), _samples()
    seen[2] = False
    executed, exact = (_drawn(_added(lowest), seen) for lowest in (torch.finfo(torch.float32).min, -1e3))
    net = _drawn(_added(torch.finfo(torch.float32).min), seen).float()
    assert float((executed(x) - exact(x)).abs().max()) > 1e-4
    graph, y = _graph(net, x.float()), executed(x).argmax(1)
    ball = LinearBounds(graph, 2.0).ball(x, torch.full((3,), 0.01, dtype=torch.float64))
    widths = [
        float((high - low)[..., 2, :].max()) for low, high in ball.limits.values() if low.shape[-2:] == (4, 4)
    ]
    assert max(widths) >= 1
    for radius in (0.0, 0.001, 0.2):  # at 0 nothing else is open
        eps = torch.full((3,), radius, dtype=torch.float64)
        proved = gap_bounds(graph, x, y, eps, 2.0)
        for own in (executed, exact):
            for at in tried(x, eps, 2.0, own, y):
                gaps = own(at).gather(1, y.unsqueeze(1)) - own(at)
                assert not bool(((gaps < proved - 1e-12) & proved.isfinite()).any())


def test_entries_of_infinity_go_nowhere_but_into_a_softmax() -> None:
    net = _drawn(lambda q, k, v, seen: (q @ k.transpose(2, 3)).masked_fill(~seen, -math.inf).exp() @ v)
    with pytest.raises(UnreadableError, match="exp is given entries of −∞"):
        _graph(net, _samples())


def test_networks_with_masks_of_their_own_are_one_batch() -> None:
    x, eps = _samples(), torch.full((3,), 0.05, dtype=torch.float64)
    other = CAUSAL.clone()
    other[3, 1] = False
    nets = [_drawn(_filled(-math.inf), seen) for seen in (CAUSAL, other)]
    graphs, labels = [_graph(net, x) for net in nets], [net(x).argmax(1) for net in nets]
    stack = stacked_graph(graphs)
    assert stack is not None
    who = torch.arange(2).repeat_interleave(3)
    found = gap_bounds(stack, x.repeat(2, 1), torch.cat(labels), eps.repeat(2), 2.0, who=who)
    each = [gap_bounds(graph, x, y, eps, 2.0) for graph, y in zip(graphs, labels, strict=True)]
    assert torch.allclose(found, torch.cat(each), rtol=1e-9)


def test_the_radius_of_a_causal_network_is_certified_and_its_mask_in_extras_too() -> None:
    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = _drawn(_filled(-math.inf))

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            self.net.seen = CAUSAL & (mask[:, None, None, :] > 0)
            return self.net(x)  # type: ignore[no-any-return]

    x, masks = _samples(2), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 1]])
    y = Given()(x, masks).argmax(1)
    found = ut.robustness(Given(), x, y, extras={"mask": masks}, attack="fast", refine=False)
    for index, mask in enumerate(masks):
        graph = _graph(_drawn(_filled(-math.inf), CAUSAL & (mask > 0)), x)
        alone = float(certified_radii(graph, x[[index]], y[[index]], 2.0))
        assert float(found.certified[index]) == pytest.approx(alone, rel=1e-6)
        assert 0.1 * float(found.attacked[index]) < alone < float(found.attacked[index])
