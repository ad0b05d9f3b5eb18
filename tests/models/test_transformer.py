"""The transformer against a slow reading of its formula, token by token."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from undertow.core.errors import ConfigError
from undertow.core.members import over_members
from undertow.data.modular_addition import modular_addition
from undertow.models.transformer import Transformer


def transformer(layers: int, seed: int = 0) -> Transformer:
    generator = torch.Generator().manual_seed(seed)
    return Transformer(
        tokens=2,
        vocabulary=5,
        outputs=5,
        layers=layers,
        width=6,
        heads=3,
        dtype=torch.float64,
        generator=generator,
    )


def slowly(net: Transformer, row: Tensor) -> Tensor:
    """One input, one head, one pair of tokens at a time."""
    stream = [net.embed.weight @ token for token in row.reshape(2, 5)] + [net.asked]
    stream = [token + place for token, place in zip(stream, net.positions, strict=True)]
    blocks: list[Any] = list(net.blocks)
    for block in blocks:
        moved = []
        for i, token in enumerate(stream):
            heads = []
            for head in range(3):
                part = slice(2 * head, 2 * head + 2)
                query = (block.query.weight @ token)[part]
                known = stream[: i + 1]
                scores = [query @ (block.key.weight @ other)[part] / math.sqrt(2) for other in known]
                total = sum(map(torch.exp, scores))
                values = [(block.value.weight @ other)[part] for other in known]
                heads.append(sum(torch.exp(s) / total * v for s, v in zip(scores, values, strict=True)))
            moved.append(token + block.mixed.weight @ torch.cat(heads))
        stream = [token + block.back(torch.relu(block.hidden(token))) for token in moved]
    answer: Tensor = net.output.weight @ stream[-1]
    return answer


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_it_computes_its_formula(layers: int) -> None:
    net, x = transformer(layers), modular_addition(p=5, share=0.5).x.double()[:4]
    assert torch.allclose(net(x), torch.stack([slowly(net, row) for row in x]), atol=1e-12)


def test_several_are_mapped_as_one() -> None:
    nets, x = [transformer(2, seed) for seed in range(3)], modular_addition(p=5, share=0.5).x.double()
    state, buffers = torch.func.stack_module_state(nets)  # type: ignore[arg-type]
    assert torch.allclose(
        over_members(nets[0])(state, buffers, x, False), torch.stack([net(x) for net in nets])
    )


def test_a_width_that_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a multiple"):
        Transformer(tokens=2, vocabulary=5, outputs=5, width=6, heads=4, generator=torch.Generator())
