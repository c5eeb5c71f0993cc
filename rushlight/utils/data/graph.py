"""Which pipes a pipe is made of."""

import io
import pickle
import warnings
from collections.abc import Collection, Mapping

from rushlight.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]

DataPipe = IterDataPipe | MapDataPipe
DataPipeGraph = dict[int, tuple[DataPipe, "DataPipeGraph"]]


def _held(state, found, seen):
    """The pipes among what collections hold, in their order."""
    if isinstance(state, (str, bytes)) or id(state) in seen:
        return
    seen.add(id(state))
    if isinstance(state, (IterDataPipe, MapDataPipe)):
        found.append(state)
    elif isinstance(state, Mapping):
        for key, value in state.items():
            _held(key, found, seen)
            _held(value, found, seen)
    elif isinstance(state, (list, tuple, set, frozenset)) or (
        isinstance(state, Collection) and type(state).__module__ == "collections"
    ):
        for value in state:
            _held(value, found, seen)


class _Finder(pickle.Pickler):
    """Notes the pipes that pickling one meets, however deep in other objects."""

    def __init__(self, start):
        super().__init__(io.BytesIO())
        self.start = start
        self.found: list = []

    def reducer_override(self, obj):
        if obj is self.start or not isinstance(obj, (IterDataPipe, MapDataPipe)):
            return NotImplemented
        self.found.append(obj)
        return str, ()


def _connected(datapipe, only_datapipe):
    if not only_datapipe:
        finder = _Finder(datapipe)
        finder.dump(datapipe)
        return finder.found
    found: list = []
    _held(datapipe.__getstate__(), found, {id(datapipe)})
    return found


def _graph(datapipe, only_datapipe, above):
    if not isinstance(datapipe, (IterDataPipe, MapDataPipe)):
        raise RuntimeError(
            f"Expected `IterDataPipe` or `MapDataPipe`, but {type(datapipe)} is found"
        )
    if id(datapipe) in above:
        return {}
    above = above | {id(datapipe)}
    below: DataPipeGraph = {}
    for each in _connected(datapipe, only_datapipe):
        below.update(_graph(each, only_datapipe, above))
    return {id(datapipe): (datapipe, below)}


def traverse_dps(datapipe: DataPipe) -> DataPipeGraph:
    """The pipes that a pipe is made of: by their ``id``, each with those it is made of.

    Pipes are looked for in attributes and in the collections there.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> [(last, before)] = rl.utils.data.graph.traverse_dps(
    ...     IterableWrapper(range(3)).batch(2)).values()
    >>> last, [pipe for pipe, _ in before.values()]
    (BatcherIterDataPipe, [IterableWrapperIterDataPipe])
    """
    return _graph(datapipe, True, frozenset())


def traverse(datapipe: DataPipe, only_datapipe: bool | None = None) -> DataPipeGraph:
    """As ``traverse_dps``, which takes its place; it looks in other objects, too.

    Args:
        datapipe: the last of the pipes.
        only_datapipe: look in attributes and collections alone.
    """
    warnings.warn(
        "`traverse` function is deprecated and will be removed after 1.13. Please use "
        "`traverse_dps` instead."
        + (
            ""
            if only_datapipe
            else " And, the behavior will be changed to the equivalent of "
            "`only_datapipe=True`."
        ),
        FutureWarning,
        stacklevel=2,
    )
    return _graph(datapipe, bool(only_datapipe), frozenset())
