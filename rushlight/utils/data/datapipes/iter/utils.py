"""What pipes begin with."""

import copy
import warnings
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.utils.common import length_of

__all__ = ["IterableWrapperIterDataPipe"]

T = TypeVar("T")


class IterableWrapperIterDataPipe(IterDataPipe[T]):
    """The samples of any iterable.

    Args:
        iterable: the samples.
        deepcopy: iterate over a copy, made as each pass begins.

    >>> list(rl.utils.data.datapipes.iter.IterableWrapper("abc"))
    ['a', 'b', 'c']
    """

    def __init__(self, iterable: Iterable[T], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[T]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(self.iterable)
            except TypeError:
                warnings.warn(
                    "The input iterable can not be deepcopied, please be aware of "
                    "in-place modification would affect source data.",
                    stacklevel=2,
                )
        yield from source

    def __len__(self) -> int:
        return length_of(self, self.iterable)
