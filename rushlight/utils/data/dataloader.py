"""Batches of a data set, made here or by worker processes, in a reproducible order."""

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from rushlight.core.warning import warn
from rushlight.utils.data._pipes import is_iterable_pipe, ordered, seeded, shared_out
from rushlight.utils.data.collate import default_collate, default_convert
from rushlight.utils.data.dataset import Dataset as Dataset
from rushlight.utils.data.dataset import IterableDataset
from rushlight.utils.data.fetch import Source
from rushlight.utils.data.fetch import _DatasetKind as _DatasetKind
from rushlight.utils.data.info import get_worker_info as get_worker_info
from rushlight.utils.data.passes import PassIterator, resume
from rushlight.utils.data.sampler import (
    BatchSampler,
    InfiniteSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

_T = TypeVar("_T")
T_co = TypeVar("T_co", covariant=True)
_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[list[_T]], Any]

_FIXED = frozenset(
    ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset")
    + ("persistent_workers",)
)  # what the order of the batches was made of


class DataLoader(Generic[T_co]):
    """An iterable over the batches of a data set.

    Args:
        dataset: samples by index, or an ``IterableDataset``.
        batch_size: samples in a batch; ``None`` yields samples as they are.
        shuffle: a new random order on every pass.
        sampler: the order of the indices, in place of ``shuffle``.
        batch_sampler: the lists of indices, in place of size, order and drop_last.
        num_workers: processes that fetch and collate; 0 does it here.
        collate_fn: joins a list of samples to a batch.
        pin_memory: kept for programs that set it; host memory needs no pinning here.
        drop_last: leaves out a last batch that is not full.
        timeout: seconds to wait for a worker's batch; 0 waits for ever.
        worker_init_fn: called with the worker's number once it has its seed.
        multiprocessing_context: how processes start, ``"fork"`` by default; ``"thread"``
            has threads in their place, which share the data set and the generators.
        generator: source of the order and of the workers' seeds.
        prefetch_factor: batches that each worker makes ahead; 2 if there are workers.
        persistent_workers: keeps the workers from one pass to the next.
        in_order: yields batches in the sampler's order; otherwise as they come.

    >>> data = rl.utils.data.TensorDataset(rl.arange(5))
    >>> [batch[0].tolist() for batch in rl.utils.data.DataLoader(data, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: Callable | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable | None = None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        iterable = isinstance(dataset, IterableDataset)
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        check_context(multiprocessing_context, num_workers)
        if multiprocessing_context != "thread":
            _warn_of_many_workers(num_workers)
        if iterable and is_iterable_pipe(dataset):
            dataset, shuffle = ordered(dataset, shuffle), None
        if iterable:
            check_iterable(shuffle, sampler, batch_sampler)
        check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None and iterable:
            sampler = InfiniteSampler()
        elif sampler is None and shuffle:
            sampler = RandomSampler(dataset, generator=generator)
        elif sampler is None:
            sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)

        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        self.generator = generator
        self.num_workers = num_workers
        self.prefetch_factor = (
            2 if num_workers and prefetch_factor is None else prefetch_factor
        )
        self.persistent_workers = persistent_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        plain = default_convert if batch_sampler is None else default_collate
        self.collate_fn = plain if collate_fn is None else collate_fn
        self._iterator: Any = None
        self._current: Any = None  # a weak reference to the pass that is going on
        self._resume: dict | None = None  # where the next pass goes on
        self._promised_length: int | None = None  # what its iterable data set said
        self._complete = True

    def __setattr__(self, name, value):
        if name in _FIXED and self.__dict__.get("_complete"):
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is "
                "initialized"
            )
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator:
        source = Source.of(self)
        state, self._resume = self._resume, None
        iterator = resume(self, state, lambda skip: self._begin(source, skip))
        self._current = weakref.ref(iterator)
        if state and source.iterable:
            _leave_out(iterator, state["batches"])
        return iterator

    def _begin(self, source, skip):
        if not self.num_workers:
            if self.timeout:
                raise AssertionError(
                    "_SingleProcessDataLoaderIter requires timeout == 0: only workers are "
                    f"waited for (got timeout={self.timeout})"
                )
            return SerialIterator(self, source, skip)
        if self.multiprocessing_context == "thread":
            from rushlight.utils.data.threads import ThreadIterator

            return ThreadIterator(self, source, skip)
        from rushlight.utils.data.parallel import ParallelIterator

        if not self.persistent_workers:
            return ParallelIterator(self, source, skip)
        if self._iterator is None:
            self._iterator = ParallelIterator(self, source, skip)
        else:
            self._iterator.restart(skip)
        return self._iterator

    def state_dict(self) -> dict:
        """How far the pass that is going on has come, for ``load_state_dict``.

        >>> data = rl.utils.data.TensorDataset(rl.arange(6))
        >>> loader = rl.utils.data.DataLoader(data, batch_size=2, shuffle=True)
        >>> batches = iter(loader)
        >>> _ = next(batches)
        >>> state = loader.state_dict()
        >>> rest = [batch[0].tolist() for batch in batches]
        >>> loader.load_state_dict(state)
        >>> [batch[0].tolist() for batch in loader] == rest
        True
        """
        iterator = self._current() if self._current is not None else None
        if iterator is None:
            return {"batches": 0, "generator": None}
        return iterator.state()

    def load_state_dict(self, state_dict: dict) -> None:
        """Lets the next pass go on where another one was.

        The order is that of the other pass; samples before the place are not fetched,
        but an iterable data set is read up to it. The default generator is left as it is.

        Args:
            state_dict: what ``state_dict`` returned, there or in another run.

        Raises:
            ValueError: it is something else.
        """
        if not isinstance(state_dict, dict) or set(state_dict) != {
            "batches",
            "generator",
        }:
            raise ValueError("load_state_dict: not a state of a DataLoader")
        self._resume = dict(state_dict)

    @property
    def _auto_collation(self) -> bool:
        """Whether indices come in lists, and samples are collated."""
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        """What yields one batch's indices at a time, or one index where not batched."""
        return self.batch_sampler if self._auto_collation else self.sampler

    @property
    def _dataset_kind(self) -> int:
        """Whether samples are read by index or one after the other."""
        if isinstance(self.dataset, IterableDataset):
            return _DatasetKind.Iterable
        return _DatasetKind.Map

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        length = len(self.dataset)  # type: ignore[arg-type]
        self._promised_length = length
        if self.batch_size is None:
            return length
        whole, rest = divmod(length, self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)


class SerialIterator(PassIterator):
    """One pass over the batches, fetched in this process as they are asked for.

    Args:
        loader: a `DataLoader`, or anything with the attributes of one that a pass reads.
        source: where samples are read; the loader's by default.
        skip: batches that another pass has given.
    """

    def __init__(self, loader, source: Source | None = None, skip: int = 0):
        super().__init__(loader)
        source = Source.of(loader) if source is None else source
        seeded(source.dataset, self.shared_seed)
        shared_out(source.dataset)
        self.indices = self.start(source, skip)
        self.fetch = source.open()

    def _next_data(self):
        return self.fetch(next(self.indices))


def _leave_out(iterator, count):
    """Takes batches of an iterable data set and drops them."""
    iterator.taken = 0
    for _ in range(count):
        next(iterator, None)


# PyTorch's names for the kinds of passes, which programs ask for.
_BaseDataLoaderIter = PassIterator
_SingleProcessDataLoaderIter = SerialIterator


def __getattr__(name):
    if name == "_MultiProcessingDataLoaderIter":
        from rushlight.utils.data.parallel import ParallelIterator

        return ParallelIterator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check_workers(num_workers, timeout, prefetch_factor, persistent_workers):
    """Refuses numbers that make no sense, and options that want workers without any."""
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; "
            f"use num_workers=0 to disable multiprocessing (got {num_workers})."
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative (got {timeout})")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing; "
            "let num_workers > 0 to enable it, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _warn_of_many_workers(num_workers):
    """Says that there are more processes than processors that they may run on."""
    by_affinity = hasattr(os, "sched_getaffinity")
    most = len(os.sched_getaffinity(0)) if by_affinity else os.cpu_count()
    if not num_workers or most is not None and num_workers <= most:
        return
    suggested = (
        f"Our suggested max number of worker in current system is {most}"
        f"{'' if by_affinity else ' (`cpuset` is not taken into account)'}, which is "
        "smaller than what this DataLoader is going to create."
    )
    if most is None:
        suggested = (
            "DataLoader is not able to compute a suggested max number of worker in "
            "current system."
        )
    warn(
        f"This DataLoader will create {num_workers} worker processes in total. "
        f"{suggested} Please be aware that excessive worker creation might get DataLoader "
        "running slow or even freeze, lower the worker number to avoid potential "
        "slowness/freeze if necessary."
    )


def check_context(context, num_workers):
    """Refuses a way to start workers that there is not, or that nobody asked for."""
    if context is None:
        return
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading "
            f"(num_workers > 0), but got num_workers={num_workers}"
        )
    if isinstance(context, str) and context != "thread":
        import multiprocessing

        known = multiprocessing.get_all_start_methods()
        if context not in known:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{known!r}, but got multiprocessing_context={context!r}"
            )
    elif not isinstance(context, str) and not hasattr(context, "get_start_method"):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={context!r}"
        )


def check_iterable(shuffle, sampler, batch_sampler):
    """Refuses an order for a data set that has its own."""
    if shuffle not in (False, None):
        raise ValueError(
            "DataLoader with IterableDataset: expected unspecified shuffle option, "
            f"but got shuffle={shuffle}"
        )
    for name, value in ("sampler", sampler), ("batch_sampler", batch_sampler):
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, "
                f"but got {name}={value}"
            )


def check_order(batch_size, shuffle, sampler, batch_sampler, drop_last):
    """Refuses two sources of one decision."""
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive "
                "with batch_size, shuffle, sampler, and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching "
            "and is mutually exclusive with drop_last"
        )
