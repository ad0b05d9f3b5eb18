"""A small decoder-only transformer on rows of one-hot tokens: the network of most papers on grokking."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from undertow.core.errors import ConfigError
from undertow.core.losses import Loss
from undertow.core.sections import Count, Positive
from undertow.models.initialisation import draw_normal
from undertow.models.model_section import ReadOutModel

if TYPE_CHECKING:
    from undertow.data.dataset import Dataset

__all__ = ["Transformer", "TransformerModel"]


class TransformerModel(ReadOutModel):
    """A transformer that reads ``tokens`` one-hot vectors and answers; see :class:`Transformer`.

    ``gain`` multiplies its start. The defaults are those of Nanda et al. (2023) for p = 113.
    """

    name: Literal["transformer"]
    tokens: Count = 2
    layers: Count = 1
    width: Count = 128
    heads: Count = 4
    gain: Positive = 1.0

    def build(
        self, dataset: Dataset, *, loss: Loss, dtype: torch.dtype, generator: torch.Generator
    ) -> nn.Module:
        inputs = dataset.x[0].numel()
        if inputs % self.tokens:
            raise ConfigError(
                f"model.tokens = {self.tokens} does not divide the {inputs} numbers of an input."
            )
        return Transformer(
            tokens=self.tokens,
            vocabulary=inputs // self.tokens,
            outputs=self.outputs_for(dataset, loss),
            layers=self.layers,
            width=self.width,
            heads=self.heads,
            gain=self.gain,
            dtype=dtype,
            generator=generator,
        )

    def least_weights(self, inputs: int) -> int:
        return inputs // self.tokens * self.width + 12 * self.layers * self.width**2


class Transformer(nn.Module):
    """x ↦ U z_last, with z = E x + positions and z ← z + attention(z), z ← z + V relu(W z + b) + c in each layer.

    One token more, the same for every input, stands behind those given, and the answer is read there. Attention
    is causal. There is no LayerNorm, as in Nanda, Chan, Lieberum, Smith & Steinhardt (2023), and everything is
    differentiable in the one-hot vectors: radii and Jacobians are those of the same inputs as an MLP's.

    Args:
        tokens: How many one-hot vectors an input holds, side by side.
        vocabulary: Their length.
        outputs: Of the read-out.
        layers: Blocks of attention and MLP, whose hidden layer is four times as wide.
        width: Of the residual stream, a multiple of ``heads``.
        heads: Of attention.
        gain: All weights are Gaussian of variance gain²/inputs, embeddings of gain²/width; biases are 0.
        dtype: Of the weights.
        generator: A CPU generator.

    >>> drawn = torch.Generator().manual_seed(0)
    >>> net = Transformer(tokens=2, vocabulary=5, outputs=5, width=8, heads=2, generator=drawn)
    >>> pairs = torch.eye(10)[[0, 3]] + torch.eye(10)[[7, 9]]   # (0, 2) and (3, 4)
    >>> net(pairs).shape, [name for name, _ in net.named_children()]
    (torch.Size([2, 5]), ['embed', 'blocks', 'output'])
    """

    def __init__(
        self,
        *,
        tokens: int,
        vocabulary: int,
        outputs: int,
        layers: int = 1,
        width: int = 128,
        heads: int = 4,
        gain: float = 1.0,
        dtype: torch.dtype = torch.float32,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ConfigError(f"model.width = {width} is not a multiple of model.heads = {heads}.")
        self.tokens, self.vocabulary = tokens, vocabulary
        self.embed = nn.Linear(vocabulary, width, bias=False, dtype=dtype)
        self.asked = nn.Parameter(torch.empty(width, dtype=dtype))
        self.positions = nn.Parameter(torch.empty(tokens + 1, width, dtype=dtype))
        self.blocks = nn.Sequential(*(_Block(width, heads, dtype) for _ in range(layers)))
        self.output = nn.Linear(width, outputs, bias=False, dtype=dtype)
        embeddings = {"embed.weight", "asked", "positions"}
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if name.endswith("bias"):
                    weight.zero_()
                else:
                    inputs = width if name in embeddings else weight.shape[1]
                    weight.copy_(
                        draw_normal(tuple(weight.shape), std=gain / math.sqrt(inputs), generator=generator)
                    )

    def forward(self, x: Tensor) -> Tensor:
        given = self.embed(x.reshape(len(x), self.tokens, self.vocabulary))
        last = self.asked.expand(len(x), 1, -1)
        stream = torch.cat([given, last], dim=1) + self.positions
        for depth, block in enumerate(self.blocks, start=1):
            # Nobody reads the other tokens behind the last block.
            stream = block(stream, answers=1 if depth == len(self.blocks) else stream.shape[1])
        answer: Tensor = self.output(stream[:, -1])
        return answer


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.mixed = (
            nn.Linear(width, width, bias=False, dtype=dtype) for _ in range(4)
        )
        self.hidden = nn.Linear(width, 4 * width, dtype=dtype)
        self.activation = nn.ReLU()
        self.back = nn.Linear(4 * width, width, dtype=dtype)

    def forward(self, stream: Tensor, answers: int) -> Tensor:
        """The stream behind this block at the last ``answers`` tokens."""
        here = stream[:, -answers:]
        here = here + self.mixed(self._attended(here, stream))
        onward: Tensor = here + self.back(self.activation(self.hidden(here)))
        return onward

    def _attended(self, here: Tensor, stream: Tensor) -> Tensor:
        """Σ_j softmax_j(⟨q_i, k_j⟩/√d) v_j over the tokens j ≤ i, for i in ``here``, head by head.

        It is written out, so that it can be read operation by operation.
        """
        query, key, value = (
            layer(tokens).reshape(*tokens.shape[:2], self.heads, -1).transpose(1, 2)
            for layer, tokens in ((self.query, here), (self.key, stream), (self.value, stream))
        )
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
        answers, length = scores.shape[2:]
        if answers > 1:
            later = scores.new_full((answers, length), -1e9).triu(length - answers + 1)
            scores = scores + later
        attended = torch.softmax(scores, dim=3) @ value
        together: Tensor = attended.transpose(1, 2).reshape(here.shape)
        return together
