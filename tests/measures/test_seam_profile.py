"""The seam profile: every seam's own collaboration, from shared backward passes, as numbers and as pictures."""

from __future__ import annotations

import gc
import json
import math
import warnings
import weakref
from collections.abc import Callable
from typing import Any
from unittest import mock

import polars
import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.adapting import MeasuredElsewhere
from undertow.core.errors import SeamError
from undertow.core.status import Status
from undertow.drawing.seam_depth import profile_by_depth, profile_over_training
from undertow.jacobian.heads_at_once import _HeadsAt, head_norms
from undertow.jacobian.operator import AutogradOperator
from undertow.measures.seam_profile import SeamProfile

from ..model_cases import CASES, Case, dense_norms


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_row_is_the_dense_collaboration_of_its_seam(case: Case) -> None:
    net, x = case.make(4, torch.float64)
    if not ut.seams(net, x):
        with pytest.raises(SeamError, match="no seam"):
            ut.seam_profile(net, x)
        return
    found = ut.seam_profile(net, x)
    assert found.seams == tuple(ut.seams(net, x))
    whole = dense_norms(net, x)
    assert found.energy == pytest.approx(float(whole.square().mean().sqrt()), rel=1e-2)
    for name, rho, head_energy, tail_energy, error in zip(
        found.seams, found.co_correlation, found.energy_head, found.energy_tail, found.error, strict=True
    ):
        head, tail = ut.split(net, name, x=x)
        with torch.no_grad():
            hidden = tail(x)
        h, t = dense_norms(head, hidden), dense_norms(tail, x)
        assert head_energy == pytest.approx(float(h.square().mean().sqrt()), rel=1e-2)
        assert tail_energy == pytest.approx(float(t.square().mean().sqrt()), rel=1e-2)
        true = float((whole.square().mean() / (h * t).square().mean()).sqrt().nan_to_num())  # 0/0 is 0
        assert abs(rho - true) <= error + 1e-9


def test_heads_at_once_in_float32_have_errors_that_hold_and_need_no_order() -> None:
    net, x = next(case for case in CASES if case.name.startswith("res")).make(9)
    places = ut.seams(net, x)
    net = nn.Sequential(net, nn.Flatten(), nn.Linear(int(net(x)[0].numel()), 7)).eval()
    names = [f"0.{name}" for name in places]
    found = head_norms(net, x, names)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(3))
    again = head_norms(net, x[order], names, chunk=2)
    for norms, other, name in zip(found, again, ["", *names], strict=True):
        assert norms.status is Status.EXACT
        torch.testing.assert_close(other.value, norms.value[order], rtol=1e-4, atol=0)
        if name:
            head, tail = ut.split(net, name, x=x)
            expected = dense_norms(head, tail(x).detach())
        else:
            expected = dense_norms(net, x)
        assert bool(((norms.value - expected).abs() <= norms.error).all())


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_of_the_input_do_not_matter(unit: float) -> None:
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    nn.init.zeros_(net[0].bias)  # type: ignore[arg-type]
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    found, scaled = ut.seam_profile(net, x), ut.seam_profile(net, x * unit)
    assert scaled.co_correlation == pytest.approx(found.co_correlation, rel=1e-3)


def test_many_outputs_are_measured_by_lanczos() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(70, 80), nn.Tanh(), nn.Linear(80, 90)).double().eval()
        x = torch.randn(3, 70).double()
    found = ut.seam_profile(net, x)
    for row in found.rows:
        head, tail = ut.split(net, row.seam, x=x)
        h = dense_norms(head, tail(x).detach())
        assert row.energy_head == pytest.approx(float(h.square().mean().sqrt()), rel=1e-2)
        assert row.status in (Status.CONVERGED, Status.EXACT)


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.mix, self.read = nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, tokens: Tensor, mask: Tensor) -> dict[str, Tensor]:
        h = self.mix(self.words(tokens)).tanh() * mask[:, :, None]
        return {"logits": self.read(h.sum(1))}


def test_tokens_and_masks_and_where_it_was_measured() -> None:
    net, tokens = Tokens().double().eval(), torch.tensor([[1, 2, 3], [4, 5, 6], [1, 1, 2]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0]]).double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeasuredElsewhere)
        found = ut.seam_profile(net, tokens, extras={"mask": mask})
        one = ut.collaboration(net, tokens, seam="mix", extras={"mask": mask})
    assert found.seams == ("mix",)
    assert found.space == "the output of words"
    assert found.co_correlation[0] == pytest.approx(one.co_correlation, rel=1e-2)


def test_pictures_of_a_moment_and_of_a_training() -> None:
    net, x = (
        nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2)),
        torch.randn(8, 3),
    )
    found = ut.seam_profile(net.eval(), x)
    frame = found.frame()
    assert frame["seam"].to_list() == list(found.seams)
    drawn = str(found.figure().to_dict())
    assert "S(head)" in drawn
    assert all(name in drawn for name in found.seams)
    probe = ut.Probe(net, x, measures=[SeamProfile(points=4)])
    with torch.no_grad():
        next(net.parameters()).mul_(2)
    probe.epoch_end()
    assert {record.key for record in probe.records if record.epoch == 1} >= {"1:co_correlation", "energy"}
    assert "viridis" in str(profile_over_training(probe.frame()).to_dict())


def test_pictures_of_what_has_no_bound_can_be_written() -> None:
    """Equal values in a window of max pooling leave no bound; one sample leaves no standard error."""
    net = nn.Sequential(
        nn.Unflatten(1, (1, 8)), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)
    )
    found = ut.seam_profile(net.eval(), torch.ones(1, 8))
    assert not math.isfinite(found.standard_error[0])
    rows = found.frame().with_columns(error=polars.lit(math.inf))
    probe = ut.Probe(net, torch.ones(1, 8), measures=[SeamProfile()])
    probe.epoch_end()
    over = probe.frame().with_columns(error=polars.lit(math.inf))
    for picture in (found.figure(), profile_by_depth(rows), profile_over_training(over)):
        json.dumps(picture.to_dict(), allow_nan=False)


def test_nothing_of_a_profile_is_left_behind() -> None:
    """Graphs of forward passes are large: those that only a collector of garbage frees fill a GPU."""
    net, x = next(case for case in CASES if case.name.startswith("res")).make(4)
    net = nn.Sequential(net, nn.Flatten(), nn.Linear(int(net(x)[0].numel()), 3)).eval()
    made: list[weakref.ref[object]] = []

    def noting(kind: type) -> Callable[..., None]:
        begin: Callable[..., None] = kind.__init__  # type: ignore[misc]

        def start(self: object, *args: object, **options: object) -> None:
            made.append(weakref.ref(self))
            begin(self, *args, **options)

        return start

    gc.collect()
    gc.disable()
    try:
        with (
            mock.patch.object(AutogradOperator, "__init__", noting(AutogradOperator)),
            mock.patch.object(_HeadsAt, "__init__", noting(_HeadsAt)),
        ):
            ut.seam_profile(net, x)
        assert made
        assert [each() for each in made if each() is not None] == []
    finally:
        gc.enable()


def test_a_profile_in_float64_first_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU with fast float64 does, on any machine: the network's double is measured and nothing twice."""
    net, x = next(case for case in CASES if case.name.startswith("res")).make(5)
    net = nn.Sequential(net, nn.Flatten(), nn.Linear(int(net(x)[0].numel()), 3)).eval()
    given = ut.seam_profile(net, x, rtol=1e-3)
    monkeypatch.setattr("undertow.jacobian.precisions.fast_double", lambda _device: True)
    seen: list[torch.dtype] = []
    begin = AutogradOperator.__init__

    def noting(self: AutogradOperator, f: Callable[[Tensor], Tensor], own: Tensor, **options: Any) -> None:
        seen.append(own.dtype)
        begin(self, f, own, **options)

    monkeypatch.setattr(AutogradOperator, "__init__", noting)
    found = ut.seam_profile(net, x, rtol=1e-3)
    assert set(seen) == {torch.float64}
    assert found.seams == given.seams
    both = zip(found.co_correlation, given.co_correlation, found.error, given.error, strict=True)
    assert all(abs(one - other) <= error + another for one, other, error, another in both)
    assert next(net.parameters()).dtype is torch.float32
