"""Samples together, and apart again."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import DataChunk, IterDataPipe
from rushlight.utils.data.datapipes.iter._kept import KeptByName
from rushlight.utils.data.datapipes.utils.common import (
    _check_unpickable_fn,
    batches_of,
    keep_batching,
)

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[DataChunk]):
    """Several samples as one list.

    Args:
        datapipe: the pipe before.
        batch_size: how many.
        drop_last: leave out a last batch that is not full.
        wrapper_class: what a list becomes.

    >>> list(rl.utils.data.datapipes.iter.IterableWrapper(range(5)).batch(2))
    [[0, 1], [2, 3], [4]]
    """

    datapipe: IterDataPipe
    batch_size: int
    drop_last: bool

    def __init__(
        self,
        datapipe: IterDataPipe,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable = DataChunk,
    ) -> None:
        super().__init__()
        keep_batching(self, datapipe, batch_size, drop_last, wrapper_class)

    def __iter__(self) -> Iterator[DataChunk]:
        batch: list = []
        for each in self.datapipe:
            batch.append(each)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        return batches_of(self)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The samples of batches, one by one.

    Args:
        datapipe: the pipe before.
        unbatch_level: how many levels of lists are opened; -1 for all.

    >>> lists = rl.utils.data.datapipes.iter.IterableWrapper([[[1, 2]], [[3], [4]]])
    >>> list(lists.unbatch()), list(lists.unbatch(-1))
    ([[1, 2], [3], [4]], [1, 2, 3, 4])
    """

    def __init__(self, datapipe: IterDataPipe, unbatch_level: int = 1) -> None:
        self.datapipe = datapipe
        self.unbatch_level = unbatch_level

    def __iter__(self):
        for each in self.datapipe:
            yield from self._dive(each, self.unbatch_level)

    def _dive(self, element, unbatch_level):
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        if unbatch_level == 0:
            yield element
        elif isinstance(element, list):
            below = unbatch_level if unbatch_level < 0 else unbatch_level - 1
            for item in element:
                yield from self._dive(item, below)
        elif unbatch_level < 0:
            yield element
        else:
            raise IndexError(
                f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe"
            )


@functional_datapipe("groupby")
class GrouperIterDataPipe(KeptByName, IterDataPipe[DataChunk]):
    """Samples with the same key as lists, as far as a buffer allows.

    Args:
        datapipe: the pipe before.
        group_key_fn: the key of a sample.
        keep_key: give pairs of the key and the list.
        buffer_size: how many samples may wait; once they are so many, the largest group
            is given.
        group_size: a group is given once it has so many.
        guaranteed_group_size: the largest group of a full buffer has at least so many.
        drop_remaining: a group of fewer is left out then, in place of an error.

    >>> files = rl.utils.data.datapipes.iter.IterableWrapper(["a.x", "b.x", "a.y"])
    >>> list(files.groupby(min))
    [['a.x', 'b.x', 'a.y']]
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        _check_unpickable_fn(group_key_fn)
        self.datapipe = datapipe
        self.group_key_fn = group_key_fn
        self.keep_key = keep_key
        self.max_buffer_size = buffer_size
        self.group_size = group_size
        if group_size is not None and buffer_size is not None:
            if not 0 < group_size <= buffer_size:
                raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is not None:
            if group_size is None or not 0 < guaranteed_group_size <= group_size:
                raise AssertionError(
                    "guaranteed_group_size must be > 0 and <= group_size and group_size "
                    "must be set"
                )
        elif buffer_size is not None:
            guaranteed_group_size = group_size
        self.guaranteed_group_size = guaranteed_group_size
        self.drop_remaining = drop_remaining
        self.wrapper_class = DataChunk
        self.reset()

    def _give(self, key):
        group = self.wrapper_class(self.buffer_elements.pop(key))
        self.curr_buffer_size -= len(group)
        return group

    def _largest(self):
        """The key of the largest group and the group, or None if it is left out."""
        key = max(self.buffer_elements, key=lambda key: len(self.buffer_elements[key]))
        enough = self.guaranteed_group_size or 0
        if len(self.buffer_elements[key]) >= enough:
            return key, self._give(key)
        if not self.drop_remaining:
            raise RuntimeError("Failed to group items", str(self.buffer_elements[key]))
        self._give(key)
        return key, None

    def __iter__(self):
        for each in self.datapipe:
            key = self.group_key_fn(each)
            self.buffer_elements[key].append(each)
            self.curr_buffer_size += 1
            if len(self.buffer_elements[key]) == self.group_size:
                group = self._give(key)
                yield (key, group) if self.keep_key else group
            if self.curr_buffer_size == self.max_buffer_size:
                largest, group = self._largest()
                if group is not None:
                    yield (largest, group) if self.keep_key else group
        for key in tuple(self.buffer_elements):
            group = self._give(key)
            yield (key, group) if self.keep_key else group

    def reset(self) -> None:
        self.curr_buffer_size = 0
        self.buffer_elements: defaultdict[Any, list] = defaultdict(list)

    _state = (
        "datapipe group_key_fn keep_key max_buffer_size group_size "
        "guaranteed_group_size drop_remaining wrapper_class _valid_iterator_id"
    ).split()
