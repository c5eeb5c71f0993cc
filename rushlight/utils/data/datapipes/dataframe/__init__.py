"""Pipes of tables, pandas' or those of a wrapper that is set."""

from rushlight.utils.data.datapipes.dataframe.dataframes import (
    CaptureDataFrame,
    DFIterDataPipe,
)
from rushlight.utils.data.datapipes.dataframe.datapipes import DataFramesAsTuplesPipe

__all__ = ["CaptureDataFrame", "DFIterDataPipe", "DataFramesAsTuplesPipe"]
