"""Data sets, the order they are read in, and batches made by worker processes."""

from rushlight.utils.data.collate import default_collate, default_convert
from rushlight.utils.data.dataloader import DataLoader
from rushlight.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from rushlight.utils.data.distributed import DistributedSampler
from rushlight.utils.data.info import get_worker_info
from rushlight.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from rushlight.utils.data.dataloader import _DatasetKind as _DatasetKind

# Pipes come with two dozen modules, which most programs do without.
_OF_PIPES = {
    "DFIterDataPipe": "datapipe",
    "DataChunk": "datapipe",
    "IterDataPipe": "datapipe",
    "MapDataPipe": "datapipe",
    "argument_validation": "_decorator",
    "functional_datapipe": "_decorator",
    "guaranteed_datapipes_determinism": "_decorator",
    "non_deterministic": "_decorator",
    "runtime_validation": "_decorator",
    "runtime_validation_disabled": "_decorator",
}
_MODULES = ("datapipes", "graph", "graph_settings")


def __getattr__(name):
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _OF_PIPES:
        import_module(f"{__name__}.datapipes")  # gives pipes their methods
        module = import_module(f"{__name__}.datapipes.{_OF_PIPES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DFIterDataPipe",
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "argument_validation",
    "default_collate",
    "default_convert",
    "functional_datapipe",
    "get_worker_info",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "random_split",
    "runtime_validation",
    "runtime_validation_disabled",
]
