"""``undertow measure``: one checkpoint, its table, its JSON and its page; what does not fit is a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import undertow as ut
from undertow.cli.command import call
from undertow.cli.measured_seams import profile_within
from undertow.measures.seam_profile import SeamProfileResult

_MODEL = """
from torch import nn

def build():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))

def tokens():
    return nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 3))

def needs(width):
    return nn.Linear(width, 1)

number = 3
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine_to_measure.py").write_text(_MODEL)
    monkeypatch.chdir(tmp_path)
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    x = torch.randn(20, 4, generator=generator)
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    save_file({"x": x, "y": net(x).argmax(1)}, tmp_path / "data.safetensors")
    return tmp_path


_USUAL = ["measure", "net.safetensors", "--model", "mine_to_measure:build", "--data", "data.safetensors"]


def test_numbers_are_those_of_the_library(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call([*_USUAL, "--json", "--points", "12", "--radii", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).eval()
    from safetensors.torch import load_file

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
        ({"--data": "no-such-data"}, "no-such-data"),
        ({"--points": "0"}, "points must be 1 or more"),
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
            nn.Linear(1, 1), x, names, 0.01, seconds=seconds, at_most=seconds, say=lambda _: None
        )
        assert found is not None
        assert (len(found.rows), found.samples) == (seams, samples)
        assert now <= seconds
        assert len(notes) == (seams < 10) + (samples < 32)
