"""What pipes begin with."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from rushlight.utils.data.datapipes.datapipe import MapDataPipe

__all__ = ["SequenceWrapperMapDataPipe"]

T = TypeVar("T")


class SequenceWrapperMapDataPipe(MapDataPipe[T]):
    """The samples of a sequence, or of a mapping by its keys.

    Args:
        sequence: the samples.
        deepcopy: keep a copy of them.

    >>> rl.utils.data.datapipes.map.SequenceWrapper({"a": 100})["a"]
    100
    """

    sequence: Any

    def __init__(
        self, sequence: Sequence[T] | Mapping[Any, T], deepcopy: bool = True
    ) -> None:
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn(
                    "The input sequence can not be deepcopied, please be aware of "
                    "in-place modification would affect source data",
                    stacklevel=2,
                )

    def __getitem__(self, index) -> T:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)
