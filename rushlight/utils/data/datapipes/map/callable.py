"""Functions of each sample."""

from collections.abc import Callable
from typing import TypeVar

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import MapDataPipe
from rushlight.utils.data.datapipes.utils.common import _check_unpickable_fn

__all__ = ["MapperMapDataPipe", "default_fn"]

T_co = TypeVar("T_co", covariant=True)


def default_fn(data):
    """The sample as it is."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[T_co]):
    """A function of each sample.

    >>> pipe = rl.utils.data.datapipes.map.SequenceWrapper(["a", "b"]).map(str.upper)
    >>> pipe[1], len(pipe)
    ('B', 2)
    """

    datapipe: MapDataPipe
    fn: Callable

    def __init__(self, datapipe: MapDataPipe, fn: Callable = default_fn) -> None:
        super().__init__()
        self.datapipe = datapipe
        _check_unpickable_fn(fn)
        self.fn = fn

    def __len__(self) -> int:
        return len(self.datapipe)

    def __getitem__(self, index) -> T_co:
        return self.fn(self.datapipe[index])
