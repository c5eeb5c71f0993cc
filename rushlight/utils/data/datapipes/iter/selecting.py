"""Some of the samples."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.dataframe import dataframe_wrapper
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.utils.common import (
    StreamWrapper,
    _check_unpickable_fn,
    chosen,
    validate_input_col,
)

__all__ = ["FilterIterDataPipe"]

T_co = TypeVar("T_co", covariant=True)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[T_co]):
    """The samples that a function wants.

    Args:
        datapipe: the pipe before.
        filter_fn: True or False for a sample, or for columns of it; of a table, a column
            of them for its rows.
        input_col: which columns it takes; None gives it the sample.

    >>> words = rl.utils.data.datapipes.iter.IterableWrapper(["a", "B", "c"])
    >>> list(words.filter(str.islower))
    ['a', 'c']
    """

    datapipe: IterDataPipe[T_co]
    filter_fn: Callable

    def __init__(
        self, datapipe: IterDataPipe[T_co], filter_fn: Callable, input_col=None
    ) -> None:
        super().__init__()
        self.datapipe = datapipe
        _check_unpickable_fn(filter_fn)
        self.filter_fn = filter_fn
        self.input_col = input_col
        validate_input_col(filter_fn, input_col)

    def __iter__(self) -> Iterator[T_co]:
        for data in self.datapipe:
            wanted, kept = self._returnIfTrue(data)
            if wanted:
                yield kept
            else:
                StreamWrapper.close_streams(data)

    def _returnIfTrue(self, data):
        wanted = self.filter_fn(*chosen(data, self.input_col))
        if dataframe_wrapper.is_column(wanted):
            rows = [
                dataframe_wrapper.get_item(data, row)
                for row, each in enumerate(dataframe_wrapper.iterate(wanted))
                if each
            ]
            return bool(rows), dataframe_wrapper.concat(rows) if rows else None
        if not isinstance(wanted, bool):
            raise ValueError(
                "Boolean output is required for `filter_fn` of FilterIterDataPipe, got",
                type(wanted),
            )
        return wanted, data
