"""What rounding does to a curvature product, from the same product with every operation's result moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from undertow.curvature.curvature_products import CurvatureProducts
from undertow.jacobian.perturbation import Noise
from undertow.jacobian.promotion import Promoting

__all__ = ["ROUNDING_SAFETY", "rounding_at", "rounding_on_some"]

ROUNDING_SAFETY = 4.0
"""What the effect of two perturbations is multiplied by: it may be small by chance."""
_FEW = 256  # samples; or an eighth of them, where that is more


def rounding_at(products: CurvatureProducts, vector: Tensor, draw: int, *, image: Tensor) -> Tensor:
    """‖Ev‖ for what rounding adds to the matrix, as far as one perturbation shows it, (M,); ``image`` is Hv as known.

    An image that was not computed as a product shows here what its own arithmetic has lost.
    """
    return _length(_perturbed(products, vector, draw) - image)


def rounding_on_some(products: CurvatureProducts, vector: Tensor, draw: int, *, image: Tensor) -> Tensor:
    """The same of a share of the samples, where these are many, times N/n: a perturbed product costs three plain ones.

    H and E are sums over the samples, so that by the triangle inequality ‖Ev‖ is at most the mean of (N/n) ‖E_S v‖
    over all choices S of n of them. A sample that alone loses much may be missed; what is made of the samples together
    is looked at with all of them.
    """
    few = products.on_some(max(_FEW, len(products) // 8))
    return rounding_at(few, vector, draw, image=image if few is products else few(vector))


def _perturbed(products: CurvatureProducts, vector: Tensor, draw: int) -> Tensor:
    """The product once more, with every result of every operation moved by a few roundings."""
    noise = Noise(products.dtype, products.device, seed=draw)

    @contextmanager
    def moved() -> Iterator[None]:
        with ExitStack() as stack:
            if products.promotes:
                stack.enter_context(Promoting())
            stack.enter_context(noise.mode())
            yield

    return products.once(moved)(vector)


def _length(vector: Tensor) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(vector, dim=1, dtype=torch.float64)
    return found
