"""Networks as other people write them: several outputs, tokens, masks, wrappers, half precision, recurrence."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.adapting import MeasuredElsewhere
from undertow.core.errors import InputError, ModelError, SeamError
from undertow.training import CollaborationPenalty, EnergyPenalty, JacobianPenalty


def dense_norms(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """‖J‖₂ of every sample from its whole Jacobian, a gradient for each output."""
    norms = []
    for sample in x.split(1):
        rows = torch.autograd.functional.jacobian(lambda v: f(v).flatten(), sample)
        norms.append(torch.linalg.matrix_norm(rows.reshape(len(rows), -1), 2))
    return torch.stack(norms)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@dataclass
class Outputs:
    logits: Tensor
    hidden: Tensor


class Several(nn.Module):
    """Returns its logits in the way asked for, with what else it has."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.first, self.act, self.last = nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Any:
        hidden = self.act(self.first(x))
        logits = self.last(hidden)
        if self.how == "dictionary":
            return {"loss": logits.sum(), "logits": logits, "hidden": hidden}
        return {
            "dataclass": Outputs(logits, hidden),
            "tuple": (logits, hidden),
            "nameless": {"a": logits, "b": hidden},
        }[self.how]


@pytest.mark.parametrize("how", ["dataclass", "dictionary", "tuple"])
def test_outputs_of_every_kind(how: str) -> None:
    net, x = Several(how).double().eval(), torch.randn(5, 4).double()
    plain = nn.Sequential(net.first, net.act, net.last)
    torch.testing.assert_close(ut.jacobian_norms(net, x).value, dense_norms(plain, x))
    assert ut.seams(net, x) == ["first", "act"]
    head, tail = ut.split(net, "act", x=x)
    assert torch.equal(head(tail(x)), plain(x))
    found = ut.collaboration(net, x, seam="act")
    assert found.co_correlation == pytest.approx(ut.collaboration(plain, x, seam="1").co_correlation)
    hidden = ut.jacobian_norms(net, x, output=1 if how == "tuple" else "hidden").value
    torch.testing.assert_close(hidden, dense_norms(plain[:2], x))
    by_function = ut.jacobian_norms(net, x, output=lambda out: picked(out) * 2).value
    torch.testing.assert_close(by_function, 2 * dense_norms(plain, x))


def test_the_obvious_output_of_what_a_sequence_ends_in() -> None:
    recurrent = nn.Sequential(nn.Linear(4, 6), nn.Sequential(nn.Tanh(), nn.LSTM(6, 3, batch_first=True)))
    x = torch.randn(3, 5, 4)
    by_name = ut.jacobian_norms(recurrent.eval(), x, output=0).value
    assert torch.equal(ut.jacobian_norms(recurrent, x).value, by_name)


def test_where_a_maximum_ties_the_status_says_so() -> None:
    layer = nn.Linear(2, 16, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.0, 0.0], [1.0, 2.0]]).repeat(8, 1))  # equal where x_1 = x_2
    pooled = nn.Sequential(layer, nn.Unflatten(1, (1, 16)), nn.MaxPool1d(2), nn.Flatten()).eval()
    found = ut.jacobian_norms(pooled, torch.tensor([[0.7, 0.7]]))
    assert found.error[0] > 0.1
    assert "tie" in found.status.sentence


def picked(out: Any) -> Tensor:
    return out[0] if isinstance(out, tuple) else out["logits"] if isinstance(out, dict) else out.logits


def test_an_output_that_is_not_obvious_is_asked_for() -> None:
    net, x = Several("nameless").eval(), torch.randn(5, 4)
    with pytest.raises(ModelError, match="with a, b: say which tensor to measure, output='a'"):
        ut.jacobian_norms(net, x)
    with pytest.raises(ModelError, match="returns no 'c'"):
        ut.jacobian_norms(net, x, output="c")
    with pytest.raises(ModelError, match="returns 2 things"):
        ut.jacobian_norms(net, x, output=5)
    assert len(ut.jacobian_norms(net, x, output="b")) == 5


class Reader(nn.Module):
    """Tokens, positions and a mask: attention over what the mask admits, and a mean of it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 6, padding_idx=0), nn.Embedding(5, 6)
        self.mix, self.act, self.read = nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 3)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        weights = torch.ones_like(tokens, dtype=self.read.weight.dtype) if mask is None else mask
        weights = weights.to(self.read.weight.dtype)
        positions = (tokens != 0).cumsum(1).clamp(max=4)  # read off the tokens themselves
        h = self.act(self.mix(self.words(tokens) + self.places(positions)))
        return {"logits": self.read((h * weights[:, :, None]).sum(1) / weights.sum(1, keepdim=True))}


def _reader() -> tuple[Reader, Tensor, Tensor]:
    tokens = torch.randint(1, 11, (7, 5))
    mask = (torch.arange(5) < torch.tensor([5, 3, 2, 5, 1, 4, 3])[:, None]).long()
    return Reader().double().eval(), tokens * mask, mask


def test_tokens_are_measured_from_their_embedding_on_with_each_samples_own_mask() -> None:
    net, tokens, mask = _reader()
    with pytest.warns(MeasuredElsewhere, match="from the output of 'words' on"):
        found = ut.jacobian_norms(net, tokens, extras={"mask": mask}, chunk=3)
    for index in range(len(tokens)):
        own, row = tokens[index : index + 1], mask[index : index + 1]

        def behind(vectors: Tensor, own: Tensor = own, row: Tensor = row) -> Tensor:
            positions = (own != 0).cumsum(1).clamp(max=4)
            h = net.act(net.mix(vectors + net.places(positions)))
            return net.read((h * row[:, :, None]).sum(1) / row.sum(1, keepdim=True))

        expected = dense_norms(behind, net.words(own).detach())
        torch.testing.assert_close(found.value[index : index + 1], expected)
    order = torch.randperm(len(tokens))
    with pytest.warns(MeasuredElsewhere):
        again = ut.jacobian_norms(net, tokens[order], extras={"mask": mask[order]})
    torch.testing.assert_close(again.value, found.value[order])


def test_seams_of_tokens_with_masks() -> None:
    net, tokens, mask = _reader()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeasuredElsewhere)
        names = ut.seams(net, tokens, extras={"mask": mask})
        assert names == ["mix", "act"]
        found = ut.collaboration(net, tokens, seams=names, extras={"mask": mask})
        head, tail = ut.split(net, "act", x=tokens, extras={"mask": mask})
    assert found.identity_gap < 1e-9
    assert torch.equal(head(tail(net.words(tokens))), net(tokens, mask)["logits"])


def test_extras_need_a_row_for_each_sample_and_a_network_that_takes_them() -> None:
    net, tokens, mask = _reader()
    with pytest.raises(InputError, match=r"extras\['mask'\] has shape \(3, 5\), but there are 7 samples"):
        ut.jacobian_norms(net, tokens, extras={"mask": mask[:3]})
    with pytest.raises(InputError, match=r"takes no 'musk' beside x; did you mean 'mask'\?"):
        ut.jacobian_norms(net, tokens, extras={"musk": mask})
    with pytest.raises(InputError, match=r"no nn\.Embedding"):
        ut.jacobian_norms(nn.Linear(5, 2), torch.ones(3, 5, dtype=torch.int64))


class TakesAnything(nn.Linear):
    def forward(self, x: Tensor, scale: Tensor | None = None, **more: Any) -> Tensor:  # type: ignore[override]  # noqa: ARG002
        return super().forward(x if scale is None else scale * x)


class HandsOn(TakesAnything):
    def forward(self, *given: Any, **more: Any) -> Tensor:
        return super().forward(*given, **more)


def test_a_misspelt_extra_does_not_vanish() -> None:
    x, scale = torch.ones(2, 3), torch.full((2, 1), 2.0)
    with pytest.warns(MeasuredElsewhere, match=r"no argument of the network is called 'scal'.*'scale'"):
        ut.jacobian_norms(TakesAnything(3, 2), x, extras={"scal": scale})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for net in (TakesAnything(3, 2), HandsOn(3, 2)):
            doubled = ut.jacobian_norms(net, x, extras={"scale": scale}).value
            torch.testing.assert_close(doubled, 2 * ut.jacobian_norms(net, x).value)


def test_attacks_of_token_ids_are_in_the_space_of_the_embedding() -> None:
    net = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 2)).eval()
    tokens, labels = torch.randint(0, 9, (3, 3)), torch.tensor([0, 1, 0])
    with pytest.warns(
        MeasuredElsewhere, match=r"token ids, which have no derivative.*units of that embedding"
    ):
        found = ut.robust_accuracy(net, tokens, labels, eps=[0, 0.1])
    vectors = net[0](tokens).detach()
    of_vectors = ut.robust_accuracy(net[1:], vectors, labels, eps=[0, 0.1])
    assert isinstance(found.value, torch.Tensor)
    assert isinstance(of_vectors.value, torch.Tensor)
    assert found.value.tolist() == of_vectors.value.tolist()
    with pytest.raises(InputError, match=r"vectors of the embedding.*undertow\.robustness takes the ids"):
        ut.Classifier(net).margins(tokens, labels)
    with pytest.raises(InputError, match=r"pass x\.float\(\)"):
        ut.robust_accuracy(net[1:], tokens, labels, eps=0.1)


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.cell, self.head = nn.Embedding(9, 4), nn.GRU(4, 5, batch_first=True), nn.Linear(5, 9)

    def forward(self, tokens: Tensor, attention_mask: Tensor | None = None) -> dict[str, Tensor]:  # noqa: ARG002
        return {"logits": self.head(self.cell(self.words(tokens))[0])}


def test_of_a_language_model_the_last_token_is_measured() -> None:
    net, tokens = Language().double().eval(), torch.randint(0, 9, (4, 6))
    mask = torch.ones(4, 6, dtype=torch.int64)
    mask[1, 4:] = 0
    with pytest.warns(MeasuredElsewhere, match="the last token's logits, from the output of 'words' on"):
        found = ut.jacobian_norms(net, tokens, extras={"attention_mask": mask})
    last = mask.sum(1) - 1
    for i, at in enumerate(last.tolist()):

        def behind(vectors: Tensor, at: int = at) -> Tensor:
            return net.head(net.cell(vectors)[0])[:, at]  # type: ignore[no-any-return]

        expected = dense_norms(behind, net.words(tokens[i : i + 1]).detach())
        torch.testing.assert_close(found.value[i : i + 1], expected)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks(kind: Any) -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.read = kind(3, 70, batch_first=True), nn.Linear(70, 66)

        def forward(self, x: Tensor) -> Tensor:
            return self.read(self.cell(x)[0][:, -1])  # type: ignore[no-any-return]

    net, x = Recurrent().double().eval(), torch.randn(3, 23, 3).double()
    expected = dense_norms(net, x)
    found = ut.jacobian_norms(net, x, method="krylov", rtol=1e-6)
    torch.testing.assert_close(found.value, expected, rtol=1e-5, atol=0)
    assert ut.seams(net, x) == ["cell"]
    assert 0 < ut.collaboration(net, x, seam="cell").co_correlation <= 1
    alone = kind(3, 4, batch_first=True).double().eval()
    torch.testing.assert_close(ut.jacobian_norms(alone, x).value, dense_norms(lambda v: alone(v)[0], x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_measured_as_a_copy_in_float32(dtype: torch.dtype) -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype).eval()
    x = torch.randn(5, 4).to(dtype)
    single = nn.Sequential(*(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)))
    single.load_state_dict(net.state_dict())
    found = ut.jacobian_norms(net, x)
    assert torch.equal(found.value, ut.jacobian_norms(single, x.float()).value)
    assert ut.seams(net, x) == ["0", "1"]
    assert ut.collaboration(net, x, seam="1").co_correlation > 0
    assert {parameter.dtype for parameter in net.parameters()} == {dtype}


def test_wrappers_are_taken_off() -> None:
    net, x = Several("tuple").eval(), torch.randn(5, 4)
    expected = ut.jacobian_norms(net, x).value
    compiled: Any = torch.compile(net, backend="eager")
    for wrapped in (compiled, nn.DataParallel(net), nn.DataParallel(compiled)):
        assert torch.equal(ut.jacobian_norms(wrapped, x).value, expected)
        assert ut.seams(wrapped, x) == ["first", "act"]
        assert list(ut.stable_rank(wrapped)) == ["first.weight", "last.weight"]


def test_sharded_networks_are_refused_in_a_sentence() -> None:
    class FSDPModule(nn.Linear):
        """Named as the class that ``fully_shard`` gives modules."""

    with pytest.raises(ModelError, match="sharded"):
        ut.jacobian_norms(nn.Sequential(FSDPModule(2, 2)), torch.ones(2, 2))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.act = nn.Linear(width, width), nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.act(self.inner(x))  # type: ignore[no-any-return]


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 6)
        self.stage1, self.stage2 = nn.Sequential(Block(6), Block(6)), nn.Sequential(Block(6), Block(6))
        self.read = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.read(self.stage2(self.stage1(self.stem(x))))  # type: ignore[no-any-return]


def test_seams_of_a_residual_network_lie_inside_its_stages_too() -> None:
    net, x = Nested().double().eval(), torch.randn(5, 4).double()
    names = ut.seams(net, x)
    assert names == ["stem", "stage1.0", "stage1", "stage2.0", "stage2"]
    for name in names:
        assert 0 < ut.collaboration(net, x, seam=name).co_correlation <= 1


def test_a_part_of_a_split_can_be_split() -> None:
    net, x = Nested().double().eval(), torch.randn(5, 4).double()
    head, tail = ut.split(net, "stage1", x=x)
    assert ut.seams(tail, x) == ["stem", "stage1.0"]
    later, middle = ut.split(head, "stage2.0", x=tail(x))
    assert torch.equal(later(middle(tail(x))), net(x))
    assert ut.seams(head, tail(x)) == ["stage2.0", "stage2"]
    late, early = ut.split(tail, "stem", x=x)
    assert torch.equal(late(early(x)), tail(x))
    torch.testing.assert_close(
        ut.jacobian_norms(middle, tail(x)).value, dense_norms(net.stage2[0], tail(x).detach())
    )
    with pytest.raises(SeamError, match=r"bypassed|before|never"):
        ut.split(head, "stem", x=tail(x))


def test_what_goes_round_without_a_gradient_is_not_listed() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.three = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.three(self.two(self.one(x)) * (x > 0))  # type: ignore[no-any-return]

    assert ut.seams(Masked(), torch.randn(4, 3)) == []


def test_odd_networks_and_inputs_are_told_in_a_sentence() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(4, 3)

        def forward(self, x: Tensor, z: Tensor) -> Tensor:
            return self.one(x) + z  # type: ignore[no-any-return]

    x, plain = torch.randn(3, 4), nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    with pytest.raises(
        ModelError, match=r"pass what else it needs.*missing 1 required positional argument: 'z'"
    ):
        ut.jacobian_norms(Two(), x)
    with pytest.raises(InputError, match="to_dense"):
        ut.jacobian_norms(plain, x.to_sparse())
    with pytest.raises(SeamError, match="no module 1: "):
        ut.collaboration(plain, x, seam=1)  # type: ignore[call-overload]
    with pytest.raises(ModelError, match=r"give a torch\.nn\.Module"):
        ut.seams(lambda z: z, x)  # type: ignore[arg-type]
    y = Several("dictionary").eval()(x)["logits"].argmax(1)
    assert ut.robust_accuracy(Several("dictionary").eval(), x, y, eps=0.0).value >= 0


def test_what_a_network_cannot_take_is_said_in_a_sentence() -> None:
    with pytest.raises(ModelError, match=r"cannot take x of shape \(2, 5\).*mat1 and mat2"):
        ut.jacobian_norms(nn.Sequential(nn.Linear(3, 2), nn.Softmax(1)), torch.ones(2, 5))


def test_radii_of_tokens_are_in_the_space_of_their_embedding_each_with_its_own_mask() -> None:
    net, tokens, mask = _reader()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeasuredElsewhere)
        y = net(tokens, mask)["logits"].argmax(1)
        found = ut.robustness(net, tokens[:3], y[:3], extras={"mask": mask[:3]}, shorten=False, refine=False)
        alone = ut.robustness(
            net, tokens[1:2], y[1:2], extras={"mask": mask[1:2]}, shorten=False, refine=False
        )
    assert found.examples.shape == (3, 5, 6)
    assert bool((found.attacked > 0).all())
    torch.testing.assert_close(found.attacked[1:2], alone.attacked)
    several, x = Several("dataclass").eval(), torch.randn(3, 4)
    labels = several(x).logits.argmax(1)
    plain = nn.Sequential(several.first, several.act, several.last)
    radii = ut.robustness(several, x, labels, shorten=False).attacked
    torch.testing.assert_close(
        radii, ut.robustness(plain, x, labels, shorten=False).attacked, rtol=0.05, atol=0
    )


def test_a_head_runs_nothing_of_what_lies_before_it_but_what_it_may_need() -> None:
    ran: list[str] = []

    class Bias(nn.Module):
        """Of the input it reads the shape alone; every block uses it, so the head needs it."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(6))

        def forward(self, x: Tensor) -> Tensor:
            ran.append("bias")
            return self.table.expand(len(x), 6)

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.bias, self.one, self.two = nn.Linear(4, 6), Bias(), Block(6), Block(6)
            self.one.register_forward_pre_hook(lambda *_: ran.append("one"))

        def forward(self, x: Tensor) -> Tensor:
            bias = self.bias(x)
            return self.two(self.one(self.stem(x) + bias) + bias)  # type: ignore[no-any-return]

    net, x = Shared().double().eval(), torch.randn(5, 4).double()
    head, tail = ut.split(net, "one", x=x)
    hidden, expected = tail(x).detach(), net(x)
    assert torch.equal(head(hidden), expected)
    with torch.no_grad():
        net.bias.table.mul_(3)  # as training would
    ran.clear()
    late = head(hidden)
    assert ran == ["bias", "one"]  # the hook is still called, but the block itself gives what it gave
    assert torch.equal(late, net.two(hidden + net.bias.table))
    assert "forward" not in vars(net.one)


SCORES: dict[str, Callable[[nn.Module, Tensor, Tensor], Any]] = {
    "margins": lambda net, x, y: ut.margins(net, x, y).smallest,
    "kkt": lambda net, x, y: ut.kkt(net, x, y).residual,
    "robust accuracy": lambda net, x, y: ut.robust_accuracy(net, x, y, eps=0.1).value,
    "lipschitz": lambda net, x, _: ut.lipschitz(net, x, radius=0.1).upper.tolist(),
    "risk": lambda net, x, y: ut.adversarial_risk(net, x, y, eps=0.1).value,
    "classifier": lambda net, x, y: ut.Classifier(net).margins(x, y).tolist(),
    "several": lambda net, x, y: ut.Classifier([net, net]).margins(x, y)[1].tolist(),
    "penalty": lambda net, x, _: JacobianPenalty(1.0, projections="all")(net, x).item(),
    "energy penalty": lambda net, x, _: EnergyPenalty(1.0, steps=30)(net, x).item(),
    "collaboration penalty": lambda net, x, _: CollaborationPenalty("1", 1.0, steps=40)(net, x).item(),
}


@pytest.mark.parametrize("what", SCORES)
def test_scores_and_penalties_run_the_network_and_not_what_is_around_it(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).eval()
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    y = net(x).argmax(1)
    around = nn.DataParallel(net)

    def waits_for_other_ranks(*_: object, **__: object) -> None:
        raise AssertionError("the wrapper ran")

    monkeypatch.setattr(nn.DataParallel, "forward", waits_for_other_ranks)
    assert SCORES[what](around, x, y) == pytest.approx(SCORES[what](net, x, y), rel=1e-3)

    class FSDPModule(nn.Linear):
        """Named as the class that ``fully_shard`` gives modules."""

    with pytest.raises(ModelError, match="sharded"):
        SCORES[what](nn.Sequential(FSDPModule(3, 5), nn.ReLU(), nn.Linear(5, 2)).eval(), x, y)


class Translator(nn.Module):
    """An encoder and a decoder with one embedding for both, as T5 has it."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 4)
        self.read, self.write, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 10)

    def forward(self, x: Tensor, decoder_input_ids: Tensor) -> dict[str, Tensor]:
        return {"logits": self.after(self.words(x), self.words(decoder_input_ids))}

    def after(self, words: Tensor, written: Tensor) -> Tensor:
        read: Tensor = self.read(words).tanh().mean(1, keepdim=True)
        return self.last(self.write(written) * read)  # type: ignore[no-any-return]


def test_the_embedding_of_tokens_may_be_the_decoders_too() -> None:
    torch.manual_seed(0)
    net, x, written = Translator().double().eval(), torch.randint(0, 10, (3, 5)), torch.randint(0, 10, (3, 5))
    extras = {"decoder_input_ids": written}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeasuredElsewhere)
        found = ut.jacobian_norms(net, x, extras=extras)
        head, tail = ut.split(net, "read", x=x, extras=extras)
    with torch.no_grad():
        assert torch.equal(head(tail(net.words(x))), net(x, written)["logits"][:, -1])

    def behind(index: int) -> Callable[[Tensor], Tensor]:
        return lambda words: net.after(words, net.words(written[index : index + 1]))[:, -1]

    own = [dense_norms(behind(index), net.words(x[index : index + 1]).detach()) for index in range(3)]
    torch.testing.assert_close(found.value, torch.cat(own))
