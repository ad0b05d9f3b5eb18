"""What rounding does to a curvature product, from the same product with every operation's result moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from undertow.curvature.curvature_products import CurvatureProducts
from undertow.jacobian.perturbation import Noise
from undertow.jacobian.promotion import Promoting

__all__ = ["ROUNDING_SAFETY", "rounding_at", "rounding_on_a_share"]

ROUNDING_SAFETY = 4.0
"""What the effect of two perturbations is multiplied by: it may be small by chance."""
_FEW = 256  # samples; or an eighth of them, where that is more


def rounding_at(products: CurvatureProducts, vector: Tensor, draw: int, *, image: Tensor) -> Tensor:
    """‖Ev‖ for what rounding adds to the matrix, as far as one perturbation shows it, (M,); ``image`` is Hv."""
    return _length(_perturbed(products, vector, draw) - image)


def rounding_on_a_share(
    products: CurvatureProducts, vector: Tensor, draw: int, *, image: Tensor | None
) -> Tensor:
    """The same from a share of the samples, where these are many: a perturbed product costs three plain ones.

    Half of the share are the longest samples, each for itself; the others are drawn from the rest, which they stand
    for: H and E are sums over samples, and by the triangle inequality ‖Ev‖ is at most the mean of (N/n) ‖E_S v‖ over
    all choices S of n of N.
    """
    share = _share(products)
    if share is not products or image is None:
        image = share(vector)
    return rounding_at(share, vector, draw, image=image)


def _share(products: CurvatureProducts) -> CurvatureProducts:
    """The longest samples and some of the rest; all of them where they are few."""
    x = products.inputs
    half, total = max(_FEW, len(x) // 8) // 2, len(x)
    if 2 * half >= total:
        return products
    lengths = torch.linalg.vector_norm(x.detach().flatten(1).float(), dim=1).nan_to_num(nan=torch.inf)
    order = lengths.argsort(descending=True, stable=True).cpu()
    drawn = torch.randperm(total - half, generator=torch.Generator().manual_seed(0))[:half]
    index = torch.cat([order[:half], order[half:][drawn]])
    times = torch.ones(2 * half)
    times[half:] = (total - half) / half
    return products.on_rows(index, times)


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
