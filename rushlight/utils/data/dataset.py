"""Collections of samples: by index, by iteration, and made of one another."""

import bisect
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import rushlight as rl

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples found by index: a subclass defines ``__getitem__`` and ``__len__``.

    A subclass may also define ``__getitems__(indices)``, which returns the list of a
    whole batch's samples at once.
    """

    def __getitem__(self, index) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: "Dataset") -> "ConcatDataset":
        return ConcatDataset([self, other])

    def batch_reader(self) -> Callable[[Sequence[int]], Any] | None:
        """A function from indices to their collated batch, where that is quicker.

        What it returns equals ``default_collate([self[i] for i in indices])``. ``None``
        means that samples are fetched one by one.
        """
        return None


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples that come one after another: a subclass defines ``__iter__``.

    Every worker process iterates over its own copy; ``get_worker_info`` says which
    share is its own.
    """

    def __add__(self, other: Dataset) -> "ChainDataset":  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple]):
    """Samples that are rows of tensors, all of the same first size.

    >>> data = rl.utils.data.TensorDataset(rl.arange(6).view(3, 2), rl.arange(3))
    >>> data[1]
    (tensor([2, 3]), tensor(1))
    """

    tensors: tuple

    def __init__(self, *tensors):
        lengths = [tensor.size(0) for tensor in tensors]
        if len(set(lengths)) > 1:
            raise AssertionError(
                f"Size mismatch between tensors: they have {lengths} rows"
            )
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return self.tensors[0].size(0)

    def batch_reader(self):
        # A subclass that changes its samples has no use for the rows as they are.
        return (
            self._rows if type(self).__getitem__ is TensorDataset.__getitem__ else None
        )

    def _rows(self, indices):
        """One gather from each tensor, in place of many slices and a stack."""
        rows = rows_of(indices, len(self))
        return [rl.index_select(tensor, 0, rows) for tensor in self.tensors]


def rows_of(indices, length):
    """Numbers of samples as a tensor of int64, those from the end counted from the start.

    Args:
        indices: integers.
        length: how many samples there are.

    Raises:
        IndexError: there is no such sample.
    """
    for index in indices:
        if not -length <= index < length:
            raise IndexError(
                f"index {index} is out of bounds for dimension 0 with size {length}"
            )
    return rl.tensor([i % length for i in indices], dtype=rl.int64)


class StackDataset(Dataset):
    """Samples of several data sets side by side: a tuple, or a dict where named."""

    def __init__(self, *args: Dataset, **kwargs: Dataset):
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are "
                "given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        parts = self._parts()
        self._length = len(parts[0])  # type: ignore[arg-type]
        if any(len(part) != self._length for part in parts):  # type: ignore[arg-type]
            raise ValueError("Size mismatch between datasets")

    def _parts(self) -> list[Dataset]:
        if isinstance(self.datasets, dict):
            return list(self.datasets.values())
        return list(self.datasets)

    def _join(self, values):
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, values))
        return tuple(values)

    def __getitem__(self, index):
        return self._join([part[index] for part in self._parts()])

    def __getitems__(self, indices: Sequence[int]) -> list:
        columns = []
        for part in self._parts():
            whole = getattr(part, "__getitems__", None)
            column = whole(indices) if whole else [part[index] for index in indices]
            if len(column) != len(indices):
                raise ValueError(
                    "Nested dataset's output size mismatch. "
                    f"Expected {len(indices)}, got {len(column)}"
                )
            columns.append(column)
        return [self._join(row) for row in zip(*columns)]

    def __len__(self):
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Several data sets one after another, found by index."""

    datasets: list[Dataset[T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence):
        return list(itertools.accumulate(len(part) for part in sequence))

    def __init__(self, datasets: Iterable[Dataset]):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if index < 0:
            if -index > len(self):
                raise ValueError(
                    "absolute value of index should not exceed dataset length"
                )
            index += len(self)
        part = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][index - before]

    @property
    def cummulative_sizes(self):
        """`cumulative_sizes`, under a name that was once misspelt."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
            FutureWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Several iterable data sets one after another."""

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = datasets

    def __iter__(self) -> Iterator:
        for part in self.datasets:
            self._check(part)
            yield from part

    def __len__(self):
        total = 0
        for part in self.datasets:
            self._check(part)
            total += len(part)
        return total

    @staticmethod
    def _check(part):
        if not isinstance(part, IterableDataset):
            raise AssertionError("ChainDataset only supports IterableDataset")


class Subset(Dataset[T_co]):
    """Those samples of a data set that a list of indices names."""

    dataset: Dataset[T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        chosen = [self.indices[i] for i in indices]
        whole = getattr(self.dataset, "__getitems__", None)
        return whole(chosen) if whole else [self.dataset[i] for i in chosen]

    def __len__(self):
        return len(self.indices)

    def batch_reader(self):
        plain = type(self).__getitem__ is Subset.__getitem__
        if not plain or not isinstance(self.dataset, Dataset):
            return None
        read = self.dataset.batch_reader()
        return read and (lambda batch: read([int(self.indices[i]) for i in batch]))


def random_split(
    dataset, lengths: Sequence[int | float], generator=rl.default_generator
) -> list[Subset]:
    """Splits a data set at random into parts that share no sample.

    Args:
        lengths: sizes that add up to the data set's, or fractions that add up to 1;
            what fractions leave over goes to the first parts, one sample each.
        generator: source of the permutation; the default generator if ``None``.

    Raises:
        ValueError: the lengths do not add up.

    >>> parts = rl.utils.data.random_split(range(10), [0.7, 0.3])
    >>> [len(part) for part in parts]
    [7, 3]
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _sizes_of_fractions(lengths, len(dataset))
    if sum(lengths) != len(dataset):
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset!\n"
            f"  lengths: {list(lengths)}, {sum(lengths)} together\n"
            f"  dataset: {len(dataset)} samples"
        )
    indices = rl.randperm(int(sum(lengths)), generator=generator).tolist()
    ends = itertools.accumulate(int(length) for length in lengths)
    return [
        Subset(dataset, indices[end - int(length) : end])
        for end, length in zip(ends, lengths)
    ]


def _sizes_of_fractions(fractions, total):
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    sizes = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if size == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. "
                "This might result in an empty dataset.",
                stacklevel=3,
            )
    return sizes
