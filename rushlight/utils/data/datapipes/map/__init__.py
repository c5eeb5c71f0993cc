"""Pipes of samples by index."""

from rushlight.utils.data.datapipes.map.callable import MapperMapDataPipe as Mapper
from rushlight.utils.data.datapipes.map.combinatorics import (
    ShufflerIterDataPipe as Shuffler,
)
from rushlight.utils.data.datapipes.map.combining import ConcaterMapDataPipe as Concater
from rushlight.utils.data.datapipes.map.combining import ZipperMapDataPipe as Zipper
from rushlight.utils.data.datapipes.map.grouping import BatcherMapDataPipe as Batcher
from rushlight.utils.data.datapipes.map.utils import (
    SequenceWrapperMapDataPipe as SequenceWrapper,
)

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
