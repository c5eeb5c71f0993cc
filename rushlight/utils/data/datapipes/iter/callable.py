"""Functions of each sample."""

import functools
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import TypeVar

from rushlight.utils.data.collate import default_collate
from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.dataframe import dataframe_wrapper
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.utils.common import (
    _check_unpickable_fn,
    chosen,
    length_of,
    validate_input_col,
)

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]

T_co = TypeVar("T_co", covariant=True)


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[T_co]):
    """A function of each sample, or of columns of it.

    Args:
        datapipe: the pipe before.
        fn: the function.
        input_col: which columns it takes; None gives it the sample.
        output_col: where its result goes, -1 at the end; the first column it takes where
            left out, and the others it takes are left out.

    Raises:
        ValueError: the function does not take so many, or there are several places for
            its result.

    >>> pairs = rl.utils.data.datapipes.iter.IterableWrapper([(1, 2), (3, 4)])
    >>> list(pairs.map(max, input_col=[0, 1], output_col=-1))
    [(1, 2, 2), (3, 4, 4)]
    """

    datapipe: IterDataPipe
    fn: Callable

    def __init__(
        self, datapipe: IterDataPipe, fn: Callable, input_col=None, output_col=None
    ) -> None:
        super().__init__()
        self.datapipe = datapipe
        _check_unpickable_fn(fn)
        self.fn = fn
        self.input_col = input_col
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.output_col = output_col
        validate_input_col(fn, input_col)

    def _apply_fn(self, data):
        made = self.fn(*chosen(data, self.input_col))
        if self.input_col is None:
            return made
        row = list(data) if isinstance(data, tuple) else data
        if self.output_col == -1:
            row.append(made)
        elif self.output_col is not None:
            row[self.output_col] = made
        elif isinstance(self.input_col, (list, tuple)):
            first, *others = self.input_col
            row[first] = made
            for column in sorted(others, reverse=True):
                del row[column]
        else:
            row[self.input_col] = made
        return tuple(row) if isinstance(data, tuple) else row

    def __iter__(self) -> Iterator[T_co]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


def _collate_table(conversion, batch):
    """The columns of a batch that is one table, each by its own function."""
    if len(batch.items) > 1:
        raise RuntimeError("Only supports one DataFrame per batch")
    table = batch[0] if not hasattr(batch, "raw_iterator") else batch.items[0]
    names = dataframe_wrapper.get_columns(table)
    if any(name not in names for name in conversion):
        raise RuntimeError("Conversion keys mismatch")
    values = []
    for name in names:
        if name not in conversion:
            raise RuntimeError(
                f"Collate (DF)DataPipe has no function for the column {name!r}: pass one "
                "for each column"
            )
        if not callable(conversion[name]):
            raise RuntimeError("Collate (DF)DataPipe requires callable as dict values")
        values.append(conversion[name](table[name]))
    made = namedtuple("CollateResult", [str(name) for name in names])
    return made(*values)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Each batch joined into tensors.

    Args:
        datapipe: the pipe before, of batches.
        conversion: what joins them; or of each column of a table.
        collate_fn: another name for that.

    >>> batches = rl.utils.data.datapipes.iter.IterableWrapper(range(4)).batch(2)
    >>> list(batches.collate())
    [tensor([0, 1]), tensor([2, 3])]
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        conversion: Callable | dict | None = default_collate,
        collate_fn: Callable | None = None,
    ) -> None:
        function = conversion if collate_fn is None else collate_fn
        if not callable(function):
            function = functools.partial(_collate_table, function)
        super().__init__(datapipe, fn=function)
