"""Where fragility builds up: co-correlation and the energies of head and tail at every seam, by depth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from undertow.core.adapting import Adapted
from undertow.core.errors import InputError, SeamError
from undertow.core.outputs import OutputChoice
from undertow.core.precision import matmul_precision
from undertow.core.sections import Switch, Text
from undertow.core.shown import Shown, aligned
from undertow.core.status import Status
from undertow.jacobian.cutting import chain, tails
from undertow.jacobian.heads_at_once import MOST_OUTPUTS, head_norms
from undertow.jacobian.norms import JacobianNorms, norms_at
from undertow.jacobian.precisions import NetworkSamples
from undertow.jacobian.preconditions import check_network, prepare
from undertow.jacobian.seams import seams as seams_of
from undertow.jacobian.tails_at_once import tail_norms
from undertow.jacobian.trace import leave_no_trace
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading
from undertow.measures.seam import CollaborationResult, collaborate

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["SeamProfile", "SeamProfileResult", "seam_profile"]


@dataclass(frozen=True)
class SeamProfileResult(Shown):
    """One row for each seam, from input to output: ``rows`` holds them, the tuples are their columns.

    ``error`` bounds the numerical error of ϱ, ``standard_error`` is its uncertainty from the choice of samples.
    ``energy`` is S(net). ``space`` says where perturbations are measured when that is not the input ("the output of
    embeddings", for token ids), ``status`` how the norms ended.
    """

    rows: tuple[CollaborationResult, ...]
    energy: float
    samples: int
    status: Status
    space: str = ""

    @property
    def seams(self) -> tuple[str, ...]:
        return tuple(row.seam for row in self.rows)

    @property
    def co_correlation(self) -> tuple[float, ...]:
        return tuple(row.co_correlation for row in self.rows)

    @property
    def energy_head(self) -> tuple[float, ...]:
        return tuple(row.energy_head for row in self.rows)

    @property
    def energy_tail(self) -> tuple[float, ...]:
        return tuple(row.energy_tail for row in self.rows)

    @property
    def error(self) -> tuple[float, ...]:
        return tuple(row.error for row in self.rows)

    @property
    def standard_error(self) -> tuple[float, ...]:
        return tuple(row.standard_error for row in self.rows)

    def __repr__(self) -> str:
        words = f"S(net) = {self.energy:.4g}, {self.samples} samples, {self.status.value}"
        rows = [("", "seam", "ϱ", "±", "S(head)", "S(tail)")]
        for row in self.rows:
            ϱ = (f"{row.co_correlation:.3f}", f"{row.error:.0e}")
            rows.append(("", row.seam, *ϱ, f"{row.energy_head:.4g}", f"{row.energy_tail:.4g}"))
        where = f", perturbed at {self.space}" if self.space else ""
        return "\n".join([f"SeamProfileResult: {words}{where}", *aligned(rows)])

    def frame(self) -> polars.DataFrame:
        """A row for each seam as a polars frame, with its depth from 0."""
        import polars

        columns = ("seam", "co_correlation", "error", "standard_error", "energy_head", "energy_tail")
        rows = [
            {"depth": depth, **{name: getattr(row, name) for name in columns}}
            for depth, row in enumerate(self.rows)
        ]
        return polars.DataFrame(rows)

    def figure(self) -> altair.TopLevelMixin:
        """ϱ with its error and both energies over depth, one picture."""
        from undertow.drawing.letters import lettered
        from undertow.drawing.seam_depth import profile_by_depth

        words = f"{self.samples} samples" + (f", perturbed at {self.space}" if self.space else "")
        return lettered(profile_by_depth(self.frame(), words))


@matmul_precision("float32")  # the bounds do not cover the rounding of TF32
def seam_profile(
    net: nn.Module,
    x: Tensor,
    *,
    seams: Sequence[str] | None = None,
    rtol: float = 1e-2,
    dtype: torch.dtype | None = None,
    chunk: int | None = None,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
    generator: torch.Generator | None = None,
) -> SeamProfileResult:
    """ϱ, S(head) and S(tail) at every seam, each cutting the network in two: where does fragility build up?

    At seam l the network is head_l ∘ tail_l, and S(net) = ϱ_l √E(‖J_head‖ ‖J_tail‖)² (Wang, Min & Ruan 2024, Eq. 9).
    With at most 64 outputs the heads of all seams come exactly from one backward pass for each output; with more, and
    for tails, norms come from Lanczos with a bound, from a cold start.

    Args:
        net: a network that can be cut.
        x: samples, (N, …). Of token ids it is measured from the embedding on.
        seams: the places, from input to output; by default all that ``undertow.seams(net, x)`` lists.
        rtol: bounds the relative error of every norm.
        dtype: the precision to measure in, on a copy of the network.
        chunk: samples at a time; by default as many as memory allows.
        output: which of the network's outputs is meant, as in :func:`undertow.jacobian_norms`.
        extras: what the network takes beside x, a row for each sample.
        generator: of the random starts.

    >>> net = nn.Sequential(*(nn.Linear(1, 1, bias=False) for _ in range(3))).requires_grad_(False)
    >>> for layer in net: _ = layer.weight.fill_(2.0)
    >>> found = seam_profile(net, torch.ones(4, 1))
    >>> found.seams, [round(energy, 6) for energy in found.energy_tail], [round(h, 6) for h in found.energy_head]
    (('0', '1'), [2.0, 4.0], [4.0, 2.0])
    """
    if not isinstance(net, nn.Module):
        raise InputError(f"net must be a torch.nn.Module to be cut, not {type(net).__name__}.")
    f, x = prepare(net, x, dtype, output=output, extras=extras)
    assert isinstance(f, nn.Module)
    names = tuple(seams_of(f, x) if seams is None else seams)
    if not names:
        raise SeamError(
            "the network has no seam: no module's output is on every path from input to output. Let forward pass an "
            "nn.Identity() where it is to be cut."
        )
    if seams is not None:  # those that are listed have been verified
        for name in names:
            chain(f, [name], x=x)
    with leave_no_trace(f, device=x.device):
        whole, heads, before = _norms(f, x, names, generator, {"rtol": rtol, "chunk": chunk})
    rows = tuple(
        collaborate(head, tail, whole, seam=name)
        for name, head, tail in zip(names, heads, before, strict=True)
    )
    space = f.space if isinstance(f, Adapted) else ""
    return SeamProfileResult(rows, rows[0].energy, len(x), Status.worst(row.status for row in rows), space)


def _norms(
    f: nn.Module,
    x: Tensor,
    names: Sequence[str],
    generator: torch.Generator | None,
    options: dict[str, Any],
) -> tuple[JacobianNorms, list[JacobianNorms], list[JacobianNorms]]:
    """Those of the whole network, of the head behind every seam, and of the tail before it."""
    outputs = check_network(f, x)[0].numel()
    given = NetworkSamples(f, x)
    given.refuse_places()
    samples = given.quickest
    sure = samples.decided
    if outputs <= MOST_OUTPUTS:
        whole, *heads = head_norms(
            cast(nn.Module, samples.f), samples.x, names, arithmetic=samples.arithmetic, **options
        )
    else:
        whole = norms_at(sure, generator=generator, **options)
        heads = [_one_head(f, name, x, generator, options) for name in names]
    alone = [
        NetworkSamples(tail, sure.x, sure.arithmetic, products=sure.products)
        for tail in tails(cast(nn.Module, sure.f), names)
    ]
    return whole, heads, tail_norms(sure, names, alone, generator=generator, **options)


def _one_head(
    net: nn.Module, name: str, x: Tensor, generator: torch.Generator | None, options: dict[str, Any]
) -> JacobianNorms:
    tail, head = chain(net, [name], x=x[:1])
    return norms_at(NetworkSamples.behind(head, [tail], x), generator=generator, **options)


class SeamProfile(NamedMeasure):
    """ϱ and the energies of head and tail at every seam; ``seams`` names some, else all are measured.

    For each seam the readings are ``SEAM:co_correlation``, ``SEAM:energy_head`` and ``SEAM:energy_tail``; then
    ``energy``. ``rtol`` bounds the error of every norm. ``label`` goes before every key,
    "LABEL:SEAM:co_correlation", where a probe has two profiles. With ``standard_error`` there is a
    ``SEAM:standard_error`` too, of ϱ by the choice of points.
    """

    name: ClassVar[str] = "seam-profile"
    seams: tuple[Text, ...] = ()
    rtol: Annotated[float, Field(strict=True, gt=0, lt=1)] = 1e-2
    label: Annotated[str, Field(strict=True, max_length=64)] = ""
    standard_error: Switch | None = None

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        found = seam_profile(net, x, seams=self.seams or None, rtol=self.rtol)
        before = f"{self.label}:" if self.label else ""
        for row in found.rows:
            yield f"{before}{row.seam}:co_correlation", row.co_correlation, row.error
            if self.standard_error:
                yield f"{before}{row.seam}:standard_error", row.standard_error, None
            yield f"{before}{row.seam}:energy_head", row.energy_head, None
            yield f"{before}{row.seam}:energy_tail", row.energy_tail, None
        yield f"{before}energy", found.energy, None
