"""Files, streams and functions, as the pipes want them."""

import fnmatch
import functools
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from io import IOBase
from typing import Any, ClassVar

from rushlight.utils.data.datapipes.datapipe import has_dill

__all__ = [
    "StreamWrapper",
    "get_file_binaries_from_pathnames",
    "get_file_pathnames_from_root",
    "match_masks",
    "validate_input_col",
    "validate_pathname_binary_tuple",
]

DILL_AVAILABLE = has_dill()


def batches_of(pipe) -> int:
    """How many batches a pipe gives.

    Raises:
        AttributeError, TypeError: the pipe before does not know how many it has.
    """
    if not isinstance(pipe.datapipe, Sized):
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
    whole, rest = divmod(len(pipe.datapipe), pipe.batch_size)
    return whole + (1 if rest and not pipe.drop_last else 0)


def keep_batching(pipe, datapipe, batch_size, drop_last, wrapper_class) -> None:
    """Keeps what a pipe of batches was made of."""
    if batch_size <= 0:
        raise AssertionError("Batch size is required to be larger than 0!")
    pipe.datapipe = datapipe
    pipe.batch_size = batch_size
    pipe.drop_last = drop_last
    pipe.wrapper_class = wrapper_class


def length_of(pipe, source) -> int:
    """As many samples as the pipe before has.

    Raises:
        TypeError: it does not know.
    """
    if isinstance(source, Sized):
        return len(source)
    raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")


class Shuffled:
    """What a loader asks of the pipes whose order is random."""

    _enabled: bool
    _seed: int | None

    def set_shuffle(self, shuffle=True):
        """Says whether the order is random at all."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int):
        """Says which seed the next pass has."""
        self._seed = seed
        return self


def chosen(data, columns):
    """The arguments of a function: a sample, one column of it, or several."""
    if columns is None:
        return (data,)
    if isinstance(columns, (list, tuple)):
        return tuple(data[column] for column in columns)
    return (data[columns],)


def validate_input_col(fn: Callable, input_col: int | tuple | list | None) -> None:
    """Refuses a function that does not take as many arguments as there are columns.

    Args:
        fn: the function.
        input_col: one column, or a list of them, or None for the sample itself.

    Raises:
        ValueError: it takes more, or fewer, or wants some by their names.
    """
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except ValueError:  # not written in Python
        return
    count = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    plain = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(plain, "__name__", repr(plain))
    kinds = inspect.Parameter
    named = [
        each
        for each in parameters
        if each.kind is kinds.KEYWORD_ONLY and each.default is each.empty
    ]
    if named:
        raise ValueError(
            f"The function {name} takes {len(named)} non-default keyword-only parameters, "
            "which is not allowed."
        )
    placed = [
        each
        for each in parameters
        if each.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    any_number = any(each.kind is kinds.VAR_POSITIONAL for each in parameters)
    wanted = sum(each.default is each.empty for each in placed)
    if wanted > count or (len(placed) < count and not any_number):
        raise ValueError(
            f"The function {name} takes {len(placed)} positional parameters, but {count} "
            "are required."
        )


def _check_unpickable_fn(fn: Callable) -> None:
    """Warns of a function that a worker process cannot be sent.

    Raises:
        TypeError: it is no function.
    """
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    if isinstance(fn, functools.partial):
        fn = fn.func
    if has_dill():
        return
    if _is_local_fn(fn):
        kind = "Local"
    elif getattr(fn, "__name__", None) == "<lambda>":
        kind = "Lambda"
    else:
        return
    warnings.warn(
        f"{kind} function is not supported by pickle, please use regular python function "
        "or functools.partial instead.",
        stacklevel=2,
    )


def _is_local_fn(fn):
    code = getattr(fn, "__code__", None)
    if code is not None:
        return bool(code.co_flags & inspect.CO_NESTED)
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return "<locals>" in named.__qualname__


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Whether a file's name is like one of the patterns, or there are none."""
    if not masks:
        return True
    several = [masks] if isinstance(masks, str) else masks
    return any(fnmatch.fnmatch(name, mask) for mask in several)


def get_file_pathnames_from_root(
    root: str,
    masks: str | list[str],
    recursive: bool = False,
    abspath: bool = False,
    non_deterministic: bool = False,
) -> Iterator[str]:
    """The paths of files in a folder, or of the file that the path is of.

    Args:
        root: the folder or file.
        masks: patterns that their names are like.
        recursive: those in folders inside, too.
        abspath: from the root of the disk on.
        non_deterministic: in any order, not that of their names.
    """
    if abspath:
        root = os.path.abspath(root)
    if os.path.isfile(root):
        if match_masks(os.path.basename(root), masks):
            yield root
        return

    def tell(error: OSError):
        warnings.warn(f"{error.filename} : {error.strerror}", stacklevel=2)
        raise error

    for path, folders, files in os.walk(root, onerror=tell):
        if not non_deterministic:
            files.sort()
            folders.sort()
        yield from (os.path.join(path, f) for f in files if match_masks(f, masks))
        if not recursive:
            return


def get_file_binaries_from_pathnames(
    pathnames: Iterable, mode: str, encoding: str | None = None
):
    """Each path with the open file.

    Raises:
        TypeError: a path is no string.
    """
    if not isinstance(pathnames, Iterable):
        pathnames = [pathnames]
    mode = f"r{mode}" if mode in ("b", "t") else mode
    for pathname in pathnames:
        if not isinstance(pathname, str):
            raise TypeError(
                f"Expected string type for pathname, but got {type(pathname)}"
            )
        yield pathname, StreamWrapper(open(pathname, mode, encoding=encoding))


def validate_pathname_binary_tuple(data: tuple[str, IOBase]) -> None:
    """Refuses what is no pair of a path and a stream.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(data, tuple):
        raise TypeError(
            f"pathname binary data should be tuple type, but it is type {type(data)}"
        )
    if len(data) != 2:
        raise TypeError(
            f"pathname binary stream tuple length should be 2, but got {len(data)}"
        )
    if not isinstance(data[0], str):
        raise TypeError(
            "pathname within the tuple should have string type pathname, but it is type "
            f"{type(data[0])}"
        )
    if not isinstance(data[1], (IOBase, StreamWrapper)):
        raise TypeError(
            "binary stream within the tuple should have IOBase or its subclasses as type, "
            f"but it is type {type(data[1])}"
        )


class StreamWrapper:
    """A stream that is closed once nobody holds it.

    Args:
        file_obj: the stream.
        parent_stream: the wrapped stream that it is a part of, an archive's.
        name: what it prints as.

    Raises:
        RuntimeError: the parent is not wrapped.
    """

    session_streams: ClassVar[dict[Any, int]] = {}
    debug_unclosed_streams: ClassVar[bool] = False

    def __init__(self, file_obj, parent_stream=None, name=None) -> None:
        self.file_obj = file_obj
        self.child_counter = 0
        self.parent_stream = parent_stream
        self.close_on_last_child = False
        self.name = name
        self.closed = False
        if parent_stream is not None:
            if not isinstance(parent_stream, StreamWrapper):
                raise RuntimeError(
                    "Parent stream should be StreamWrapper, "
                    f"{type(parent_stream)} was given"
                )
            parent_stream.child_counter += 1
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v, depth=0) -> None:
        """Closes the wrapped streams in a sample, ten levels deep."""
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, (dict, list, tuple)):
            for each in v.values() if isinstance(v, dict) else v:
                cls.close_streams(each, depth + 1)

    def __getattr__(self, name):
        if "file_obj" not in self.__dict__:  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.__dict__["file_obj"], name)

    def close(self, *args, **kwargs) -> None:
        """Closes the stream, and the one it is a part of where that was asked for."""
        if self.closed:
            return
        if StreamWrapper.debug_unclosed_streams:
            del StreamWrapper.session_streams[self]
        parent = self.__dict__.get("parent_stream")
        if parent is not None:
            parent.child_counter -= 1
            if not parent.child_counter and parent.close_on_last_child:
                parent.close()
        close = getattr(self.file_obj, "close", None)
        if close is not None:
            close(*args, **kwargs)
        self.closed = True

    def autoclose(self) -> None:
        """Closes the stream once all its parts are closed."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __dir__(self):
        return sorted({*self.__dict__, *vars(StreamWrapper), *dir(self.file_obj)})

    def __del__(self) -> None:
        if not self.__dict__.get("closed", True):
            self.close()

    def __iter__(self):
        yield from self.file_obj

    def __next__(self):
        return next(self.file_obj)

    def __repr__(self) -> str:
        named = "" if self.name is None else f"{self.name},"
        return f"StreamWrapper<{named}{self.file_obj!r}>"

    def __getstate__(self):
        return self.file_obj

    def __setstate__(self, obj):
        self.__init__(obj)
