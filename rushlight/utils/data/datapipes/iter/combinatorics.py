"""Other orders of the same samples."""

import random
from collections.abc import Iterator, Sized
from typing import Any, TypeVar

import rushlight as rl
from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.utils.common import Shuffled, length_of
from rushlight.utils.data.sampler import Sampler, SequentialSampler

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]

T_co = TypeVar("T_co", covariant=True)


class SamplerIterDataPipe(IterDataPipe[T_co]):
    """What a sampler gives over a pipe: indices.

    Args:
        datapipe: the pipe, which knows its length.
        sampler: a class of samplers.
        sampler_args, sampler_kwargs: what it is made with beside the pipe.
    """

    datapipe: IterDataPipe
    sampler: Sampler

    def __init__(
        self,
        datapipe: IterDataPipe,
        sampler: Any = SequentialSampler,
        sampler_args: tuple | None = None,
        sampler_kwargs: dict | None = None,
    ) -> None:
        if not isinstance(datapipe, Sized):
            raise AssertionError(
                "Sampler class requires input datapipe implemented `__len__`"
            )
        super().__init__()
        self.datapipe = datapipe
        self.sampler_args = () if sampler_args is None else sampler_args
        self.sampler_kwargs = {} if sampler_kwargs is None else sampler_kwargs
        self.sampler_kwargs["data_source"] = self.datapipe
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return length_of(self, self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffled, IterDataPipe[T_co]):
    """The samples in a random order, as far as a buffer allows.

    Args:
        datapipe: the pipe before.
        buffer_size: how many samples wait for their turn; with all of them every order
            is as likely, with one the order stays.
        unbatch_level: how many levels of batches are opened first.

    Each pass draws a seed from the default generator, unless ``set_seed`` gave one.

    >>> pipe = rl.utils.data.datapipes.iter.IterableWrapper(range(6)).shuffle()
    >>> list(pipe.set_seed(0)) == list(pipe.set_seed(0)), sorted(pipe)
    (True, [0, 1, 2, 3, 4, 5])
    """

    datapipe: IterDataPipe[T_co]
    buffer_size: int

    def __init__(
        self,
        datapipe: IterDataPipe[T_co],
        *,
        buffer_size: int = 10000,
        unbatch_level: int = 0,
    ) -> None:
        super().__init__()
        self._buffer: list = []
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        if unbatch_level != 0:
            datapipe = datapipe.unbatch(unbatch_level=unbatch_level)
        self.datapipe = datapipe
        self.buffer_size = buffer_size
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

    def __iter__(self) -> Iterator[T_co]:
        if not self._enabled:
            yield from self.datapipe
            return
        for each in self.datapipe:
            if len(self._buffer) < self.buffer_size:
                self._buffer.append(each)
                continue
            place = self._rng.randint(0, len(self._buffer) - 1)
            leaving, self._buffer[place] = self._buffer[place], each
            yield leaving
        while self._buffer:
            yield self._buffer.pop(self._rng.randint(0, len(self._buffer) - 1))

    def __len__(self) -> int:
        return length_of(self, self.datapipe)

    def reset(self) -> None:
        self._buffer = []
        if self._enabled:
            if self._seed is None:
                self._seed = int(rl.empty((), dtype=rl.int64).random_().item())
            self._rng.seed(self._seed)
            self._seed = None

    def __getstate__(self):
        return self._hooked(
            (
                self.datapipe,
                self.buffer_size,
                self._enabled,
                self._seed,
                self._buffer,
                self._rng.getstate(),
                self._valid_iterator_id,
                self._number_of_samples_yielded,
            )
        )

    def __setstate__(self, state):
        (
            self.datapipe,
            self.buffer_size,
            self._enabled,
            self._seed,
            self._buffer,
            drawn,
            self._valid_iterator_id,
            self._number_of_samples_yielded,
        ) = state
        self._rng = random.Random()
        self._rng.setstate(drawn)
