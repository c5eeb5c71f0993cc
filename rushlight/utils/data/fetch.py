"""From indices to a collated batch, in whichever process that happens."""

from typing import Any, NamedTuple

from rushlight.utils.data.collate import default_collate
from rushlight.utils.data.dataset import Dataset


class _DatasetKind:
    """What a loader reads from: samples by index, or one after the other."""

    Map = 0
    Iterable = 1


class Source(NamedTuple):
    """A data set and how its samples become batches."""

    dataset: Any
    batched: bool  # indices come in lists, samples are collated
    iterable: bool
    collate: Any
    drop_last: bool

    @classmethod
    def of(cls, loader):
        """What a loader reads, by the names that programs give loaders of their own."""
        return cls(
            loader.dataset,
            batched=loader._auto_collation,
            iterable=loader._dataset_kind == _DatasetKind.Iterable,
            collate=loader.collate_fn,
            drop_last=loader.drop_last,
        )

    def open(self):
        """A function from what the sampler yields to a batch.

        For an iterable data set it raises StopIteration at the end.
        """
        if self.iterable:
            return _Iterating(self)
        if not self.batched:
            return lambda index: self.collate(self.dataset[index])
        if self.collate is default_collate and isinstance(self.dataset, Dataset):
            read = self.dataset.batch_reader()
            if read is not None:
                return read
        whole = getattr(self.dataset, "__getitems__", None)
        if whole:
            return lambda indices: self.collate(whole(indices))
        return lambda indices: self.collate([self.dataset[i] for i in indices])


class _Iterating:
    """Takes samples from an iterable data set, as many as there are indices."""

    def __init__(self, source: Source):
        self.source = source
        self.samples = iter(source.dataset)
        self.ended = False

    def __call__(self, indices):
        if self.ended:
            raise StopIteration
        if not self.source.batched:
            return self.source.collate(next(self.samples))
        batch = []
        for _ in indices:
            try:
                batch.append(next(self.samples))
            except StopIteration:
                self.ended = True
                break
        if not batch or (self.source.drop_last and len(batch) < len(indices)):
            raise StopIteration
        return self.source.collate(batch)
