"""One pass over the batches: how far it is, and how another one gets there."""

from typing import Any

import rushlight as rl
from rushlight.core import spans
from rushlight.core.warning import warn
from rushlight.utils.data._pipes import draw_shared
from rushlight.utils.data._utils.pin_memory import pin_memory
from rushlight.utils.data.sampler import draw_seed


class PassIterator:
    """One pass over a loader's batches, which counts what it has given.

    A kind of pass defines ``_next_data``, which returns the next batch. ``begun`` is the
    state that the generator of the order had when the pass began.
    """

    shown_as = "_SingleProcessDataLoaderIter"  # what profilers call the kind of pass

    def __init__(self, loader):
        self.loader_generator = loader.generator
        self.sampler = loader._index_sampler
        self.begun: Any = None
        self.taken = 0
        self.ended = False
        self.draw_for = loader
        self.shared_seed = draw_shared(loader.dataset, loader.generator)
        self.pins = loader.pin_memory and rl.cuda.is_available()
        self.promised = getattr(loader, "_promised_length", None)
        self.workers = getattr(loader, "num_workers", 0)
        self.dataset = loader.dataset
        if loader.pin_memory and getattr(loader, "pin_memory_device", ""):
            warn(
                "pin_memory_device is deprecated, the current accelerator will be used as "
                f"the device,ignore pin_memory_device='{loader.pin_memory_device}'."
            )
        if loader.pin_memory and not self.pins:
            warn(
                "'pin_memory' argument is set as true but no accelerator is found, then "
                "device pinned memory won't be used."
            )

    def start(self, source, skip):
        """An iterator over the indices, beyond those of batches that are left out."""
        indices = iter(self.sampler)  # which may draw numbers before the seed is drawn
        self.draw(self.draw_for)
        self.draw_for = None
        self.taken = skip
        if not source.iterable:
            for _ in range(skip):
                next(indices, None)
        return indices

    def draw(self, loader):
        """Draws what workers are seeded by, so that any number of them leaves the order."""
        draw_seed(loader.generator)

    def __iter__(self):
        return self

    def __len__(self):
        return len(self.sampler)

    def __next__(self):
        if not spans.is_recording():
            return self._take()
        token = spans.begin(f"enumerate(DataLoader)#{self.shown_as}.__next__")
        try:
            return self._take()
        finally:
            spans.end(token)

    def _take(self):
        try:
            batch = self._next_data()
        except StopIteration:
            self.ended = True
            raise
        except Exception:
            self.taken += 1  # a batch that failed is past, too
            raise
        self.taken += 1
        if self.promised is not None and self.taken > self.promised:
            self._warn_of_length()
        return pin_memory(batch) if self.pins else batch

    def _warn_of_length(self):
        """Says that an iterable data set gives more than ``len(loader)`` was told."""
        words = (
            f"Length of IterableDataset {self.dataset} was reported to be {self.promised}"
            f"(when accessing len(dataloader)), but {self.taken} samples have been "
            "fetched. "
        )
        if self.workers > 0:
            words += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data."
                "IterableDataset for examples."
            )
        warn(words)

    def _next_data(self):
        """The next batch."""
        raise NotImplementedError(f"{type(self).__name__} defines no _next_data()")

    def state(self) -> dict:
        """How far the pass is: ``resume`` gets another one there."""
        if self.ended:
            return {"batches": 0, "generator": None}
        return {"batches": self.taken, "generator": self.begun}


def resume(loader, state, make):
    """A pass that goes on where another was.

    Args:
        loader: whose pass it is.
        state: what ``PassIterator.state`` gave, or None for a new pass.
        make: from a number of batches to leave out to the pass.
    """
    own = loader.generator
    generator = rl.default_generator if own is None else own
    skip = state["batches"] if state else 0
    if not skip:
        begun = generator.get_state()
        iterator = make(0)
    else:
        before, begun = generator.get_state(), state["generator"]
        generator.set_state(begun)
        try:
            iterator = make(skip)
        finally:
            if own is None:
                generator.set_state(before)
    iterator.begun = begun
    return iterator
