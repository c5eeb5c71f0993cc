"""The order in which a data set is read: iterables over its indices."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import rushlight as rl

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """An order over a data set: a subclass defines ``__iter__``, maybe ``__len__``."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__()")


class SequentialSampler(Sampler[int]):
    """Every index, first to last."""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices at random: a permutation, or independent draws with replacement.

    Without a generator each pass draws a seed from the default one, so that what
    consumes it during the pass does not change the order.

    Args:
        data_source: what has a length.
        replacement: whether an index may be drawn several times.
        num_samples: how many are drawn.
        generator: where the random numbers come from.
    """

    def __init__(
        self, data_source, replacement=False, num_samples=None, generator=None
    ):
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                "replacement should be a boolean value, "
                f"but got replacement={replacement}"
            )
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                "num_samples should be a positive integer value, "
                f"but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        if self._num_samples is None:
            return len(self.data_source)
        return self._num_samples

    def __iter__(self):
        generator = self.generator
        if generator is None:
            generator = rl.Generator()
            generator.manual_seed(draw_seed(None))
        size = len(self.data_source)
        if self.replacement:
            yield from self._draws(size, generator)
            return
        for _ in range(self.num_samples // size):
            yield from rl.randperm(size, generator=generator).tolist()
        # PyTorch draws this permutation even where none of it is left to use.
        last = rl.randperm(size, generator=generator).tolist()
        yield from last[: self.num_samples % size]

    def _draws(self, size, generator):
        for start in range(0, self.num_samples + 1, 32):  # also where none are left
            yield from rl.randint(
                high=size,
                size=(min(32, self.num_samples - start),),
                dtype=rl.int64,
                generator=generator,
            ).tolist()

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """A permutation of the given indices."""

    def __init__(self, indices: Sequence[int], generator=None):
        self.indices = indices
        self.generator = generator

    def __iter__(self):
        for i in rl.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices at random, each in proportion to its weight.

    Args:
        weights: one for each index; they need not add up to 1.
        num_samples: how many are drawn.
        replacement: whether an index may be drawn several times.
        generator: where the random numbers come from.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement=True,
        generator=None,
    ):
        if (
            not isinstance(num_samples, int)
            or isinstance(num_samples, bool)
            or num_samples <= 0
        ):
            raise ValueError(
                "num_samples should be a positive integer value, "
                f"but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                "replacement should be a boolean value, "
                f"but got replacement={replacement}"
            )
        self.weights = rl.as_tensor(weights, dtype=rl.float64)
        if self.weights.dim() != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self):
        yield from rl.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        ).tolist()

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Another sampler's indices in lists of ``batch_size``.

    Args:
        sampler: gives the indices.
        batch_size: how many indices a list has.
        drop_last: whether a last, shorter list is left out.

    >>> list(BatchSampler(SequentialSampler(range(5)), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable, batch_size: int, drop_last: bool):
        if (
            not isinstance(batch_size, int)
            or isinstance(batch_size, bool)
            or batch_size <= 0
        ):
            raise ValueError(
                "batch_size should be a positive integer value, "
                f"but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(
                f"drop_last should be a boolean value, but got drop_last={drop_last}"
            )
        self.sampler: Any = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self):
        if self.drop_last:
            return len(self.sampler) // self.batch_size
        return (len(self.sampler) + self.batch_size - 1) // self.batch_size


class InfiniteSampler(Sampler[None]):
    """Asks an iterable data set for one more sample, for ever."""

    def __iter__(self):
        return itertools.repeat(None)


def draw_seed(generator) -> int:
    """The next 63 bits of a generator, the default one if ``None``."""
    return int(rl.empty((), dtype=rl.int64).random_(generator=generator).item())
