"""R ≥ max_r min(r, q/β(B_r)): a radius from how steep a network can be nearby, not anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from undertow.adversary.certificates.member_proofs import gap_bounds_of, slopes_of
from undertow.adversary.certificates.network_graph import graphs_of
from undertow.adversary.classifier import Classifier

__all__ = ["ball_radii"]

_HALVINGS = 6


def ball_radii(
    networks: Sequence[nn.Module], x: Tensor, y: Tensor, reach: Tensor, *, norm: float = 2.0
) -> Tensor | None:
    """max_r min(r, min_j q_j/β_j(B_r)) over r = reach, reach/2, …, reach/64, with β_j proved over the ball; (M, N).

    Inside B_r no gradient of s_y − s_j is longer than β_j, so that no point nearer than both is decided otherwise.
    ``reach`` (M, N) is where the search begins, such as attacked radii. Errors have 0. None where nothing is proved.

    >>> net = nn.Linear(2, 1, bias=False).requires_grad_(False)
    >>> _ = net.weight.copy_(torch.tensor([[3.0, 4.0]]))
    >>> found = ball_radii([net.double()], torch.ones(1, 2).double(), torch.tensor([1]), torch.tensor([[1.4]]))
    >>> round(float(found), 6)
    1.4
    """
    graphs, _ = graphs_of(Classifier(list(networks)), x)
    if not graphs:
        return None
    gaps = gap_bounds_of(graphs, x, y, x.new_zeros(len(x), dtype=torch.float64), norm).clamp(min=0)
    best = gaps.new_zeros(gaps.shape[:2])
    for halving in range(_HALVINGS + 1):
        radius = reach.to(gaps).nan_to_num(posinf=1e6) / 2**halving
        slopes = slopes_of(graphs, x, y, radius, norm)
        safe = torch.where(gaps > 0, gaps / slopes, 0.0).amin(2)  # the label's own gap is ∞
        best = torch.maximum(best, torch.minimum(radius, safe))
    return best
