"""Collaboration between layers: co-correlation, and the decomposition of the energy at a seam or along a chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError, nearest
from undertow.jacobian.preconditions import prepare
from undertow.measures.chain import Chain, along_chain, chain_norms
from undertow.measures.seam import Collaboration, Form

__all__ = ["collaboration"]

_FORMS = ("equation-9", "algorithm-1")


@overload
def collaboration(
    net: nn.Module, x: Tensor, *, seam: str, form: Form = ..., **options: Any
) -> Collaboration: ...
@overload
def collaboration(
    net: nn.Module, x: Tensor, *, seams: Sequence[str], form: Form = ..., **options: Any
) -> Chain: ...
def collaboration(
    net: nn.Module,
    x: Tensor,
    *,
    seam: str | None = None,
    seams: Sequence[str] | None = None,
    form: Form = "equation-9",
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Collaboration | Chain:
    """How the parts of ``net`` on both sides of a seam work together to amplify perturbations.

    The co-correlation ϱ in [0, 1] is 1 when what the tail stretches most is what the head stretches most
    (Wang, Min & Ruan 2024, Definition 4.2). ``seam`` names one module to cut after, ``seams`` several, from
    input to output. ``form="algorithm-1"`` computes ϱ from plain means, as the paper's Algorithm 1 prints it;
    the identity of Theorem 4.5 then fails by the difference. Options go to :func:`undertow.jacobian_norms`.

    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
    >>> _ = net[0].weight.data.copy_(torch.diag(torch.tensor([3.0, 1.0])))
    >>> _ = net[1].weight.data.copy_(torch.tensor([[0.0, 2.0]]))  # the head reads what the tail stretches least
    >>> round(collaboration(net, torch.ones(5, 2), seam="0").co_correlation, 6)
    0.333333
    """
    if form not in _FORMS:
        raise InputError(f"there is no form {form!r}: {nearest(str(form), _FORMS)}")
    if (seam is None) == (seams is None):
        raise InputError("name either one seam=… or several seams=[…]; undertow.seams(net, x) lists them.")
    if not isinstance(net, nn.Module):
        raise InputError(f"net must be a torch.nn.Module to be cut, not {type(net).__name__}.")
    names = [seam] if seam is not None else list(seams or ())
    net, x = prepare(net, x, dtype)  # type: ignore[assignment]
    found = along_chain(chain_norms(net, x, seams=names, **options), seams=names, form=form)
    return found.links[0] if seam is not None else found
