"""One finished trial: what its folder holds, before it is published and after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.core.canonical import digest, dumps, seal
from undertow.core.errors import StoreError
from undertow.probe.records import Record
from undertow.store.kept_network import KeptNetwork, kept_networks
from undertow.store.record_files import parse

if TYPE_CHECKING:
    from torch import Tensor

    from undertow.adversary.examples import Examples
    from undertow.config.trial import TrialConfig

__all__ = ["FinishedTrial", "StoredTrial", "with_manifest"]


@dataclass(frozen=True)
class StoredTrial:
    """A finished trial whose checksums were verified."""

    id: str
    files: Mapping[str, bytes]

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved configuration, as it was written: ``TrialConfig`` is what it can be validated by."""
        document: dict[str, Any] = json.loads(self.files["config.json"])
        return document

    @property
    def status(self) -> dict[str, Any]:
        """How it ended: ``status`` is "finished" or "diverged", with ``step`` and ``reason``."""
        document: dict[str, Any] = json.loads(self.files["status.json"])
        return document

    @property
    def provenance(self) -> dict[str, Any]:
        """Code, packages, hardware, seeds, data checksum, cost."""
        document: dict[str, Any] = json.loads(self.files["provenance.json"])
        return document

    @property
    def records(self) -> list[Record]:
        """What was measured."""
        return parse(self.files["records.jsonl"], Path(self.id) / "records.jsonl")

    @property
    def weights(self) -> dict[str, Tensor]:
        """The trained network's parameters; a ``StoreError`` where the trial was run without keeping them."""
        from undertow.core.tensor_files import unpack  # torch: only whoever asks for tensors waits for it

        if "weights.safetensors" not in self.files:
            raise StoreError(
                f"trial {self.id} was run without keeping its weights (--no-weights), only its records: "
                "run it in another folder to have them."
            )
        return unpack(self.files["weights.safetensors"], Path(self.id) / "weights.safetensors")

    @property
    def kept(self) -> list[KeptNetwork]:
        """The networks on the way that the probe's ``keep`` asked for, in the order of their steps."""
        return kept_networks(self.id, self.files)

    @property
    def examples(self) -> Examples | None:
        """Points and their closest adversarial examples, where the trial was told to keep some."""
        from undertow.adversary.examples import read_examples  # torch too

        name = "examples.safetensors"
        return read_examples(self.files[name], Path(self.id) / name) if name in self.files else None


@dataclass(frozen=True)
class FinishedTrial:
    """A trial to be published: what its folder will hold."""

    config: TrialConfig
    records: bytes
    weights: bytes | None
    status: Mapping[str, Any]
    provenance: Mapping[str, Any]
    examples: bytes | None = None
    kept: Mapping[str, bytes] = field(default_factory=dict)

    def files(self) -> dict[str, bytes]:
        """The folder's files, the manifest with their checksums included."""
        files = {
            "config.json": dumps(self.config.model_dump(mode="json")),
            "provenance.json": dumps(self.provenance),
            "records.jsonl": self.records,
            "status.json": dumps(self.status),
        }
        if self.weights is not None:
            files["weights.safetensors"] = self.weights
        if self.examples is not None:
            files["examples.safetensors"] = self.examples
        files |= self.kept
        return with_manifest(files, self.config.digest)


def with_manifest(files: Mapping[str, bytes], trial: str) -> dict[str, bytes]:
    """The files of a trial's folder and the manifest that vouches for them; ``trial`` is its configuration's digest."""
    checksums = {name: digest(data) for name, data in files.items()}
    return {**files, "manifest.json": seal({"trial": trial, "files": checksums})}
