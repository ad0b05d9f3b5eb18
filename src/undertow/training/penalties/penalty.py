"""What a penalty is: a number that depends on the network and on samples, and that autograd can differentiate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.eval_mode import eval_mode
from undertow.core.sections import NonNegative, Section

__all__ = ["Penalty", "Signs"]

Signs = Callable[[Tensor, int], Tensor]
"""Random signs in the shape of a tensor, those of the n-th draw."""


class Penalty(Section, ABC):
    """Something that is added to the loss, ``weight`` times, averaged over samples.

    ``of_members`` is what a penalty has to say, for many networks at once; calling it is the same for one network in
    any training loop. Networks are taken in eval mode, as measures see them: running statistics are constants and
    stay what they are, dropout is off.
    """

    name: str
    weight: NonNegative

    @abstractmethod
    def of_members(self, f: Callable[[Tensor], Tensor], x: Tensor, signs: Signs) -> Tensor:
        """Each member's penalty (M,), without its weight, of samples x (M, B, …) that require a gradient.

        ``f`` turns them into outputs (M, B, k), each from its own sample alone, and everything that it depends on can
        be differentiated in. Whatever is random comes from ``signs``.
        """

    def __call__(self, net: nn.Module, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """``weight`` times the penalty of one network on samples x (N, …): a scalar to add to the loss.

        Args:
            net: Any module whose outputs are (N, k), or (N,) for one logit.
            x: Samples; they need no gradient.
            generator: Where random signs come from, on the device of x; torch's own by default.
        """
        if x.dim() < 2 or not len(x) or not x.is_floating_point():
            raise InputError(
                f"x has shape {tuple(x.shape)} and dtype {x.dtype}: pass at least one sample, (N, …) of floats."
            )

        def alone(samples: Tensor) -> Tensor:
            outputs: Tensor = net(samples[0])
            return outputs.reshape(1, len(x), -1)

        def drawn(like: Tensor, _: int) -> Tensor:
            bits = torch.randint(0, 2, like.shape, generator=generator, device=like.device)
            return (2 * bits - 1).to(like)

        with eval_mode(net), torch.enable_grad():
            return self.weight * self.of_members(alone, x.detach()[None].requires_grad_(), drawn).sum()
