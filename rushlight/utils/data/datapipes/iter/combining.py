"""One pipe out of several, and several out of one."""

import copy
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sized
from typing import Any, Literal

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes._hook_iterator import _SnapshotState
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.iter._kept import KeptByName
from rushlight.utils.data.datapipes.utils.common import (
    StreamWrapper,
    _check_unpickable_fn,
)

__all__ = [
    "ConcaterIterDataPipe",
    "DemultiplexerIterDataPipe",
    "ForkerIterDataPipe",
    "MultiplexerIterDataPipe",
    "ZipperIterDataPipe",
]


def _lengths(pipe):
    if all(isinstance(each, Sized) for each in pipe.datapipes):
        return [len(each) for each in pipe.datapipes]
    raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """All samples of one pipe, then those of the next.

    Raises:
        ValueError: there is no pipe.
        TypeError: one is no pipe.

    >>> wrap = rl.utils.data.datapipes.iter.IterableWrapper
    >>> list(wrap(range(2)).concat(wrap("ab")))
    [0, 1, 'a', 'b']
    """

    datapipes: tuple[IterDataPipe, ...]

    def __init__(self, *datapipes: IterDataPipe) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(each, IterDataPipe) for each in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        for each in self.datapipes:
            yield from each

    def __len__(self) -> int:
        return sum(_lengths(self))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """A sample of each pipe in turn, as long as all have one.

    >>> wrap = rl.utils.data.datapipes.iter.IterableWrapper
    >>> list(wrap(range(3)).mux(wrap("ab")))
    [0, 'a', 1, 'b']
    """

    def __init__(self, *datapipes) -> None:
        self.datapipes = datapipes
        self.buffer: list = []  # of one round, given once all pipes have given theirs

    def __iter__(self):
        iterators = [iter(each) for each in self.datapipes]
        while iterators:
            for each in iterators:
                try:
                    self.buffer.append(next(each))
                except StopIteration:
                    self.buffer.clear()
                    return
            yield from self.buffer
            self.buffer.clear()

    def __len__(self) -> int:
        return min(_lengths(self)) * len(self.datapipes)

    def reset(self) -> None:
        self.buffer = []

    def __getstate__(self):
        counts = self._valid_iterator_id, self._number_of_samples_yielded
        return self._hooked((self.datapipes, *counts))

    def __setstate__(self, state):
        self.datapipes, self._valid_iterator_id, self._number_of_samples_yielded = state
        self.buffer = []


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """A tuple of a sample of each pipe, as long as all have one.

    Raises:
        TypeError: one is no pipe.

    >>> wrap = rl.utils.data.datapipes.iter.IterableWrapper
    >>> list(wrap(range(3)).zip(wrap("ab")))
    [(0, 'a'), (1, 'b')]
    """

    datapipes: tuple[IterDataPipe, ...]

    def __init__(self, *datapipes: IterDataPipe) -> None:
        if not all(isinstance(each, IterDataPipe) for each in datapipes):
            raise TypeError(
                "All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`."
            )
        super().__init__()
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[tuple]:
        yield from zip(*(iter(each) for each in self.datapipes))

    def __len__(self) -> int:
        return min(_lengths(self))


class _ContainerTemplate(ABC):
    """What several branches read their samples through."""

    @abstractmethod
    def get_next_element_by_instance(self, instance_id: int):
        """The samples of a branch."""

    @abstractmethod
    def is_every_instance_exhausted(self) -> bool:
        """Whether all branches have come to their end."""

    @abstractmethod
    def reset(self) -> None:
        """Goes back to the beginning."""

    @abstractmethod
    def get_length_by_instance(self, instance_id: int) -> int:
        """How many samples a branch has."""


class _Container(KeptByName, IterDataPipe, _ContainerTemplate):
    """Reads a pipe for several branches, and keeps what other branches will read.

    The first branch that asks begins to read the pipe; reading ends with the last branch.
    A subclass says what the next sample of a branch is.
    """

    def _start(self, datapipe, num_instances, buffer_size, name):
        self.main_datapipe = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{name}`, please be aware of OOM at "
                "random places",
                UserWarning,
                stacklevel=4,
            )

    def _begin(self):
        self._datapipe_iterator: Iterator[Any] | None = None
        self._child_stop = [True] * self.num_instances

    def _following(self, instance_id) -> Any:
        """A branch's next sample, or StopIteration."""
        raise NotImplementedError(f"{type(self).__name__} defines no _following()")

    def _left(self, instance_id) -> None:
        """What to do as a branch ends."""

    def get_next_element_by_instance(self, instance_id: int):
        if self._datapipe_iterator is None and self._child_stop[instance_id]:
            self._datapipe_iterator = iter(self.main_datapipe)
            self._snapshot_state = _SnapshotState.Iterating
            self._child_stop = [False] * self.num_instances
        try:
            while not self._child_stop[instance_id]:
                try:
                    value = self._following(instance_id)
                except StopIteration:
                    return
                yield value
        finally:
            self._child_stop[instance_id] = True
            if all(self._child_stop):
                self._datapipe_iterator = None
            self._left(instance_id)

    def _overflow(self, name):
        raise BufferError(
            f"{name} buffer overflow, buffer size {self.buffer_size} is insufficient."
        )


class _ForkerIterDataPipe(_Container):
    """Gives every branch every sample.

    The buffer has the samples from the one after ``slowest`` on, the number of the last
    that all branches have read, to ``leading``, the last that any has.
    """

    end: int | None

    def __init__(self, datapipe, num_instances, buffer_size=1000, copy=None) -> None:
        self._start(datapipe, num_instances, buffer_size, "fork")
        if copy not in _COPIES:
            raise ValueError(
                f"Unknown copy method `{copy}` requested, choose one of None, `shallow` "
                "or `deep`."
            )
        self.copy_fn = _COPIES[copy]
        self.reset()

    def __len__(self) -> int:
        return len(self.main_datapipe)

    def get_length_by_instance(self, instance_id: int) -> int:
        return len(self.main_datapipe)

    def _following(self, instance_id):
        place = self.positions[instance_id] + 1
        if place == self.end:
            raise StopIteration
        if place <= self.leading:
            value = self.buffer[place - self.slowest - 1]
        else:
            try:
                value = next(self._datapipe_iterator)
            except StopIteration:
                self._datapipe_iterator = None
                self.end = place
                raise
            self.leading = place
            self.buffer.append(value)
        self.positions[instance_id] = place
        if place == self.slowest + 1 and min(self.positions) == place:
            self.slowest = place
            self.buffer.popleft()
        if 0 <= self.buffer_size < self.leading - self.slowest:
            self._overflow("ForkerIterDataPipe")
        return self.copy_fn(value)

    def _left(self, instance_id):
        if all(self._child_stop):
            self._cleanup()

    def is_every_instance_exhausted(self) -> bool:
        return self.end is not None and all(self._child_stop)

    def reset(self) -> None:
        self._begin()
        self.buffer: deque = deque()
        self.positions = [0] * self.num_instances
        self.slowest = self.leading = 0
        self.end = None

    _state = (
        "main_datapipe num_instances buffer_size copy_fn _valid_iterator_id".split()
    )

    def _cleanup(self) -> None:
        while self.buffer:
            StreamWrapper.close_streams(self.buffer.popleft())

    def __del__(self) -> None:
        if "buffer" in self.__dict__:
            self._cleanup()


def _no_op(value):
    return value


_COPIES: dict = {None: _no_op, "shallow": copy.copy, "deep": copy.deepcopy}


class _DemultiplexerIterDataPipe(_Container):
    """Gives every sample to the branch that a function names."""

    def __init__(
        self, datapipe, num_instances, classifier_fn, drop_none, buffer_size
    ) -> None:
        self._start(datapipe, num_instances, buffer_size, "demux")
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none
        self.reset()

    def get_length_by_instance(self, instance_id: int) -> int:
        raise TypeError(f"{type(self).__name__} instance doesn't have valid length")

    def _following(self, instance_id):
        own = self.child_buffers[instance_id]
        if own:
            self.current_buffer_usage -= 1
            return own.popleft()
        while not self.main_datapipe_exhausted:
            try:
                value = next(self._datapipe_iterator)
            except StopIteration:
                self.main_datapipe_exhausted = True
                self._datapipe_iterator = None
                break
            branch = self.classifier_fn(value)
            if branch is None and self.drop_none:
                StreamWrapper.close_streams(value)
                continue
            if branch is None or not 0 <= branch < self.num_instances:
                raise ValueError(
                    "Output of the classification fn should be between 0 and "
                    f"{self.num_instances - 1}. {branch} is returned."
                )
            if branch == instance_id:
                return value
            self.child_buffers[branch].append(value)
            self.current_buffer_usage += 1
            if 0 <= self.buffer_size < self.current_buffer_usage:
                self._overflow("DemultiplexerIterDataPipe")
        raise StopIteration

    def _left(self, instance_id):
        self._cleanup(instance_id)

    def is_every_instance_exhausted(self) -> bool:
        return self.main_datapipe_exhausted and all(self._child_stop)

    def reset(self) -> None:
        self._begin()
        self.current_buffer_usage = 0
        self.child_buffers: list[deque] = [deque() for _ in range(self.num_instances)]
        self.main_datapipe_exhausted = False

    _state = (
        "main_datapipe num_instances buffer_size classifier_fn drop_none "
        "_valid_iterator_id"
    ).split()

    def _cleanup(self, instance_id: int | None = None) -> None:
        which = range(self.num_instances) if instance_id is None else [instance_id]
        for number in which:
            queue = self.child_buffers[number]
            while queue:
                StreamWrapper.close_streams(queue.popleft())

    def __del__(self) -> None:
        if "child_buffers" in self.__dict__:
            self._cleanup()


class _ChildDataPipe(IterDataPipe):
    """One branch.

    The branches share what their source keeps: once a branch begins a second pass, all
    iterators of the first are ended, and the other branches begin anew as well.
    """

    _is_child_datapipe: bool = True

    def __init__(self, main_datapipe: Any, instance_id: int) -> None:
        if not isinstance(main_datapipe, _ContainerTemplate):
            raise AssertionError("main_datapipe must implement _ContainerTemplate")
        self.main_datapipe: Any = main_datapipe
        self.instance_id = instance_id

    def __iter__(self):
        return self.main_datapipe.get_next_element_by_instance(self.instance_id)

    def __len__(self) -> int:
        return self.main_datapipe.get_length_by_instance(self.instance_id)

    def _set_main_datapipe_valid_iterator_id(self) -> int:
        """The number of a new iterator: another one where this branch had the last."""
        source = self.main_datapipe
        if source._valid_iterator_id is None:
            source._valid_iterator_id = 0
        elif source._valid_iterator_id == self._valid_iterator_id:
            source._valid_iterator_id += 1
            if not source.is_every_instance_exhausted():
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We "
                    "are resetting the buffer and each child DataPipe will read from the "
                    "start again.",
                    UserWarning,
                    stacklevel=4,
                )
            source.reset()
        self._valid_iterator_id = source._valid_iterator_id
        return source._valid_iterator_id

    def _check_valid_iterator_id(self, iterator_id) -> bool:
        """Whether neither this branch nor another has begun anew."""
        return (
            iterator_id == self._valid_iterator_id
            and iterator_id == self.main_datapipe._valid_iterator_id
        )


def _check_count(num_instances):
    if num_instances < 1:
        raise ValueError(
            f"Expected `num_instances` larger than 0, but {num_instances} is found"
        )


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """Several pipes with the same samples: a list, or the pipe itself for one.

    Args:
        datapipe: the pipe before.
        num_instances: how many.
        buffer_size: how far the fastest may be ahead of the slowest; -1 for any.
        copy: whether each gets a ``"shallow"`` or ``"deep"`` copy of a sample.

    Raises:
        ValueError: there would be none, or no such copy is known.

    >>> one, two = rl.utils.data.datapipes.iter.IterableWrapper(range(3)).fork(2)
    >>> list(one), list(two)
    ([0, 1, 2], [0, 1, 2])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> Any:
        _check_count(num_instances)
        if num_instances == 1:
            return datapipe
        container = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(container, i) for i in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """Several pipes, each with the samples that a function gives its number to: a list.

    Args:
        datapipe: the pipe before.
        num_instances: how many.
        classifier_fn: a number from 0 on for a sample.
        drop_none: leave out samples that have None.
        buffer_size: how many samples may wait for the pipes to read them; -1 for any.

    Raises:
        ValueError: there would be none.

    >>> numbers = rl.utils.data.datapipes.iter.IterableWrapper(range(5))
    >>> even, odd = numbers.demux(2, (2).__rmod__)
    >>> list(even), list(odd)
    ([0, 2, 4], [1, 3])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        _check_count(num_instances)
        _check_unpickable_fn(classifier_fn)
        container = _DemultiplexerIterDataPipe(
            datapipe, num_instances, classifier_fn, drop_none, buffer_size
        )
        return [_ChildDataPipe(container, i) for i in range(num_instances)]
