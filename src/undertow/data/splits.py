"""A train/test split that is the same on every machine and in every version of every library."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from undertow.core.errors import InputError

__all__ = ["stratified_split"]


def stratified_split(
    labels: NDArray[np.int64], *, test_fraction: float = 0.2, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of train and test, each in shuffled order, with the classes' shares kept.

    The test set has round(test_fraction · N) rows; each class gives its share, rounded so that the total
    is met (largest remainders), and at least one row of every class stays in train.

    >>> train, test = stratified_split(np.array([0] * 57 + [1] * 47))
    >>> len(train), len(test), np.bincount(np.array([0] * 57 + [1] * 47)[test])
    (83, 21, array([12,  9]))
    """
    if not 0 < test_fraction < 1:
        raise InputError(f"test_fraction is {test_fraction}; it must lie between 0 and 1.")
    # RandomState's stream is frozen by numpy's compatibility policy; default_rng's is not.
    shuffled = np.random.RandomState(seed).permutation(len(labels))
    _, counts = np.unique(labels, return_counts=True)
    shares = _shares(counts, round(test_fraction * len(labels)))
    in_test = np.zeros(len(labels), dtype=bool)
    # Class after class, each in shuffled order: one sort, however many classes there are.
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    place = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    in_test[by_class[place < np.repeat(shares, counts)]] = True
    train, test = shuffled[~in_test[shuffled]], shuffled[in_test[shuffled]]
    if not len(test):
        raise InputError(
            f"{len(labels)} rows are too few for a test set of {test_fraction:.0%}; use split='all'."
        )
    return train, test


def _shares(counts: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    exact = counts * total / counts.sum()
    shares: NDArray[np.int64] = np.minimum(np.floor(exact).astype(np.int64), counts - 1)
    by_remainder = np.argsort(shares - exact, kind="stable")
    missing, free = total - int(shares.sum()), counts - 1 - shares
    while missing > 0 and free.any():
        chosen = by_remainder[free[by_remainder] > 0][
            :missing
        ]  # one each, in this order, then from the start again
        shares[chosen] += 1
        free[chosen] -= 1
        missing -= len(chosen)
    return shares
