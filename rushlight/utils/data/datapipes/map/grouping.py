"""Samples together."""

from collections.abc import Callable, Sized

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import DataChunk, MapDataPipe

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
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

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
        if not isinstance(self.datapipe, Sized):
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)
