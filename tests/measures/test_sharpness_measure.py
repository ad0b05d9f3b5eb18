"""Sharpness in probes and configuration files."""

from __future__ import annotations

import pytest
import torch

import undertow as ut
from tests.curvature.curvature_cases import CURVATURE_CASES
from undertow.core.errors import ConfigError
from undertow.measures import MEASURES, measure
from undertow.measures.sharpness import Sharpness


def test_a_probe_reads_what_the_function_gives() -> None:
    net, x, y = CURVATURE_CASES[0].make()
    probe = ut.Probe(net.train(), x, y, measures=[Sharpness(top=2)], every="epoch")
    net.eval()
    found = ut.sharpness(net, x, y, loss="cross-entropy", top=2)
    assert [(record.key, record.value, record.error) for record in probe.records] == [
        ("", float(found.values[0]), float(found.errors[0])),
        ("2", float(found.values[1]), float(found.errors[1])),
    ]
    assert MEASURES.lines["sharpness"].side("") == "above"


def test_several_networks_give_what_each_gives_alone() -> None:
    case = CURVATURE_CASES[3]
    networks = [case.make(seed)[0] for seed in range(3)]
    _, x, y = case.make()
    together = Sharpness().batched(networks, x, y)
    for net, readings in zip(networks, together, strict=True):
        for ours, alone in zip(readings, Sharpness()(net, x, y), strict=True):
            assert ours[0] == alone[0]
            assert ours[1] == pytest.approx(alone[1], rel=1e-4)


def test_options_are_checked_by_name() -> None:
    assert measure("sharpness", loss="square", matrix="gauss-newton") == Sharpness(
        loss="square", matrix="gauss-newton"
    )
    with pytest.raises(ConfigError, match="did you mean 'square'"):
        measure("sharpness", loss="sqare")
    with pytest.raises(ut.UndertowError, match="labels"):
        list(Sharpness()(torch.nn.Linear(2, 1), torch.ones(3, 2), None))


def test_an_absolute_error_is_an_option_that_changes_no_identity() -> None:
    assert "atol" not in Sharpness().model_dump()
    assert Sharpness(atol=1e-3).model_dump()["atol"] == 1e-3
