"""Pipes of tables: rows, several together, in another order."""

import random

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.dataframe import dataframe_wrapper
from rushlight.utils.data.datapipes.datapipe import DFIterDataPipe, IterDataPipe

__all__ = [
    "ConcatDataFramesPipe",
    "DataFramesAsTuplesPipe",
    "ExampleAggregateAsDataFrames",
    "FilterDataFramesPipe",
    "PerRowDataFramesPipe",
    "ShuffleDataFramesPipe",
]


def _rows(table):
    for row in range(dataframe_wrapper.get_len(table)):
        yield dataframe_wrapper.get_item(table, row)


def _together(tables, count):
    """Tables of the rows of so many, and of those that are left."""
    waiting = []
    for table in tables:
        waiting.append(table)
        if len(waiting) == count:
            yield dataframe_wrapper.concat(waiting)
            waiting = []
    if waiting:
        yield dataframe_wrapper.concat(waiting)


class _OfTables(DFIterDataPipe):
    """A pipe after another one."""

    def __init__(self, source_datapipe) -> None:
        super().__init__()
        self.source_datapipe = source_datapipe

    def _all_rows(self):
        """The rows of all tables, and how many the first has."""
        rows, size = [], None
        for table in self.source_datapipe:
            size = dataframe_wrapper.get_len(table) if size is None else size
            rows.extend(_rows(table))
        return rows, size


@functional_datapipe("_dataframes_as_tuples")
class DataFramesAsTuplesPipe(IterDataPipe):
    """The rows of tables as tuples."""

    def __init__(self, source_datapipe) -> None:
        super().__init__()
        self.source_datapipe = source_datapipe

    def __iter__(self):
        for table in self.source_datapipe:
            yield from dataframe_wrapper.iterate(table)


@functional_datapipe("_dataframes_per_row", enable_df_api_tracing=True)
class PerRowDataFramesPipe(_OfTables):
    """A table for each row."""

    def __iter__(self):
        for table in self.source_datapipe:
            yield from _rows(table)


@functional_datapipe("_dataframes_concat", enable_df_api_tracing=True)
class ConcatDataFramesPipe(_OfTables):
    """A table for several.

    Args:
        source_datapipe: the pipe before.
        batch: how many.
    """

    def __init__(self, source_datapipe, batch=3) -> None:
        super().__init__(source_datapipe)
        self.n_batch = batch

    def __iter__(self):
        yield from _together(self.source_datapipe, self.n_batch)


@functional_datapipe("_dataframes_shuffle", enable_df_api_tracing=True)
class ShuffleDataFramesPipe(_OfTables):
    """All rows in a random order, in tables as large as the first was."""

    def __iter__(self):
        rows, size = self._all_rows()
        random.shuffle(rows)
        yield from _together(rows, size)


@functional_datapipe("_dataframes_filter", enable_df_api_tracing=True)
class FilterDataFramesPipe(_OfTables):
    """The rows that a function wants, in tables as large as the first was.

    Args:
        source_datapipe: the pipe before.
        filter_fn: True or False for a row.
    """

    def __init__(self, source_datapipe, filter_fn) -> None:
        super().__init__(source_datapipe)
        self.filter_fn = filter_fn

    def __iter__(self):
        rows, size = self._all_rows()
        yield from _together((r for r in rows if self.filter_fn(r.iloc[0])), size)


@functional_datapipe("_to_dataframes_pipe", enable_df_api_tracing=True)
class ExampleAggregateAsDataFrames(_OfTables):
    """Samples as the rows of tables.

    Args:
        source_datapipe: the pipe before.
        dataframe_size: how many rows a table has.
        columns: their columns' names.
    """

    def __init__(self, source_datapipe, dataframe_size=10, columns=None) -> None:
        super().__init__(source_datapipe)
        self.columns = columns
        self.dataframe_size = dataframe_size

    def _as_list(self, item):
        try:
            return list(item)
        except TypeError:
            return [item]

    def __iter__(self):
        for batch in self.source_datapipe.batch(
            self.dataframe_size, wrapper_class=list
        ):
            rows = [self._as_list(item) for item in batch]
            yield dataframe_wrapper.create_dataframe(rows, columns=self.columns)
