"""Pictures of seams by depth: as wide for two seams as for twenty, with names that tell them apart."""

from __future__ import annotations

import json
from typing import Any

import polars
import pytest
import torch
import vl_convert
from torch import nn

import undertow as ut
from undertow.drawing.seam_depth import profile_by_depth
from undertow.drawing.short_names import short_names
from undertow.report.measured_page import write_page


def _frame(names: list[str], energy: float = 1.0) -> polars.DataFrame:
    numbers = {"co_correlation": 0.4, "error": 1e-5, "standard_error": 0.03}
    return polars.DataFrame(
        [{"seam": name, **numbers, "energy_head": energy, "energy_tail": 3 * energy} for name in names]
    )


def _axes(found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    lower = found["vconcat"][1]
    return lower, lower["encoding"]["x"]["axis"]


BLOCKS = ["attention.output.dropout", "intermediate.intermediate_act_fn", "output.dense", "layernorm_after"]
LONG = [f"vit.encoder.layer.{i // 4}.{BLOCKS[i % 4]}" for i in range(52)]


@pytest.mark.parametrize(
    ("names", "angle"),
    [
        (["0"], 0),
        (["0", "1"], 0),
        (["encoder.attention.output", "encoder.intermediate"], 0),
        ([f"backbone.block_number_{i}" for i in range(12)], -40),
        (LONG, -90),
    ],
)
def test_a_profile_fills_its_page_and_names_its_axes(names: list[str], angle: int) -> None:
    found = profile_by_depth(_frame(names)).to_dict()
    lower, axis = _axes(found)
    upper = found["vconcat"][0]
    assert lower["width"] == upper["width"] >= 700
    assert lower["width"] / len(names) >= 14  # upright names do not run into each other
    assert (axis["title"], axis["labelAngle"]) == ("seam, from input to output", angle)
    (rows,) = found["datasets"].values()
    assert [row["seam"] for row in rows] == names
    assert len({row["label"] for row in rows}) == len(names)
    assert max(len(row["label"]) for row in rows) <= 45
    assert lower["encoding"]["x"]["sort"] == [row["label"] for row in rows]
    assert vl_convert.vegalite_to_svg(json.dumps(found)).startswith("<svg")


def test_short_names_tell_modules_apart() -> None:
    names = [
        f"stem.block_{i}.a_very_long_name_of_a_projection_{end}" for i in range(9) for end in ("in", "out")
    ]
    for limit in (8, 20, 30):
        short = short_names(names, limit)
        assert len(set(short)) == len(names)
    assert short_names(["0", "layer4"], 30) == ["0", "layer4"]
    assert max(map(len, short_names(names, 30))) <= 45


def test_energies_of_a_dead_network_leave_an_empty_panel() -> None:
    found = profile_by_depth(_frame(["0", "1"], energy=0.0)).to_dict()
    (rows,) = found["datasets"].values()
    assert {row["energy_head"] for row in rows} == {None}
    assert "NaN" not in vl_convert.vegalite_to_svg(json.dumps(found))


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 1.0), (2.1, 2.6), (0.9e-7, 4e-7), (0.3, 40), (1e-9, 1e9), (1e-300, 1.0)]
)
def test_energies_have_lines_where_they_are(low: float, high: float) -> None:
    rows = polars.concat([_frame(["0"], low), _frame(["1"], high / 3)])
    lower, _ = _axes(profile_by_depth(rows).to_dict())
    ticks = lower["encoding"]["y"]["axis"]["values"]
    least, most = lower["encoding"]["y"]["scale"]["domain"]
    assert least <= min(low, high / 3) <= max(3 * low, high) <= most
    assert 2 <= len([tick for tick in ticks if least <= tick <= most]) == len(ticks) <= 8


def test_a_picture_that_is_saved_has_a_font_with_its_letters() -> None:
    found = ut.seam_profile(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)), torch.ones(3, 2))
    assert "DejaVu Sans" in found.figure().to_dict()["config"]["font"]


def test_a_page_has_its_picture_in_its_own_ink_on_its_own_ground(tmp_path: Any) -> None:
    found = {
        "checkpoint": "a.safetensors",
        "energy": 1.0,
        "samples": 4,
        "status": "",
        "seams": [],
        "ranks": {},
    }
    found |= {"margins": None, "radii": None, "notes": []}
    page = write_page(tmp_path / "page.html", found, profile_by_depth(_frame(LONG))).read_text()
    picture = page[page.index("<svg") : page.index("</svg>")]
    assert "currentColor" in picture
    assert not {'fill="white"', 'fill="#fff"', 'fill="#000"', 'fill="black"'} & set(picture.split())
    width = float(picture.partition('width="')[2].partition('"')[0])
    assert f"min-width: {round(0.75 * width)}px" in picture
    assert "name='viewport'" in page
    assert "Stable ranks" not in page  # there are none
