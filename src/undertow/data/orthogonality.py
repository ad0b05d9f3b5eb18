"""How nearly orthogonal data sets are that are known by name: as it was measured, or of the user's copy now."""

from __future__ import annotations

from undertow.core.near_orthogonality import NearOrthogonality, feature_correlation, near_orthogonality
from undertow.data.catalogue import CatalogueEntry
from undertow.data.sources import obtain
from undertow.data.splits import stratified_split
from undertow.data.tables import read_table

__all__ = ["FEATURE_CORRELATIONS", "MEASURED", "known_orthogonality"]

MEASURED: dict[str, NearOrthogonality] = {
    "digits": NearOrthogonality(2.653e-4, 9.840e-5, 8.259e-4, 0.6899, 1_438),
    "mnist": NearOrthogonality(8.460e-7, 3.653e-8, 2.425e-5, 0.4002, 60_000),
    "fashion-mnist": NearOrthogonality(1.566e-7, 1.384e-9, 5.609e-6, 0.5918, 60_000),
    "cifar10": NearOrthogonality(1.804e-7, 1.622e-9, 5.877e-6, 0.8142, 50_000),
    "autism": NearOrthogonality(1.850e-3, 2.565e-4, 7.230e-3, 0.9105, 83),
    "dlbcl": NearOrthogonality(2.577e-3, 6.498e-4, 2.583e-2, 0.1275, 182),
}
"""Of data sets that checksums fix: their training split as it is loaded, without normalisation."""

FEATURE_CORRELATIONS: dict[str, float] = {
    "digits": 0.1240,
    "mnist": 0.0508,
    "fashion-mnist": 0.2137,
    "cifar10": 0.2502,
    "autism": 0.3738,
    "dlbcl": 0.1428,
}
"""``feature_correlation`` of the same; no affine map changes it."""


def known_orthogonality(entry: CatalogueEntry) -> tuple[NearOrthogonality, float] | None:
    """The numbers of a data set that is here, and its features' correlation; all of the training split.

    They were measured once where checksums fix the content; of a table of the user's own they are measured now.
    """
    if entry.name in MEASURED:
        return MEASURED[entry.name], FEATURE_CORRELATIONS[entry.name]
    if entry.form != "table":
        return None
    name, content = next(iter(obtain(entry, entry.files, download=False).items()))
    table = read_table(
        content, name=name, label=entry.label, features=entry.features, unlabelled=entry.unlabelled
    )
    trained_on = table.x[stratified_split(table.y)[0]]
    return near_orthogonality(trained_on), feature_correlation(trained_on)
