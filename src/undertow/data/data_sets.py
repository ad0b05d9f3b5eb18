"""Data sets by name: what the section ``data`` of a configuration can be."""

from __future__ import annotations

from undertow.data.axis_clusters import AxisClustersData
from undertow.data.chebyshev import ChebyshevData
from undertow.data.clusters import ClustersData
from undertow.data.data_section import DataSection
from undertow.data.equal_cosines import EqualCosinesData
from undertow.data.fourier_sum import FourierSumData
from undertow.data.linear_map import LinearMapData
from undertow.data.lower_bound import LowerBoundData
from undertow.data.matrix_entries import MatrixEntriesData
from undertow.data.mixed_labels import MixedLabelsData
from undertow.data.mixture import MixtureData
from undertow.data.modular_addition import ModularAdditionData
from undertow.data.named_data import NamedData
from undertow.data.network_features import FeaturesData
from undertow.data.relabelled import RelabelledData
from undertow.data.separable import SeparableData
from undertow.data.separable_classes import SeparableClassesData
from undertow.data.sign_vectors import SignVectorsData
from undertow.data.slabs import SlabsData
from undertow.data.sparse_signs import SparseSignsData
from undertow.data.table_data import TableData

__all__ = ["DATA_SETS"]

DATA_SETS: tuple[type[DataSection], ...] = (
    MixtureData,
    EqualCosinesData,
    ClustersData,
    AxisClustersData,
    SlabsData,
    LowerBoundData,
    SeparableData,
    SeparableClassesData,
    SignVectorsData,
    ChebyshevData,
    LinearMapData,
    FourierSumData,
    MatrixEntriesData,
    ModularAdditionData,
    SparseSignsData,
    FeaturesData,
    RelabelledData,
    MixedLabelsData,
    NamedData,
    TableData,
)
"""A new data set is a file in this folder and a line here; one with files is an entry in ``data/catalogue.py``."""
