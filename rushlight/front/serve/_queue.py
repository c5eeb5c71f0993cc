"""Requests that wait, and the batches that are made of them."""

import asyncio
import collections
import time


class Full(Exception):
    """So many requests wait that no more is taken."""


class Job:
    """A request on its way: what was asked, and the future of its answer."""

    __slots__ = ("request", "answer", "arrived", "attempts")

    def __init__(self, request):
        self.request = request
        self.answer = asyncio.get_running_loop().create_future()
        self.arrived, self.attempts = time.monotonic(), 0


class Queue:
    """Jobs in the order of their arrival.

    A batch is whatever has arrived when it is full, or when its first job has waited as
    long as it may. Those that a worker took with it stand in front again, and go alone
    from their second attempt on: the one that ends workers then ends no other's request.
    """

    def __init__(self, most):
        self.jobs, self.most = collections.deque(), most
        self.changed = asyncio.Event()

    def __len__(self):
        return len(self.jobs)

    def put(self, job):
        """One more at the end.

        Raises:
            Full: too many wait.
        """
        if len(self.jobs) >= self.most:
            raise Full
        self.jobs.append(job)
        self.changed.set()

    def put_back(self, jobs):
        """Jobs that were not answered, in front."""
        self.jobs.extendleft(reversed([job for job in jobs if not job.answer.done()]))
        self.changed.set()

    def wake(self):
        """Lets those that wait for a batch look again."""
        self.changed.set()

    async def batch(self, size, delay, stopping):
        """The next jobs to run together; None where there is to be none."""
        while True:
            while self.jobs and self.jobs[0].answer.done():
                self.jobs.popleft()  # nobody waits for it any more
            if stopping():
                return None
            left = None
            if self.jobs:
                left = self.jobs[0].arrived + delay - time.monotonic()
                if len(self.jobs) >= size or left <= 0 or self.jobs[0].attempts:
                    return self.take(size)
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), left)
            except TimeoutError:
                pass

    def take(self, size):
        """The first jobs that anybody waits for."""
        taken = []
        while self.jobs and len(taken) < size:
            if self.jobs[0].attempts and taken:
                break
            job = self.jobs.popleft()
            if not job.answer.done():
                taken.append(job)
                if job.attempts:
                    break
        return taken
