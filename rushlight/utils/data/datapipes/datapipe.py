"""Pipes: data sets that are steps of one another, found as methods of what they follow."""

import functools
import importlib.util
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from rushlight.utils.data.datapipes._hook_iterator import _SnapshotState
from rushlight.utils.data.datapipes._typing import _DataPipeMeta, _IterDataPipeMeta
from rushlight.utils.data.dataset import Dataset, IterableDataset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# What follows a pipe of tables and gives none itself.
UNTRACABLE_DATAFRAME_PIPES = [
    "batch",
    "groupby",
    "_dataframes_as_tuples",
    "trace_as_dataframe",
]


class DataChunk(list[T]):
    """The samples of one batch, a list."""

    def __init__(self, items: Iterable[T]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The samples on one line."""
        return indent + "[" + ", ".join(map(str, self)) + "]"

    def __iter__(self) -> Iterator[T]:
        yield from super().__iter__()

    def raw_iterator(self) -> Iterator[T]:
        """The samples as they were given."""
        yield from self.items


class _Chained:
    """What both kinds of pipes share: the steps that follow as methods, and hooks.

    A hook is of a kind of pipes, not of a class: it is set with ``set_getstate_hook`` and
    ``set_reduce_ex_hook`` while somebody looks for the pipes that a pipe holds.
    """

    functions: ClassVar[dict[str, Callable]]
    reduce_ex_hook: ClassVar[Callable | None] = None
    getstate_hook: ClassVar[Callable | None] = None
    str_hook: ClassVar[Callable | None] = None
    repr_hook: ClassVar[Callable | None] = None

    @classmethod
    def _kind(cls) -> Any:
        return IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe

    def __getattr__(self, name):
        function = self._kind().functions.get(name)
        if function is None:
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{name}'"
            )
        bound = functools.partial(function, self)
        functools.update_wrapper(bound, function, assigned=("__doc__",))
        return bound

    @classmethod
    def register_function(cls, function_name, function) -> None:
        """Lets pipes of this kind have a function as a method."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name, cls_to_register, enable_df_api_tracing=False
    ) -> None:
        """Lets pipes of this kind have a class as a method, which makes the next pipe.

        Raises:
            Exception: another class has that name.
        """
        if function_name in cls.functions:
            raise Exception(
                f"Unable to add DataPipe function name {function_name} as it is already "
                "taken"
            )

        def following(source, *args, **kwargs):
            made = cls_to_register(source, *args, **kwargs)
            traced = enable_df_api_tracing or isinstance(source, DFIterDataPipe)
            if traced and function_name not in UNTRACABLE_DATAFRAME_PIPES:
                return made.trace_as_dataframe()
            return made

        functools.update_wrapper(following, cls_to_register, assigned=("__doc__",))
        cls.functions[function_name] = following

    def __getstate__(self):
        return self._hooked(self.__dict__)

    def _hooked(self, state):
        """A state, as who looks for pipes wants it."""
        hook = self._kind().getstate_hook
        return state if hook is None else hook(state)

    def __reduce_ex__(self, *args, **kwargs):
        hook = self._kind().reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(*args, **kwargs)

    @classmethod
    def set_getstate_hook(cls, hook_fn) -> None:
        """Sets what changes states, or takes it away with None.

        Raises:
            RuntimeError: there is one already.
        """
        cls._set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn) -> None:
        """Sets what says how pipes are pickled, or takes it away with None.

        Raises:
            RuntimeError: there is one already.
        """
        cls._set_hook("reduce_ex_hook", hook_fn)

    @classmethod
    def _set_hook(cls, name, hook):
        kind = cls._kind()
        if getattr(kind, name) is not None and hook is not None:
            raise RuntimeError(f"Attempt to override existing {name}")
        setattr(kind, name, hook)

    def __repr__(self) -> str:
        hook = type(self).repr_hook
        return type(self).__qualname__ if hook is None else hook(self)

    def __str__(self) -> str:
        hook = type(self).str_hook
        return type(self).__qualname__ if hook is None else hook(self)

    def __dir__(self):
        return [*super().__dir__(), *self.functions]


class IterDataPipe(_Chained, IterableDataset[T_co], metaclass=_IterDataPipeMeta):
    """Samples that come one after another, out of a pipe before: define ``__iter__``.

    Beginning to iterate calls ``reset``, and ends an iterator that was begun before.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(6)).batch(4))
    [[0, 1, 2, 3], [4, 5]]
    """

    functions: ClassVar[dict[str, Callable]] = {}
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0
    _snapshot_state = _SnapshotState.NotStarted
    _fast_forward_iterator: Iterator | None = None

    def __iter__(self) -> Iterator[T_co]:
        return self

    def reset(self) -> None:
        """Goes back to the beginning: drops what has been read ahead."""


class DFIterDataPipe(IterDataPipe):
    """Tables that come one after another."""

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Chained, Dataset[T_co], metaclass=_DataPipeMeta):
    """Samples by index, out of a pipe before: define ``__getitem__``, maybe ``__len__``.

    >>> from rushlight.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper([10, 20, 30]).batch(2)[1]
    [30]
    """

    functions: ClassVar[dict[str, Callable]] = {}


def has_dill() -> bool:
    """Whether functions without a name can be pickled."""
    return importlib.util.find_spec("dill") is not None


class _DataPipeSerializationWrapper:
    """A pipe that is pickled with dill where pickle cannot."""

    def __init__(self, datapipe) -> None:
        self._datapipe = datapipe

    def __getstate__(self):
        try:
            return pickle.dumps(self._datapipe), False
        except Exception:
            if not has_dill():
                raise
        import dill

        return dill.dumps(self._datapipe), True

    def __setstate__(self, state):
        packed, with_dill = state
        if with_dill:
            import dill

            self._datapipe = dill.loads(packed)
        else:
            self._datapipe = pickle.loads(packed)

    def __len__(self) -> int:
        try:
            return len(self._datapipe)
        except Exception as error:
            raise TypeError(
                f"{type(self).__name__} instance doesn't have valid length"
            ) from error


class _IterDataPipeSerializationWrapper(_DataPipeSerializationWrapper, IterDataPipe):
    def __iter__(self):
        yield from self._datapipe


class _MapDataPipeSerializationWrapper(_DataPipeSerializationWrapper, MapDataPipe):
    def __getitem__(self, index):
        return self._datapipe[index]
