"""Other orders of the same samples."""

import random
from collections.abc import Iterator
from typing import TypeVar

import rushlight as rl
from rushlight.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from rushlight.utils.data.datapipes.utils.common import Shuffled

__all__ = ["ShufflerIterDataPipe"]

T_co = TypeVar("T_co", covariant=True)


class ShufflerIterDataPipe(Shuffled, IterDataPipe[T_co]):
    """The samples one after another, in a random order.

    Args:
        datapipe: the pipe before.
        indices: its indices, 0 and on where left out.

    Each pass draws a seed from the default generator, unless ``set_seed`` gave one.

    >>> pipe = rl.utils.data.datapipes.map.SequenceWrapper("abcd").shuffle()
    >>> list(pipe.set_seed(0)) == list(pipe.set_seed(0)), sorted(pipe)
    (True, ['a', 'b', 'c', 'd'])
    """

    datapipe: MapDataPipe[T_co]

    def __init__(
        self, datapipe: MapDataPipe[T_co], *, indices: list | None = None
    ) -> None:
        super().__init__()
        self.datapipe = datapipe
        count = range(len(datapipe)) if indices is None else indices
        self.indices = list(count) if indices is None else indices
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()
        self._shuffled_indices: list = self.indices

    def __iter__(self) -> Iterator[T_co]:
        if not self._enabled:
            for index in self.indices:
                yield self.datapipe[index]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def reset(self) -> None:
        if self._enabled and self._seed is None:
            self._seed = int(rl.empty((), dtype=rl.int64).random_().item())
        self._rng.seed(self._seed)
        self._seed = None
        self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __len__(self) -> int:
        return len(self.datapipe)

    def __getstate__(self):
        return self._hooked(
            (
                self.datapipe,
                self.indices,
                self._enabled,
                self._seed,
                self._rng.getstate(),
                self._shuffled_indices,
                self._valid_iterator_id,
                self._number_of_samples_yielded,
            )
        )

    def __setstate__(self, state):
        (
            self.datapipe,
            self.indices,
            self._enabled,
            self._seed,
            drawn,
            self._shuffled_indices,
            self._valid_iterator_id,
            self._number_of_samples_yielded,
        ) = state
        self._rng = random.Random()
        self._rng.setstate(drawn)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
