"""``undertow measure``: one checkpoint, its table, its JSON and its page; what does not fit is a sentence."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file, save_model
from torch import nn

import undertow as ut
from undertow.cli.command import call
from undertow.cli.measured_seams import profile_within
from undertow.cli.samples import Samples
from undertow.data import load
from undertow.measures.seam_profile import SeamProfileResult

_MODEL = """
from torch import nn

def build():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))

def tokens():
    return nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 3))

def needs(width):
    return nn.Linear(width, 1)

def breaks():
    raise KeyError("weights")

def rows():
    return nn.Sequential(nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 10))

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.act, self.read = nn.Embedding(7, 3), nn.Tanh(), nn.Linear(3, 7, bias=False)
        self.read.weight = self.table.weight

    def forward(self, ids):
        return self.read(self.act(self.table(ids)).mean(1))

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)

    def forward(self, x, scale=None):
        scores = self.last(self.act(self.first(x)))
        return {"mine": scores if scale is None else scores * scale, "other": x}

number = 3
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine_to_measure.py").write_text(_MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine_to_measure", raising=False)
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    x = torch.randn(20, 4, generator=generator)
    rows = "".join(f"{a},{b},{-b},{a},{a > b}\n" for a, b in zip(range(20), range(20, 0, -1), strict=True))
    (tmp_path / "table.csv").write_text("a,b,c,d,label\n" + rows)
    np.savez(tmp_path / "words.npz", x=np.eye(4), y=np.array(["a", "b", "c", "d"]))
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    save_file({"x": x, "y": net(x).argmax(1)}, tmp_path / "data.safetensors")
    return tmp_path


_USUAL = ["measure", "net.safetensors", "--model", "mine_to_measure:build", "--data", "data.safetensors"]


def test_numbers_are_those_of_the_library(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call([*_USUAL, "--json", "--points", "12", "--radii", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).eval()
    net.load_state_dict(load_file(place / "net.safetensors"))
    x = load_file(place / "data.safetensors")["x"][:12]
    profile = ut.seam_profile(net, x)
    assert [row["seam"] for row in found["seams"]] == list(profile.seams)
    assert [row["co_correlation"] for row in found["seams"]] == pytest.approx(profile.co_correlation)
    assert found["samples"] == 12
    assert found["radii"]["samples"] == 3
    assert found["margins"]["share_right"] == 1.0
    assert set(found["ranks"]) == {"0.weight", "2.weight"}


def test_a_table_and_a_page_that_asks_for_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call([*_USUAL, "--html", "page.html", "--radii", "0", "--seam", "1"]) == 0
    out = capsys.readouterr().out
    assert "S(tail)" in out
    assert "2.weight" in out
    page = (place / "page.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    assert "src=" not in page


def test_random_inputs_and_decisions_in_place_of_labels(
    capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    del place
    assert call([*_USUAL[:-1], "random:4", "--json", "--points", "5", "--radii", "0"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["samples"] == 5
    assert "own decisions" in found["notes"][0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"--model": "mine_to_measure"}, "write package.module:function"),
        ({"--model": "no_such_thing_here:build"}, "cannot be imported"),
        ({"--model": "mine_to_measure:bild"}, "did you mean 'build'"),
        ({"--model": "mine_to_measure:needs"}, "must take no arguments"),
        ({"--model": "mine_to_measure:number"}, "must take no arguments"),
        ({"--data": "random:4xq"}, "write a shape as random:3x32x32"),
        ({"--data": "tokens:4"}, "with an embedding"),
        ({"--data": "random:5"}, "cannot take x of shape (1, 5)"),
        ({"--data": "random:2x3"}, "cannot take x of shape (1, 2, 3)"),
        ({"--data": "random:4", "--normalise": "centred"}, "--normalise is for data"),
        ({"--normalise": "centered"}, "did you mean 'centred'"),
        ({"--output": "logits"}, "--data does not fit"),
        ({"--data": "no-such-data"}, "no-such-data"),
        ({"--points": "0"}, "points must be 1 or more"),
        ({"--model": "mine_to_measure:breaks"}, "fails when it is called: KeyError: 'weights'"),
        ({"--data": "table.csv"}, "as --label NAME; did you mean 'label'?"),
        ({"--data": "table.csv", "--label": "lable"}, "did you mean 'label'?"),
        ({"--data": "random:4", "--label": "label"}, "--label is for tables"),
        ({"--label": "label"}, "--label is for tables"),
        ({"--data": "words.npz"}, "y does not hold numbers"),
    ],
)
def test_what_does_not_fit_is_a_sentence(
    place: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str], says: str
) -> None:
    del place
    words = [*_USUAL, "--radii", "0"]
    for option, value in changes.items():
        words = (
            [*words[: words.index(option) + 1], value, *words[words.index(option) + 2 :]]
            if option in words
            else [*words, option, value]
        )
    assert call(words) == 2
    assert says in capsys.readouterr().err.replace("\n", " ")


def test_files_of_arrays_and_tables(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = load_file(place / "data.safetensors")
    np.savez(place / "data.npz", x=held["x"].numpy().astype(">f8"), y=held["y"].numpy().astype(np.uint16))
    found = []
    for name in ("data.safetensors", "data.npz"):
        assert call([*_USUAL[:-1], name, "--json", "--radii", "0"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["seams"] == found[1]["seams"]
    assert found[1]["margins"]["share_right"] == 1.0
    assert call([*_USUAL[:-1], "table.csv", "--label", "label", "--json", "--radii", "0"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["samples"] == 4
    assert "a fifth of its rows" in table["notes"][0]


def test_an_adapter_of_peft_is_told_from_a_network(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "lora").mkdir()
    (place / "lora" / "adapter_config.json").write_text("{}")
    assert call(["measure", "lora", "--data", "random:4"]) == 2
    assert "merge_and_unload" in capsys.readouterr().err.replace("\n", "")


def test_a_pickle_and_other_weights_are_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"a": torch.ones(1)}, place / "net.pt")
    assert call(["measure", "net.pt", *_USUAL[2:]]) == 1
    assert "pickle" in capsys.readouterr().err
    save_file({"other": torch.ones(1)}, place / "net.safetensors")
    assert call(_USUAL) == 2
    assert "does not fit what mine_to_measure:build builds" in capsys.readouterr().err.replace("\n", " ")
    assert call(["measure", "net.safetensors", "--data", "random:4"]) == 2
    assert "give --model" in capsys.readouterr().err


def test_tokens_have_margins_and_radii_in_the_space_of_their_embedding(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = torch.Generator().manual_seed(0)
    layers: tuple[nn.Module, ...] = (nn.Embedding(7, 3), nn.Flatten(), nn.Linear(12, 5), nn.Tanh())
    net = nn.Sequential(*layers, nn.Linear(5, 3))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    save_file(net.state_dict(), place / "tokens.safetensors")
    ids = torch.randint(0, 7, (6, 4), generator=generator)
    save_file({"x": ids, "y": net(ids).argmax(1)}, place / "ids.safetensors")
    words = [
        "measure",
        "tokens.safetensors",
        "--model",
        "mine_to_measure:tokens",
        "--data",
        "ids.safetensors",
    ]
    assert call([*words, "--json", "--radii", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    best = net(ids).detach().topk(2).values
    assert found["margins"]["smallest"] == pytest.approx(float((best[:, 0] - best[:, 1]).min()), rel=1e-5)
    assert found["margins"]["normalised"] is not None
    assert found["radii"]["samples"] == 2
    assert 0 < found["radii"]["attacked_smallest"] < 100
    assert found["space"] == "the output of 0"


def test_a_page_that_cannot_be_written_takes_nothing_of_what_was_measured(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "taken").write_text("a file where a folder would have to be")
    assert call([*_USUAL, "--radii", "0", "--html", "taken/page.html"]) != 0
    told = capsys.readouterr()
    assert "S(net) =" in told.out
    assert "Written" not in told.out
    assert "cannot be" in told.err or "refuses" in told.err


def test_without_time_there_are_fewer_numbers_and_a_sentence_for_each(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no time for seams, the command answers with margins, and says what is missing."""
    del place
    monkeypatch.setattr("undertow.cli.measure._Clock.left", lambda _self, _name: 0.0)
    assert call([*_USUAL, "--json", "--radii", "2", "--html", "page.html"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seams"] == []
    assert found["energy"] is None
    assert found["radii"] is None
    told = " ".join(found["notes"])
    assert "No seams" in told
    assert "No attacks" in told
    assert "No ranks" in told


def test_seams_and_samples_are_as_many_as_the_time_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that only the profile moves, a second for each seam and a tenth for each sample of each."""
    now = 0.0

    def profile(_net: nn.Module, x: torch.Tensor, *, seams: list[str], rtol: float) -> SeamProfileResult:
        nonlocal now
        now += len(seams) * (1 + 0.1 * len(x))
        row = ut.collaboration(
            nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)), torch.ones(1, 1), seam="0", rtol=rtol
        )
        return SeamProfileResult((row,) * len(seams), row.energy, len(x), row.status)

    names, x = [str(place) for place in range(10)], torch.ones(32, 1)
    monkeypatch.setattr("undertow.cli.measured_seams.time.perf_counter", lambda: now)
    monkeypatch.setattr("undertow.cli.measured_seams.seam_profile", profile)
    for seconds, seams, samples in ((1000.0, 10, 32), (40.0, 10, 5), (8.0, 4, 2)):
        now = 0.0
        found, notes = profile_within(
            nn.Linear(1, 1), Samples(x), names, 0.01, seconds=seconds, at_most=seconds, say=lambda _: None
        )
        assert found is not None
        assert (len(found.rows), found.samples) == (seams, samples)
        assert now <= seconds
        assert len(notes) == (seams < 10) + (samples < 32)


def weights(net: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return net.eval()


def made(name: str) -> nn.Module:
    """What a function of the module in the folder builds, with weights as the test saves them."""
    return weights(getattr(importlib.import_module("mine_to_measure"), name)())


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert call(["measure", *words, "--json", "--radii", "0"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.usefixtures("place")
def test_pictures_are_given_as_rows_to_a_network_of_rows(capsys: pytest.CaptureFixture[str]) -> None:
    net = weights(nn.Sequential(nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 10)))
    save_file(net.state_dict(), "rows.safetensors")
    words = ("rows.safetensors", "--model", "mine_to_measure:rows", "--data", "digits", "--points", "8")
    for how, options in ((None, ()), ("centred", ("--normalise", "centred"))):
        found = told(capsys, *words, *options)
        digits = load("digits", split="test", limit=8, normalise=how)
        margins = ut.margins(net, digits.x.flatten(1), digits.y).value
        assert found["margins"]["smallest"] == pytest.approx(float(margins.min()), rel=1e-5)
        assert any("rows of 64 numbers" in note for note in found["notes"])
        assert any("from 0 to 1" in note for note in found["notes"]) == (how is None)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "module.module."])
def test_names_of_what_was_around_the_network_are_left_out(
    place: Path, capsys: pytest.CaptureFixture[str], prefix: str
) -> None:
    expected = told(capsys, *_USUAL[1:])
    save_file(
        {f"{prefix}{name}": weight for name, weight in load_file(place / "net.safetensors").items()},
        place / "net.safetensors",
    )
    found = told(capsys, *_USUAL[1:])
    assert found["seams"] == expected["seams"]


def test_weights_that_are_tied_are_saved_under_one_name(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = made("Tied")
    save_model(net, str(place / "tied.safetensors"))
    assert len(load_file(place / "tied.safetensors")) == 1
    ids = torch.randint(0, 7, (5, 4), generator=torch.Generator().manual_seed(0))
    save_file({"x": ids, "y": net(ids).argmax(1)}, place / "ids.safetensors")
    found = told(capsys, "tied.safetensors", "--model", "mine_to_measure:Tied", "--data", "ids.safetensors")
    best = net(ids).detach().topk(2).values
    assert found["margins"]["smallest"] == pytest.approx(float((best[:, 0] - best[:, 1]).min()), rel=1e-5)


def test_outputs_are_named_and_further_tensors_are_given_to_arguments(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = made("Two")
    save_file(net.state_dict(), place / "two.safetensors")
    x, scale = load_file(place / "data.safetensors")["x"], torch.arange(1.0, 21.0)[:, None]
    save_file({"x": x, "scale": scale, "number": torch.arange(20)}, place / "more.safetensors")
    words = ("two.safetensors", "--model", "mine_to_measure:Two", "--data", "more.safetensors")
    assert call(["measure", *words]) == 2
    assert "--output" in capsys.readouterr().err
    found = told(capsys, *words, "--output", "mine", "--points", "12")
    profile = ut.seam_profile(net, x[:12], output="mine", extras={"scale": scale[:12]})
    assert [row["co_correlation"] for row in found["seams"]] == pytest.approx(profile.co_correlation)
    assert found["samples"] == 12
    assert any("no argument number" in note for note in found["notes"])
