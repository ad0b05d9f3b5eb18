"""D_binary, the clustered distribution of the feature-averaging paper (Li, Pan, Lyu, Li 2025)."""

from __future__ import annotations

import math
from typing import Annotated, Literal, get_args

import torch
from pydantic import Field
from torch import Tensor

from undertow.core.errors import InputError, nearest
from undertow.core.sections import Count, NonNegative, Positive
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset
from undertow.data.drawing import cpu_generator, require_positive

__all__ = ["ClustersData", "Noise", "by_cluster", "cluster_centres", "d_binary"]

Noise = Literal["gaussian", "rademacher", "uniform", "sparse"]
_DENSITY = 0.1  # the share of coordinates that sparse noise touches


class ClustersData(DrawnData):
    """x = μ_j + ξ around k centres of norm √d (Li, Pan, Lyu & Li 2025); see :func:`d_binary`.

    ``labels`` are the two classes, or the clusters themselves. The split "test" has new points around the same centres.
    """

    name: Literal["d-binary"]
    d: Count = 3072
    k: Annotated[int, Field(strict=True, ge=2, le=10**6)] = 10
    balance: Positive = 1.0
    sigma: NonNegative = 1.0
    noise: Noise = "gaussian"
    cosine: Annotated[float, Field(strict=True, gt=-1, lt=1)] = 0.0
    labels: Literal["binary", "clusters"] = "binary"

    def draw(self, n: int, seed: int, *, like: Dataset | None) -> Dataset:
        drawn = d_binary(
            n=n,
            d=self.d,
            k=self.k,
            balance=self.balance,
            sigma=self.sigma,
            noise=self.noise,
            cosine=self.cosine,
            centres=None if like is None else like.details["centres"],
            seed=seed,
        )
        return by_cluster(drawn) if self.labels == "clusters" else drawn

    def least_shape(self) -> tuple[int, int]:
        return max(self.n, self.k), self.d


def d_binary(
    *,
    n: int,
    d: int,
    k: int,
    balance: float = 1.0,
    sigma: float = 1.0,
    noise: Noise = "gaussian",
    cosine: float | None = 0.0,
    norm: float | None = None,
    centres: Tensor | None = None,
    seed: int = 0,
    generator: torch.Generator | None = None,
) -> Dataset:
    """x = μ_i + ξ with the cluster i uniform in 1 … k; the label says whether i ∈ J₊.

    The centres have norm √d (or ``norm``) and are orthogonal; ``cosine`` relaxes that, see
    :func:`cluster_centres`. J₊ are the first |J₊| clusters, with |J₊|/|J₋| as near to ``balance`` as k
    allows (both sides get at least one). The noise ξ has mean 0 and variance σ² in every coordinate:
    "gaussian" N(0, σ²), or sub-Gaussian and bounded, "rademacher" ±σ, "uniform" on [−√3 σ, √3 σ], "sparse"
    ±√10 σ in a tenth of the coordinates and 0 in the others.

    Labels are 1 for J₊ and 0 for J₋. ``details`` has "centres" (k, d), "cluster" (n,), "noise" (n, d) and
    "cluster_sign" (k,), ±1. Pass another set's centres to draw test data of the same distribution;
    ``generator``, a CPU one, replaces ``seed``.

    >>> data = d_binary(n=8, d=32, k=4)
    >>> data.details["cluster_sign"].tolist()
    [1, 1, -1, -1]
    >>> (data.details["centres"].norm(dim=1) ** 2).round().tolist()
    [32.0, 32.0, 32.0, 32.0]
    """
    require_positive("d_binary", n=n, d=d, k=k - 1)
    if sigma < 0 or balance <= 0:
        raise InputError(
            f"d_binary: sigma={sigma} must not be negative and balance={balance} must be positive."
        )
    draw = cpu_generator(seed, generator)
    if centres is None:
        mu = cluster_centres(k=k, d=d, cosine=cosine, norm=norm, generator=draw)
    elif centres.shape == (k, d):
        mu = centres.detach().cpu().double()
    else:
        raise InputError(f"d_binary: centres have shape {tuple(centres.shape)}; they must be ({k}, {d}).")
    positive = min(max(round(k * balance / (1 + balance)), 1), k - 1)
    sign = torch.where(torch.arange(k) < positive, 1, -1)
    cluster = torch.randint(k, (n,), generator=draw)
    xi = sigma * _standard_noise(noise, n, d, draw)
    return Dataset.of(
        (mu[cluster] + xi).float(),
        (sign[cluster] > 0).long(),
        name="d-binary",
        classes=2,
        details={"centres": mu.float(), "cluster": cluster, "noise": xi.float(), "cluster_sign": sign},
        aligned=("cluster", "noise"),
    )


def by_cluster(data: Dataset) -> Dataset:
    """The same points labelled 0 … k−1 by their cluster; the two classes stay in ``details["label"]``.

    This is the detailed supervision of the feature-decoupling theorem.

    >>> by_cluster(d_binary(n=5, d=8, k=4)).classes
    4
    """
    missing = [key for key in ("cluster", "centres") if key not in data.details]
    if missing:
        raise InputError(f"{data.name} does not know its clusters; draw it with d_binary.")
    return data.with_content(
        y=data.details["cluster"],
        name=f"{data.name}-clusters",
        classes=len(data.details["centres"]),
        details={**data.details, "label": data.y},
        aligned=(*data.aligned, "label"),
    )


def cluster_centres(
    *,
    k: int,
    d: int,
    cosine: float | None = 0.0,
    norm: float | None = None,
    seed: int = 0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """k centres in R^d (float64) of norm √d or ``norm``, every two at the same ``cosine``.

    They are the rows of √d · L Q, with L Lᵀ = (1 − c) I + c 11ᵀ and Q a random orthonormal frame: exact for
    any c above −1/(k−1) and below 1, and orthogonal for c = 0. With ``cosine=None`` they are independent and uniform
    on the sphere, so that their cosines are of the order 1/√d.

    >>> mu = cluster_centres(k=3, d=50, cosine=0.1)
    >>> (mu @ mu.T / 50).round(decimals=6).tolist()
    [[1.0, 0.1, 0.1], [0.1, 1.0, 0.1], [0.1, 0.1, 1.0]]
    """
    draw = cpu_generator(seed, generator)
    length = math.sqrt(d) if norm is None else norm
    if length <= 0:
        raise InputError(f"The centres' norm is {length}; it must be positive.")
    gaussian = torch.randn(k, d, generator=draw, dtype=torch.float64)
    if cosine is None:
        return length * torch.nn.functional.normalize(gaussian, dim=1)
    if k > d:
        raise InputError(f"{k} centres cannot be independent in {d} dimensions; raise d, or use cosine=None.")
    if not -1 / max(k - 1, 1) < cosine < 1:
        raise InputError(
            f"No {k} centres have pairwise cosine {cosine}; it must lie above −1/(k−1), and below 1."
        )
    frame, triangle = torch.linalg.qr(gaussian.T)
    frame = frame * triangle.diagonal().sign()  # makes Q unique, whatever library computed it
    gram = (1 - cosine) * torch.eye(k, dtype=torch.float64) + cosine
    centres: Tensor = length * torch.linalg.cholesky(gram) @ frame.T
    return centres


def _standard_noise(kind: str, n: int, d: int, draw: torch.Generator) -> Tensor:
    """Independent entries of mean 0 and variance 1, float64."""
    if kind == "gaussian":
        return torch.randn(n, d, generator=draw, dtype=torch.float64)
    if kind == "rademacher":
        return 2.0 * torch.randint(2, (n, d), generator=draw).double() - 1.0
    if kind == "uniform":
        return math.sqrt(3.0) * (2.0 * torch.rand(n, d, generator=draw, dtype=torch.float64) - 1.0)
    if kind == "sparse":
        touched = torch.rand(n, d, generator=draw, dtype=torch.float64) < _DENSITY
        signs = 2.0 * torch.randint(2, (n, d), generator=draw).double() - 1.0
        return touched * signs / math.sqrt(_DENSITY)
    raise InputError(f"There is no noise {kind!r}; {nearest(kind, get_args(Noise))}")
