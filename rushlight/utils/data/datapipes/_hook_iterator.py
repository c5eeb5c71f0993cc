"""One valid iterator for each pipe: what an ``__iter__`` is wrapped in, and why.

A pipe may keep what it has read ahead. A second iterator over it would take from the same
buffer, so that it ends the first one: an iterator knows the number that its pipe had when
it began, and refuses to go on once that is another.
"""

import functools
import inspect
from enum import Enum


class _SnapshotState(Enum):
    """Whether a pipe has begun; one that was wound forward does not begin anew."""

    NotStarted = 0
    Restored = 1
    Iterating = 2


def _described(pipe) -> str:
    """A pipe's class with what it was made from."""
    names = set(inspect.signature(type(pipe)).parameters)
    said = []
    for name, value in inspect.getmembers(pipe):
        if name in names:
            text = value.__name__ if inspect.isfunction(value) else repr(value)
            said.append(f"{name}={text}")
    return f"{type(pipe).__name__}({', '.join(said)})"


def _refuse(pipe, more=""):
    raise RuntimeError(
        "This iterator has been invalidated because another iterator has been created "
        f"from the same IterDataPipe: {_described(pipe)}\n"
        "This may be caused by multiple references to the same IterDataPipe. We recommend "
        f"using `.fork()` if that is necessary.{more}\n"
        "  (single iterator per IterDataPipe constraint)"
    )


def _check_iterator_valid(pipe, number) -> None:
    """Refuses to go on with an iterator once there is a later one.

    Raises:
        RuntimeError: there is one, over the pipe or over another branch of its source.
    """
    if not getattr(pipe, "_is_child_datapipe", False):
        if pipe._valid_iterator_id != number:
            _refuse(pipe)
    elif not pipe._check_valid_iterator_id(number):
        raise RuntimeError(
            "This iterator has been invalidated, because a new iterator has been created "
            f"from one of the ChildDataPipes of {_described(pipe.main_datapipe)}.\n"
            "  (single iterator per IterDataPipe constraint)"
        )


def _set_datapipe_valid_iterator_id(pipe) -> int:
    """The number of a new iterator over a pipe, which begins anew."""
    if getattr(pipe, "_is_child_datapipe", False):
        return pipe._set_main_datapipe_valid_iterator_id()
    number = pipe._valid_iterator_id
    pipe._valid_iterator_id = 0 if number is None else number + 1
    pipe.reset()
    return pipe._valid_iterator_id


def _say_where(error, pipe):
    """Adds to an exception's message which pipe it was raised in: the innermost."""
    words = "thrown by __iter__ of"
    message = f"\nThis exception is {words} {_described(pipe)}"
    if not error.args or not isinstance(error.args[0], str):
        error.args = (message,)
    elif words not in error.args[0] and "single iterator per" not in error.args[0]:
        error.args = (error.args[0] + message, *error.args[1:])


class _Checked:
    """An iterator of a pipe whose ``__iter__`` is no generator."""

    def __init__(self, iterator, pipe, number, counts):
        self.iterator = iterator
        self.datapipe = pipe
        self.iterator_id = number
        self.counts = counts

    def __iter__(self):
        return self

    def __next__(self):
        _check_iterator_valid(self.datapipe, self.iterator_id)
        value = next(self.iterator)
        if self.counts:
            self.datapipe._number_of_samples_yielded += 1
        return value

    def __getattr__(self, name):
        return getattr(self.iterator, name)


def _hooked_generator(function):
    @functools.wraps(function)
    def wrapped(pipe, *args, **kwargs):
        forwarded = pipe._fast_forward_iterator
        if forwarded:
            pipe._fast_forward_iterator = None
            pipe._snapshot_state = _SnapshotState.Iterating
            yield from forwarded
            return
        values = function(pipe, *args, **kwargs)
        number = _set_datapipe_valid_iterator_id(pipe)
        try:
            value = values.send(None)
            while True:
                pipe._number_of_samples_yielded += 1
                sent = yield value
                _check_iterator_valid(pipe, number)
                value = values.send(sent)
        except StopIteration:
            return
        except Exception as error:
            _say_where(error, pipe)
            raise

    return wrapped


def _hooked_iterator(function, counts):
    @functools.wraps(function)
    def wrapped(pipe, *args, **kwargs):
        iterator = function(pipe, *args, **kwargs)
        pipe._snapshot_state = _SnapshotState.Iterating
        forwarded = pipe._fast_forward_iterator
        if forwarded:
            pipe._fast_forward_iterator = None
            return forwarded
        number = _set_datapipe_valid_iterator_id(pipe)
        # A pipe that is its own iterator counts in its own ``__next__``.
        return _Checked(iterator, pipe, number, not (iterator is pipe and counts))

    return wrapped


def _counted_next(function):
    @functools.wraps(function)
    def wrapped(pipe, *args, **kwargs):
        value = function(pipe, *args, **kwargs)
        pipe._number_of_samples_yielded += 1
        return value

    return wrapped


def hook_iterator(namespace) -> None:
    """Wraps the ``__iter__`` that a class is about to be made with."""
    function = namespace["__iter__"]
    if inspect.isgeneratorfunction(function):
        namespace["__iter__"] = _hooked_generator(function)
        return
    own = namespace.get("__next__")
    if own is not None:
        namespace["__next__"] = _counted_next(own)
    namespace["__iter__"] = _hooked_iterator(function, own is not None)
