"""Samples together."""

from collections.abc import Callable

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import DataChunk, MapDataPipe
from rushlight.utils.data.datapipes.utils.common import batches_of, keep_batching

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[DataChunk]):
    """Lists of samples whose indices follow one another.

    Args:
        datapipe: the pipe before.
        batch_size: how many.
        drop_last: leave out a last batch that is not full.
        wrapper_class: what a list becomes.

    >>> list(rl.utils.data.datapipes.map.SequenceWrapper(range(5)).batch(2))
    [[0, 1], [2, 3], [4]]
    """

    datapipe: MapDataPipe
    batch_size: int
    drop_last: bool

    def __init__(
        self,
        datapipe: MapDataPipe,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable = DataChunk,
    ) -> None:
        super().__init__()
        keep_batching(self, datapipe, batch_size, drop_last, wrapper_class)

    def __getitem__(self, index) -> DataChunk:
        batch: list = []
        start = index * self.batch_size
        try:
            for each in range(start, start + self.batch_size):
                batch.append(self.datapipe[each])
        except IndexError as error:
            if not batch or self.drop_last:
                raise IndexError(f"Index {index} is out of bound.") from error
        return self.wrapper_class(batch)

    def __len__(self) -> int:
        return batches_of(self)
