"""Data: samplers of the papers' distributions, and loaders of real data with checksums.

Names are imported on first use, so that listing data sets does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same table as below, for type checkers and editors
    from undertow.core.near_orthogonality import feature_correlation as feature_correlation
    from undertow.core.near_orthogonality import near_orthogonality as near_orthogonality
    from undertow.data.clusters import by_cluster as by_cluster
    from undertow.data.clusters import cluster_centres as cluster_centres
    from undertow.data.clusters import d_binary as d_binary
    from undertow.data.dataset import Dataset as Dataset
    from undertow.data.dataset import content_checksum as content_checksum
    from undertow.data.loading import load as load
    from undertow.data.local import FileState as FileState
    from undertow.data.local import State as State
    from undertow.data.local import cache_folder as cache_folder
    from undertow.data.mixture import kou_mixture as kou_mixture
    from undertow.data.normalisation import NORMALISATIONS as NORMALISATIONS
    from undertow.data.normalisation import normalise as normalise
    from undertow.data.sources import DatasetInfo as DatasetInfo
    from undertow.data.sources import available as available
    from undertow.data.sources import check as check
    from undertow.data.sources import fetch as fetch
    from undertow.data.tasks import TASKS as TASKS
    from undertow.data.tasks import halves as halves
    from undertow.data.tasks import parity as parity
    from undertow.data.tasks import relabel as relabel

_WHERE = {
    # A data set in memory
    "Dataset": "undertow.data.dataset",
    "content_checksum": "undertow.data.dataset",
    "near_orthogonality": "undertow.core.near_orthogonality",
    "feature_correlation": "undertow.core.near_orthogonality",
    # Real data
    "load": "undertow.data.loading",
    "normalise": "undertow.data.normalisation",
    "NORMALISATIONS": "undertow.data.normalisation",
    "parity": "undertow.data.tasks",
    "halves": "undertow.data.tasks",
    "relabel": "undertow.data.tasks",
    "TASKS": "undertow.data.tasks",
    # What configurations can ask for
    "DATA_SETS": "undertow.data.data_sets",
    "DataSection": "undertow.data.data_section",
    # The papers' distributions
    "kou_mixture": "undertow.data.mixture",
    "d_binary": "undertow.data.clusters",
    "cluster_centres": "undertow.data.clusters",
    "by_cluster": "undertow.data.clusters",
    # What is on this machine, and how to get the rest
    "available": "undertow.data.sources",
    "check": "undertow.data.sources",
    "fetch": "undertow.data.sources",
    "DatasetInfo": "undertow.data.sources",
    "FileState": "undertow.data.local",
    "State": "undertow.data.local",
    "cache_folder": "undertow.data.local",
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'undertow.data' has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
