"""One pass over the batches with threads that make them ahead."""

import copy
import itertools
import weakref
from concurrent import futures
from typing import Any

from rushlight.utils.data import info
from rushlight.utils.data._pipes import is_iterable_pipe, seeded, shared_out
from rushlight.utils.data.passes import PassIterator
from rushlight.utils.data.sampler import draw_seed
from rushlight.utils.data.worker import Failure


class _Hand:
    """One thread, and what it fetches batches with."""

    def __init__(self, loader, source, number, base_seed):
        self.loader = loader
        self.source = source
        self.number = number
        self.seed = base_seed + number
        self.fetch: Any = None
        self.failed: Failure | None = None
        self.pool = futures.ThreadPoolExecutor(
            1, f"DataLoader-{number}", self.present_itself
        )

    def present_itself(self):
        """Says who it is, as processes do; what goes wrong is its first batch's answer."""
        dataset = self.source.dataset
        info.own.present = info.WorkerInfo(
            self.number, self.loader.num_workers, self.seed, dataset
        )
        try:
            if self.loader.worker_init_fn is not None:
                self.loader.worker_init_fn(self.number)
        except Exception:
            self.failed = self.failure()

    def failure(self):
        return Failure.current(f"in DataLoader worker thread {self.number}")

    def answer(self, indices):
        """The status and value of one batch."""
        try:
            if self.failed is not None:
                failed, self.failed = self.failed, None
                return "failure", failed
            if self.fetch is None:
                self.fetch = self.source.open()
            return "batch", self.fetch(indices)
        except StopIteration:
            return (
                ("end", None) if self.source.iterable else ("failure", self.failure())
            )
        except Exception:
            return "failure", self.failure()


def _stop(hands):
    for hand in hands:
        hand.pool.shutdown(wait=False, cancel_futures=True)


class ThreadIterator(PassIterator):
    """Batches from threads, in the sampler's order unless told otherwise.

    The threads share the data set, but each iterates over a copy of an iterable one, and
    they share the process's random generators.
    """

    shown_as = "_MultiProcessingDataLoaderIter"

    def __init__(self, loader, source, skip=0):
        super().__init__(loader)
        self.timeout = loader.timeout or None
        self.in_order = loader.in_order
        self.indices = self.start(source, skip)
        base_seed = self.base_seed
        self.hands = []
        for number in range(loader.num_workers):
            own = source
            if source.iterable:
                whole = is_iterable_pipe(source.dataset)  # whose parts keep state
                duplicate = copy.deepcopy if whole else copy.copy
                own = source._replace(dataset=duplicate(source.dataset))
            seeded(own.dataset, self.shared_seed)
            shared_out(own.dataset, loader.num_workers, number)
            self.hands.append(_Hand(loader, own, number, base_seed))
        weakref.finalize(self, _stop, self.hands)
        self.worker_cycle = itertools.cycle(self.hands)
        self.active = set(range(loader.num_workers))
        self.waiting: list = []  # answers to come, in order, with their thread
        for _ in range(max(1, loader.prefetch_factor) * len(self.hands)):
            self.request()

    def draw(self, loader):
        """The seed that the threads' numbers are added to."""
        self.base_seed = draw_seed(loader.generator)

    def request(self):
        """Asks the next thread in turn for the next batch, if there is one."""
        if not self.active:
            return
        hand = next(h for h in self.worker_cycle if h.number in self.active)
        try:
            indices = next(self.indices)
        except StopIteration:
            return
        self.waiting.append((hand, hand.pool.submit(hand.answer, indices)))

    def _next_data(self):
        """The next batch."""
        while self.waiting:
            hand, answer = self.waiting.pop(self.first())
            status, value = answer.result()
            if status == "end":
                self.active.discard(hand.number)
                self.request()
                continue
            self.request()
            if status == "failure":
                value.reraise()
            return value
        _stop(self.hands)
        raise StopIteration

    def first(self):
        """The place of the answer to take; waits for it."""
        wanted = [answer for _, answer in self.waiting]
        if self.in_order:
            wanted = wanted[:1]
        done, _ = futures.wait(wanted, self.timeout, futures.FIRST_COMPLETED)
        if not done:
            _stop(self.hands)
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
        return next(i for i, (_, answer) in enumerate(self.waiting) if answer in done)
