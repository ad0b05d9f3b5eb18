"""The store: any flipped byte is found, nothing half-written is seen, a full disk harms nothing."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.execution.sweeps import fingerprint, flip, tiny_study
from undertow.core.canonical import seal, unseal
from undertow.core.errors import StoreError
from undertow.core.tensor_files import pack, unpack
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.probe.records import Record, decode, encode
from undertow.store.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("store"))
    study = tiny_study(grid={"std": [0.01, 1.0]}, training={"learning_rate": 0.05, "epochs": 3})
    assert sweep(store, study, engine=Here()).complete
    return store


def test_every_flipped_byte_of_a_trial_is_found_and_its_file_named(store: Store) -> None:
    chance = random.Random(0)
    for trial in store.finished():
        for path in sorted(store.folder(trial).iterdir()):
            size = path.stat().st_size
            # Every byte of the small files; of the large ones the ends and a sample.
            positions = range(size) if size < 200 else {0, size - 1, *chance.choices(range(size), k=60)}
            for position in positions:
                bit = chance.randrange(8)
                flip(path, position, bit=bit)
                with pytest.raises(StoreError) as caught:
                    store.trial(trial)
                assert str(path) in str(caught.value)
                flip(path, position, bit=bit)
        assert store.trial(trial).id == trial


def test_every_flipped_byte_of_a_study_is_found_and_mended(store: Store) -> None:
    (stored,) = store.studies()
    label = stored.label
    path = store.path / "studies" / f"{label}.json"
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(StoreError, match=str(path)):
            unseal(bytes(damaged), path)
    flip(path, 100)
    assert store.study(label) == stored
    assert path.read_bytes() == whole
    copy = path.with_suffix(".copy")
    flip(path, 100)
    flip(copy, 50)
    with pytest.raises(StoreError, match="damaged"):
        store.study(label)
    path.write_bytes(whole)
    assert store.study(label) == stored


def test_missing_and_foreign_files_are_found(store: Store) -> None:
    trial = store.finished()[0]
    folder = store.folder(trial)
    weights = (folder / "weights.safetensors").read_bytes()
    (folder / "weights.safetensors").unlink()
    with pytest.raises(StoreError, match=r"weights\.safetensors is missing"):
        store.trial(trial)
    (folder / "weights.safetensors").write_bytes(weights)
    (folder / "notes.txt").touch()
    with pytest.raises(StoreError, match=r"notes\.txt does not belong"):
        store.trial(trial)
    (folder / "notes.txt").unlink()
    folder.rename(folder.with_name("0" * 16))
    with pytest.raises(StoreError, match="another trial than its name says"):
        store.trial("0" * 16)
    folder.with_name("0" * 16).rename(folder)
    assert store.trial(trial).id == trial


def test_sealed_documents_survive_only_whole() -> None:
    path = Path("x.json")
    data = seal({"a": 1.5, "b": [True, None]})
    assert unseal(data, path) == {"a": 1.5, "b": [True, None]}
    for wrong in (data[:-1], data + b" ", b"", b"[]", b"null", b"{}", data.replace(b"1.5", b"1.50")):
        with pytest.raises(StoreError):
            unseal(wrong, path)


@pytest.mark.parametrize("value", [0.1, -0.0, 1e-320, 3, float("inf"), float("-inf")])
def test_records_survive_the_round_trip(value: float) -> None:
    record = Record("t", 1, 0, "m", "k", value, abs(value))
    assert decode(encode(record)) == record


def test_not_a_number_survives_too() -> None:
    assert str(decode(encode(Record("t", 1, 0, "m", "k", float("nan")))).value) == "nan"


@pytest.mark.parametrize("kind", ["pickle", "torch.save"])
def test_a_pickle_is_refused_with_a_sentence(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    trap = tmp_path / "trap"

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(trap),)

    if kind == "pickle":
        path.write_bytes(pickle.dumps(Trap()))
    else:
        torch.save(Trap(), path)
    with pytest.raises(StoreError, match=r"pickle.*, which can run any code when loaded, so it is not: save"):
        unpack(path.read_bytes(), path)
    assert not trap.exists()


def test_weights_survive_and_broken_ones_are_told() -> None:
    path = Path("net.safetensors")
    weights = {"b": torch.arange(3.0), "a": torch.ones(2, 2, dtype=torch.float64).T}
    packed = pack(weights)
    assert pack(dict(reversed(weights.items()))) == packed
    for name, tensor in unpack(packed, path).items():
        assert torch.equal(tensor, weights[name])
    with pytest.raises(StoreError, match="not a whole safetensors file"):
        unpack(packed[:-1], path)


_SWEEP = """
import sys, torch
torch.set_num_threads(1)
from tests.execution.sweeps import tiny_study
from undertow.core.errors import StoreError
from undertow.execution.engines.here import Here
from undertow.store.store import Store
from undertow.execution.sweep import sweep
try:
    outcome = sweep(Store(sys.argv[1]), tiny_study(), engine=Here(checkpoint_seconds=0.01))
    print(outcome.finished, *outcome.notes, sep="\\n")
except StoreError as error:
    print("refused", error, sep="\\n")
"""


def _sweep_on(mount: str, target: Path, before: str = "", after: str = "") -> list[str]:
    """Sweep in a folder with a small or read-only file system of its own, in a private mount namespace."""
    script = f'mount {mount} {target} && {before} "$0" -c "$1" {target} {after}'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, sys.executable, _SWEEP],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this system lets no one mount a small file system")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_full_disk_ends_in_a_sentence_and_an_intact_store(tmp_path: Path) -> None:
    small, kept = tmp_path / "small", tmp_path / "kept"
    small.mkdir()
    kept.mkdir()
    finished, *notes = _sweep_on("-t tmpfs -o size=330k none", small, after=f"&& cp -r {small}/. {kept}")
    assert 0 < int(finished) < 12
    assert all("the disk is full: free some space, then go on" in note for note in notes)
    assert len(fingerprint(Store(kept))) == int(finished)
    study = tiny_study()
    assert sweep(Store(kept), study, engine=Here()).complete


def test_a_read_only_folder_ends_in_a_sentence(tmp_path: Path) -> None:
    lines = _sweep_on("-t tmpfs -o ro none", tmp_path)
    assert lines[0] == "refused"
    assert "the file system is read-only: choose a folder that can be written" in lines[1]
