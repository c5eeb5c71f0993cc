"""The launcher of one machine, in step with those of the others."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import timedelta

from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError
from rushlight.distributed.elastic.workers import Workers
from rushlight.distributed.errors import DistError, DistNetworkError
from rushlight.distributed.stores import PrefixStore, TCPStore

__all__ = ["Agent", "Job", "meet"]

SIBLING_PATIENCE = 5.0  # seconds that ranks have to fail by themselves after the first


@dataclass
class Job:
    """What is run, and how.

    Args:
        name: the program, for messages.
        command: the program and its arguments.
        processes: how many on this machine.
        least, most: how many machines.
        host, port: where launchers meet.
        node_rank: this machine's number; None where they are given as they come.
        run_id: the run's name.
        max_restarts: how often to start again after a failure.
        interval: seconds between looks at the processes.
        join_patience: seconds to wait for machines.
        last_call: seconds to wait for more machines than the least.
        role: a name that processes are told.
        end_patience: seconds that processes have to end.
        virtual: whether every process is told that it is local rank 0.
    """

    name: str
    command: list
    processes: int
    least: int = 1
    most: int = 1
    host: str = "127.0.0.1"
    port: int = 0
    node_rank: int | None = 0
    run_id: str = "none"
    max_restarts: int = 0
    interval: float = 0.1
    join_patience: float = 600.0
    last_call: float = 30.0
    role: str = "default"
    end_patience: float = 30.0
    virtual: bool = False


def meet(job):
    """The store that launchers meet at: served by the first machine.

    Args:
        job: the job.

    Returns:
        The store, and this machine's number where it was given here; else None.
    """
    patience = timedelta(seconds=job.join_patience)
    options = {"timeout": patience, "wait_for_workers": False}
    if job.node_rank is not None:
        return TCPStore(job.host, job.port, None, job.node_rank == 0, **options)
    try:  # whoever comes first at the endpoint serves it
        return TCPStore(job.host, job.port, None, True, **options)
    except (DistNetworkError, OSError):
        return TCPStore(job.host, job.port, None, False, **options)


class Agent:
    """Starts the processes of this machine, and again with all others after a failure.

    Args:
        job: what is run.
        logs: where output goes.
    """

    def __init__(self, job, logs):
        self.job, self.logs = job, logs
        self.server = meet(job)
        self.store = PrefixStore(f"launcher/{job.run_id}", self.server)
        self.node, self.counts, self.workers = job.node_rank, [], None

    def run(self):
        """Run the program to its end.

        Raises:
            ChildFailedError: it failed, and was not to be started again.
        """
        self._join()
        attempt = 0
        try:
            while True:
                self.workers = Workers(
                    self.job.command, self._environments(attempt), self.logs, attempt
                )
                failures = self._watch(attempt)
                if failures is None:
                    return
                self.workers.end(self.job.end_patience)
                if attempt >= self.job.max_restarts:
                    raise ChildFailedError(self.job.name, failures)
                attempt += 1
        finally:
            if self.workers is not None:
                self.workers.end(self.job.end_patience)
            self._leave()

    def _join(self):
        """Come together with the other machines: who has which number."""
        job = self.job
        if self.node is None:
            self.node = self.store.add("nodes", 1) - 1
        self.store.set(f"node/{self.node}", str(job.processes))
        self.store.add("joined", 1)
        last = time.monotonic() + job.join_patience
        call = time.monotonic() + job.last_call
        while (joined := self.store.add("joined", 0)) < job.most:
            now = time.monotonic()
            if joined >= job.least and now > call and job.node_rank is None:
                break
            if now > last:
                raise DistError(
                    f"{joined} of {job.least} machines have come in "
                    f"{job.join_patience:.0f} seconds\n  meeting point: {job.host}:"
                    f"{self.server.port}"
                )
            time.sleep(0.05)
        nodes = int(self.store.compare_set("count", "", str(joined)))
        if self.node >= nodes:
            raise DistError(f"machine {self.node} came after {nodes} had started")
        self.counts = [int(self.store.get(f"node/{i}")) for i in range(nodes)]

    def _environments(self, attempt):
        """What each process of this machine is told."""
        job, counts = self.job, self.counts
        first, world = sum(counts[: self.node]), sum(counts)
        common = {
            "GROUP_RANK": self.node,
            "ROLE_NAME": job.role,
            "LOCAL_WORLD_SIZE": job.processes,
            "WORLD_SIZE": world,
            "GROUP_WORLD_SIZE": len(counts),
            "ROLE_WORLD_SIZE": world,
            "MASTER_ADDR": job.host,
            "MASTER_PORT": self.server.port,
            "TORCHELASTIC_RESTART_COUNT": attempt,
            "TORCHELASTIC_MAX_RESTARTS": job.max_restarts,
            "TORCHELASTIC_RUN_ID": job.run_id,
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        if job.processes > 1 and "OMP_NUM_THREADS" not in os.environ:
            common["OMP_NUM_THREADS"] = 1
        found = []
        for local in range(job.processes):
            own = {
                "LOCAL_RANK": 0 if job.virtual else local,
                "RANK": first + local,
                "ROLE_RANK": first + local,
            }
            found.append({k: str(v) for k, v in {**common, **own}.items()})
        return found

    def _watch(self, attempt):
        """Wait for the end of an attempt.

        Returns:
            None where all machines' processes ended well; else the failures of this.
        """
        reported = False
        while True:
            failures = self.workers.failures()
            if failures:
                self.store.set(f"failed/{attempt}", str(self.node))
                return self._all_failures(failures)
            if self.workers.are_done() and not reported:
                reported = True
                self.store.add(f"done/{attempt}", 1)
            if reported and self.store.add(f"done/{attempt}", 0) >= len(self.counts):
                return None
            if len(self.counts) > 1 and self.store.check([f"failed/{attempt}"]):
                return self._all_failures({}) or self._failure_of_others(attempt)
            time.sleep(self.job.interval)

    def _all_failures(self, failures):
        """The failures of the processes, which learn of the first one by themselves."""
        last = time.monotonic() + min(SIBLING_PATIENCE, self.job.end_patience)
        while time.monotonic() < last:
            if all(p.poll() is not None for p in self.workers.processes):
                break
            time.sleep(0.02)
        return self.workers.failures() or failures

    def _failure_of_others(self, attempt):
        from rushlight.distributed.elastic.multiprocessing.errors import ProcessFailure

        node = self.store.get(f"failed/{attempt}").decode()
        failure = ProcessFailure(-1, 0, 1, "")
        failure.message = (
            f"a process of machine {node} has failed; its launcher says how"
        )
        return {-1: failure}

    def _leave(self):
        """Keep the store until all machines are through with it."""
        try:
            self.store.add("left", 1)
            last = time.monotonic() + SIBLING_PATIENCE
            serves = getattr(self.server, "_server", None) is not None
            while serves and time.monotonic() < last:
                if self.store.add("left", 0) >= len(self.counts):
                    break
                time.sleep(0.02)
        except DistError:
            pass  # the machine that served it is gone
