"""Batches of tables."""

from collections.abc import Iterator
from typing import Any

from rushlight.utils.data.datapipes.dataframe import dataframe_wrapper
from rushlight.utils.data.datapipes.datapipe import DataChunk

__all__ = ["DataChunkDF"]


class DataChunkDF(DataChunk):
    """Tables whose rows are the samples; ``raw_iterator`` gives the tables."""

    def __iter__(self) -> Iterator[Any]:
        for table in self.items:
            yield from dataframe_wrapper.iterate(table)

    def __len__(self) -> int:
        return sum(dataframe_wrapper.get_len(table) for table in self.items)
