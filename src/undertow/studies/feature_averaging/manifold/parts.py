"""Clusters in the first coordinates of a larger space, and digits beside the plane of their principal directions."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import after_training_on_test, gradient_descent, two_layer
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SUBSPACE = by_scale(
    d=(10, 20, 50),
    k=(4, 10, 10),
    ambient=(40, 200, 3072),
    n=(80, 400, 1000),
    width=(20, 50, 1000),
    epochs=(200, 1000, 2000),
    points=(4, 12, 500),
    rounds=(0, 1, 2),
)
_PCA = by_scale(
    data=("digits", "digits", "mnist"),
    k=(8, 16, 32),
    tangent=(3, 4, 12),
    width=(20, 100, 1000),
    epochs=(10, 60, 50),
    points=(4, 12, 1000),
    rounds=(0, 1, 2),
)


@only_in("paper")
def subspace(scale: Scale) -> dict[str, Any]:
    """Full-batch gradient descent on clusters in a subspace, from a tiny start and from He's."""
    size = _SUBSPACE[scale]
    he = (2 / size.ambient) ** 0.5
    clusters = {"n": size.n, "d": size.d, "k": size.k, "sigma": 0.5, "ambient": size.ambient}
    plane = {"name": "off-manifold", "plane": "axes", "dimension": size.d, "rounds": size.rounds}
    return {
        "data": {"name": "axis-clusters", **clusters},
        "model": two_layer(size.width, he, bias="hidden"),
        "training": gradient_descent(0.1, size.epochs, fixed_head=True),
        "probe": after_training_on_test([plane, "accuracy"], size.points),
        "grid": {"std": [1e-4, he], "seed": list(range(10))},
    }


@only_in("paper")
def pca(scale: Scale) -> dict[str, Any]:
    """A two-layer network on all ten classes of digits (MNIST at paper scale), pixels in [0, 1]."""
    size = _PCA[scale]
    tangent = {"neighbours": 3 * size.tangent, "tangent": size.tangent}
    plane = {"name": "off-manifold", "plane": "pca", "dimension": size.k, **tangent, "rounds": size.rounds}
    return {
        "data": {"name": size.data},
        "model": {"name": "mlp", "widths": [size.width]},
        "training": {
            "optimizer": "adam",
            "learning_rate": 0.003,
            "batch_size": 128,
            "epochs": size.epochs,
        },
        "probe": after_training_on_test([plane, "accuracy"], size.points),
        "grid": {"data.name": [size.data], "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {"manifold-subspace": subspace, "manifold-pca": pca}
