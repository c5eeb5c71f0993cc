"""One pipe out of several."""

from collections.abc import Sized
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import MapDataPipe

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]


def _check(datapipes):
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(each, MapDataPipe) for each in datapipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")
    if not all(isinstance(each, Sized) for each in datapipes):
        raise TypeError("Expected all inputs to be `Sized`")
    return datapipes


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe):
    """The samples of several pipes, whose indices go on from one to the next.

    >>> wrap = rl.utils.data.datapipes.map.SequenceWrapper
    >>> list(wrap("ab").concat(wrap([1])))
    ['a', 'b', 1]
    """

    datapipes: tuple[Any, ...]

    def __init__(self, *datapipes: MapDataPipe) -> None:
        self.datapipes = _check(datapipes)

    def __getitem__(self, index):
        before = 0
        for each in self.datapipes:
            if index - before < len(each):
                return each[index - before]
            before += len(each)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(len(each) for each in self.datapipes)


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe[tuple]):
    """Tuples of the samples that several pipes have for an index.

    >>> wrap = rl.utils.data.datapipes.map.SequenceWrapper
    >>> list(wrap("ab").zip(wrap([1, 2, 3])))
    [('a', 1), ('b', 2)]
    """

    datapipes: tuple[Any, ...]

    def __init__(self, *datapipes: MapDataPipe) -> None:
        self.datapipes = _check(datapipes)

    def __getitem__(self, index) -> tuple:
        row = []
        for each in self.datapipes:
            try:
                row.append(each[index])
            except IndexError as error:
                raise IndexError(
                    f"Index {index} is out of range for one of the input MapDataPipes "
                    f"{each}."
                ) from error
        return tuple(row)

    def __len__(self) -> int:
        return min(len(each) for each in self.datapipes)
