"""Pipes of data: data sets made of one another, one step at a time."""

from rushlight.utils.data.datapipes import dataframe as dataframe
from rushlight.utils.data.datapipes import iter, map

__all__ = ["iter", "map"]
