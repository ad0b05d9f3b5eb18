"""Whether a lower bound, a radius and an upper bound are in order: what no number may be cut off to hide."""

from __future__ import annotations

from torch import Tensor

__all__ = ["contradictions_between"]

_SOLVED = 1e-6  # relative: how well an exact radius is known


def contradictions_between(
    certified: Tensor, exact: Tensor, attacked: Tensor, rounding: Tensor
) -> tuple[str, ...]:
    """A sentence for every member and sample, (M, N) each, whose values are out of order; NaN is no value.

    Certificates and exact radii are about the function in exact arithmetic, attacks about the network as it runs, which
    may find an example closer by ``rounding``.

    >>> import torch
    >>> one = torch.ones(1, 2, dtype=torch.float64)
    >>> contradictions_between(torch.tensor([[0.9, 1.2]]), torch.nan * one, one, 1e-6 * one)
    ('sample 1: certified 1.2 > attacked 1 (rounding 1e-06)',)
    """
    pairs = (
        ("certified", certified, "exact", exact * (1 + _SOLVED)),
        ("certified", certified, "attacked", attacked + rounding),
        ("exact", exact, "attacked", attacked * (1 + _SOLVED) + rounding),
    )
    shown = {"certified": certified, "exact": exact, "attacked": attacked}
    found = []
    for low, below, high, above in pairs:
        for member, sample in (below > above).nonzero().tolist():
            network = f"network {member}, " if len(certified) > 1 else ""
            values = [float(shown[side][member, sample]) for side in (low, high)]
            beside = f" (rounding {float(rounding[member, sample]):.3g})" if high == "attacked" else ""
            found.append(f"{network}sample {sample}: {low} {values[0]:.6g} > {high} {values[1]:.6g}{beside}")
    return tuple(found)
