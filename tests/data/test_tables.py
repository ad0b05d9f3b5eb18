from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from undertow.core.errors import DataError, InputError, UndertowError
from undertow.data import load
from undertow.data.tables import read_table

CSV = """kind,a,note,b
sick,1.5,x,10
well,2.5,y,20
,3.5,z,30
sick,4.5,x,40
well,5.5,,50
"""


def test_csv_by_hand() -> None:
    table = read_table(CSV.encode(), name="t.csv", label="kind")
    assert table.classes == ("sick", "well")
    assert table.y.tolist() == [0, 1, 0, 1]
    assert table.features == ("a", "b")
    assert table.x.tolist() == [[1.5, 10], [2.5, 20], [4.5, 40], [5.5, 50]]
    assert table.row.tolist() == [0, 1, 3, 4]  # the row without a label is left out


def test_features_by_name_and_pattern() -> None:
    content = b"y,gene1,age,gene2\n0,1,50,2\n1,3,60,4\n0,5,70,6\n1,7,80,8\n"
    table = read_table(content, name="t.csv", label="y", features=["gene*"])
    assert table.features == ("gene1", "gene2")
    assert table.others["age"].tolist() == [50, 60, 70, 80]
    with pytest.raises(InputError, match="did you mean 'gene1'"):
        read_table(content, name="t.csv", label="y", features=["gene11"])


def test_labels_are_ordered_as_numbers_where_they_are_numbers() -> None:
    content = "y,a\n" + "".join(f"{label},0.5\n" for label in ["10", "9", "2.0", "10", "9", "2"])
    table = read_table(content.encode(), name="t.csv", label="y")
    assert table.classes == ("2", "9", "10")
    assert table.y.tolist() == [2, 1, 0, 2, 1, 0]


def test_the_three_formats_agree(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3)).round(3)
    y = np.arange(30) % 2
    frame = polars.DataFrame({"y": y, **{f"g{j}": x[:, j] for j in range(3)}})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", X=x, y=y)
    loaded = [load(tmp_path / f"t.{suffix}", label="y") for suffix in ("csv", "parquet", "npz")]
    assert len({data.checksum for data in loaded}) == 1
    assert loaded[0].x.shape == (24, 3)
    row = loaded[0].details["row"]
    assert np.allclose(loaded[0].x.numpy(), x[row.numpy()].astype(np.float32))


def test_parquet_with_text_and_gaps() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {"y": ["a", "b", None, "a", "b"], "g": [1, 2, 3, 4, 5], "ok": [True, False] * 2 + [True]}
    )
    stream = io.BytesIO()
    frame.write_parquet(stream)
    table = read_table(stream.getvalue(), name="t.parquet", label="y")
    assert table.classes == ("a", "b")
    assert table.x.tolist() == [[1, 1], [2, 0], [4, 0], [5, 1]]


def test_pickles_are_refused(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "exploded",))  # type: ignore[return-value]

    with pytest.raises(DataError, match="never loads one"):
        read_table(pickle.dumps(1), name="t.pkl", label="y")
    stream = io.BytesIO()
    np.savez(stream, X=np.zeros((2, 2)), y=np.array([Bomb(), 1], dtype=object))
    with pytest.raises(DataError, match="pickled objects are refused"):
        read_table(stream.getvalue(), name="t.npz", label="y")
    with pytest.raises(DataError, match="pickled objects are refused"):
        read_table(pickle.dumps(Bomb()), name="t.npz", label="y")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("content", "label", "said"),
    [
        (CSV, None, "say which column"),
        (CSV, "kinds", "did you mean 'kind'"),
        ("y,a\n0,1\n", "y", "1 class"),
        ("y,a\n0,1\n1\n", "y", "record 3 has 1 fields"),
        ("y,a,a\n0,1,1\n", "y", "two columns called 'a'"),
        ("y,a\n0,1\n1,\n", "y", "'a' has 1 missing"),
        ("y,a\n0,x\n1,z\n", "y", "no numeric column"),
        ("y\n", "y", "empty"),
        ("y,a\n" + "".join(f"{i},1\n" for i in range(20)), "y", "does not look like classes"),
    ],
)
def test_what_is_wrong_is_said(content: str, label: str | None, said: str) -> None:
    with pytest.raises(UndertowError, match=said):
        read_table(content.encode(), name="t.csv", label=label)


@given(content=st.binary(max_size=80), suffix=st.sampled_from(["csv", "npz", "parquet", "txt"]))
def test_rubbish_is_one_clear_error(content: bytes, suffix: str) -> None:
    with pytest.raises(UndertowError):
        read_table(content, name=f"t.{suffix}", label="y")


def patients(path: Path) -> None:
    """A file in the layout of neuroblastoma: 251 patients, of whom 64 had an event, 140 had none, 47 are not known."""
    outcome = ["0"] * 64 + ["1"] * 140 + [""] * 47
    rng = np.random.default_rng(1)
    lines = ["patient,Event-free," + ",".join(f"r{j}" for j in range(10_707))]
    lines += [
        f"NB{row},{outcome[row]}," + ",".join(map(str, rng.integers(-9, 10, 10_707)))
        for row in rng.permutation(251)
    ]
    path.write_text("\n".join(lines))


def test_patients_that_were_lost_from_sight(tmp_path: Path) -> None:
    patients(tmp_path / "neuroblastoma.csv")
    known = load("neuroblastoma", folder=tmp_path, split="all")
    assert known.x.shape == (204, 10_707)
    assert torch.bincount(known.labels).tolist() == [64, 140]
    lost = set(range(251)) - set(known.details["row"].tolist())
    hoped = load("neuroblastoma", folder=tmp_path, split="all", unlabelled_as="event-free")
    assert torch.bincount(hoped.labels).tolist() == [64, 187]
    rows = dict(zip(hoped.details["row"].tolist(), hoped.labels.tolist(), strict=True))
    assert len(lost) == 47
    assert {rows[row] for row in lost} == {1}


def test_what_is_wrong_with_a_table_of_patients(tmp_path: Path) -> None:
    (tmp_path / "neuroblastoma.csv").write_text("Event-free,r1\n0,1\n1,2\n0,3\n1,4\n")
    with pytest.raises(DataError, match="neuroblastoma has 10,707"):
        load("neuroblastoma", folder=tmp_path)
    columns = ",".join(f"r{j}" for j in range(10_707))
    ones = ",".join(["1"] * 10_707)
    (tmp_path / "neuroblastoma.csv").write_text(
        f"Event-free,{columns}\n" + "".join(f"{word},{ones}\n" for word in ("yes", "no", "no", "yes", ""))
    )
    with pytest.raises(
        InputError, match="cannot be of the class '1': the classes of 'Event-free' are 'no', 'yes'"
    ):
        load("neuroblastoma", folder=tmp_path, unlabelled_as="event-free")
    assert len(load("neuroblastoma", folder=tmp_path, split="all", unlabelled_as="yes")) == 5
    with pytest.raises(InputError, match="not a table: label, features, unlabelled_as and sha256"):
        load("digits", unlabelled_as="event")


def test_lymphoma_patients_by_time_and_event(data_folder: Path) -> None:
    known = load("dlbcl", folder=data_folder, download=False, split="all")
    time, event = known.details["time"], known.details["event"].bool()
    assert len(known) == 227
    assert torch.equal(known.labels == 1, time > 3)  # alive after three years
    assert bool(event[known.labels == 0].all())
    for outcome, label in (("event", 0), ("event-free", 1)):
        everyone = load("dlbcl", folder=data_folder, download=False, split="all", unlabelled_as=outcome)
        added = ~torch.isin(everyone.details["row"], known.details["row"])
        assert (len(everyone), int(added.sum())) == (240, 13)
        assert bool((everyone.labels[added] == label).all())
        # They left alive before three years were over: either label is a guess.
        assert not bool(everyone.details["event"][added].any())
        assert float(everyone.details["time"][added].max()) < 3


def test_rows_without_a_label_as_a_class() -> None:
    table = read_table(CSV.encode(), name="t.csv", label="kind", unlabelled_as="well")
    assert table.y.tolist() == [0, 1, 1, 0, 1]
    with pytest.raises(InputError, match="class 'healthy'"):
        read_table(CSV.encode(), name="t.csv", label="kind", unlabelled_as="healthy")


def test_columns_in_any_units_are_standardised_before_they_are_rounded(tmp_path: Path) -> None:
    """In float32 10⁷ + noise is a handful of numbers, 10³⁰⁰ none, and the square of 10⁻³⁰⁰ is zero."""
    noise = np.random.default_rng(0).normal(size=50)
    columns = {
        "a": noise,
        "far": 1e7 + noise,
        "huge": 1e300 * noise,
        "tiny": 1e-300 * noise,
        "same": 0.1 + 0 * noise,
    }
    rows = [",".join(map(repr, map(float, row))) for row in zip(*columns.values(), strict=True)]
    lines = [f"{row},{i % 2}" for i, row in enumerate(rows)]
    (tmp_path / "t.csv").write_text("\n".join([",".join([*columns, "y"]), *lines]))
    found = load(tmp_path / "t.csv", label="y", normalise="standardised").x
    expected = noise[load(tmp_path / "t.csv", label="y", features=["a"]).details["row"].numpy()]
    expected = torch.tensor((expected - expected.mean()) / expected.std(), dtype=torch.float32)
    for column, tolerance in enumerate([1e-6, 1e-6, 1e-6, 1e-6]):
        torch.testing.assert_close(found[:, column], expected, rtol=0, atol=tolerance)
    assert not found[:, 4].any()
    with pytest.raises(DataError, match="float32 cannot hold: ask for normalise = 'standardised'"):
        load(tmp_path / "t.csv", label="y")


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_row_numbers_are_not_learned_from(name: str, caplog: pytest.LogCaptureFixture) -> None:
    content = f"{name},a,y\n0,1.5,u\n1,2.5,v\n2,3.5,u\n3,4.5,v\n".encode()
    table = read_table(content, name=f"index{len(name)}.csv", label="y")
    assert table.features == ("a",)
    assert "it looks like row numbers (it begins with 0, 1, 2)" in caplog.text
    if name:
        assert read_table(content, name="t.csv", label="y", features=["*"]).features == (name, "a")


@pytest.mark.parametrize(("separator", "word"), [(";", "semicolons"), ("\t", "tabs")])
def test_other_separators_are_named(separator: str, word: str) -> None:
    rows = [["a", "b", "y"], ["1,5", "2,5", "u"], ["3,5", "4,5", "v"]]
    content = "\n".join(separator.join(row) for row in rows).encode()
    with pytest.raises(DataError, match=f"is separated by {word} .* with commas and decimal points"):
        read_table(content, name="t.csv", label="y")
