"""The launcher of one machine, in step with those of the others."""

import os
import time
from dataclasses import dataclass, field
from datetime import timedelta

from rushlight.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ProcessFailure,
)
from rushlight.distributed.elastic.rendezvous.errors import RendezvousClosedError
from rushlight.distributed.elastic.rendezvous.rounds import Limits, Rounds
from rushlight.distributed.elastic.workers import Workers
from rushlight.distributed.errors import DistError, DistNetworkError
from rushlight.distributed.stores import PrefixStore, TCPStore

DONE = "it has ended"  # what machines that come later are told
SIBLING_PATIENCE = 5.0  # seconds that ranks have to fail by themselves after the first


@dataclass
class Job:
    """What is run, and how.

    Args:
        name: the program, for messages.
        command: the program and its arguments.
        processes: how many on this machine.
        host, port: where launchers meet.
        node_rank: this machine's number; None where they are given as they come.
        run_id: the run's name.
        max_restarts: how often to start again after a failure.
        interval: seconds between looks at the processes.
        limits: how many machines come together, and how long they are waited for.
        role: a name that processes are told.
        end_patience: seconds that processes have to end.
        virtual: whether every process is told that it is local rank 0.
    """

    name: str
    command: list
    processes: int
    host: str = "127.0.0.1"
    port: int = 0
    node_rank: int | None = 0
    run_id: str = "none"
    max_restarts: int = 0
    interval: float = 0.1
    limits: Limits = field(default_factory=Limits)
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
    patience = timedelta(seconds=job.limits.join)
    options = {"timeout": patience, "wait_for_workers": False}
    if job.node_rank is not None:
        return TCPStore(job.host, job.port, None, job.node_rank == 0, **options)
    try:  # whoever comes first at the endpoint serves it
        return TCPStore(job.host, job.port, None, True, **options)
    except (DistNetworkError, OSError):
        return TCPStore(job.host, job.port, None, False, **options)


class Agent:
    """Starts the processes of this machine, and again with all others: after a failure, or
    when a machine comes or goes.

    Args:
        job: what is run.
        logs: where output goes.
    """

    def __init__(self, job, logs):
        self.job, self.logs = job, logs
        self.server = meet(job)
        self.store = PrefixStore(f"launcher/{job.run_id}", self.server)
        fact = job.processes
        self.rounds = Rounds(self.store, job.limits, fact, job.node_rank)
        self.round, self.workers = None, None

    def run(self):
        """Run the program to its end.

        Raises:
            ChildFailedError: it failed, and was not to be started again.
            DistError: too few machines have come.
        """
        try:
            while self._run_round():
                pass
        finally:
            if self.workers is not None:
                self.workers.end(self.job.end_patience)
            self._leave()

    def _run_round(self):
        """Run the program with the machines that there are; whether it is to run again."""
        try:
            self.round = self.rounds.join()
        except RendezvousClosedError as error:
            if DONE in str(error):
                return False
            raise ChildFailedError(
                self.job.name, self._failure_of_others(str(error))
            ) from None
        number = self.round.number
        self.workers = Workers(
            self.job.command, self._environments(self.round), self.logs, number
        )
        failures = self._watch()
        if failures is None:
            self.rounds.close(DONE)
            return False
        if failures and self.round.restarts >= self.job.max_restarts:
            rank = self.round.rank
            self.rounds.close(f"a process of machine {rank} has failed")
            self.workers.end(self.job.end_patience)
            raise ChildFailedError(self.job.name, failures)
        self.rounds.reopen(number, bool(failures))
        self.workers.end(self.job.end_patience)
        return True

    def _environments(self, round_):
        """What each process of this machine is told."""
        job, counts, rank = self.job, round_.facts, round_.rank
        first, world = sum(counts[:rank]), sum(counts)
        common = {
            "GROUP_RANK": rank,
            "ROLE_NAME": job.role,
            "LOCAL_WORLD_SIZE": job.processes,
            "WORLD_SIZE": world,
            "GROUP_WORLD_SIZE": len(counts),
            "ROLE_WORLD_SIZE": world,
            "MASTER_ADDR": job.host,
            "MASTER_PORT": self.server.port,
            "TORCHELASTIC_RESTART_COUNT": round_.restarts,
            "TORCHELASTIC_MAX_RESTARTS": job.max_restarts,
            "RUSHLIGHT_RENDEZVOUS_ROUND": round_.number,
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

    def _watch(self):
        """Wait for the end of a round.

        Returns:
            None where all machines' processes ended well; else the failures of this one's,
            which are none where others come, go or have failed.
        """
        number, count = self.round.number, len(self.round.facts)
        is_reported = False
        while True:
            failures = self.workers.failures()
            if failures:
                return self._all_failures(failures)
            if self.workers.are_done() and not is_reported:
                is_reported = True
                self.store.add(f"done/{number}", 1)
            if is_reported and self.store.add(f"done/{number}", 0) >= count:
                return None
            if self.job.limits.most > 1 and self._has_changed(number):
                return {}
            time.sleep(self.job.interval)

    def _has_changed(self, number):
        """Whether machines come together anew."""
        state = self.rounds.state()
        if state["closed"] and state["closed"] != DONE:
            failures = self._all_failures({})
            raise ChildFailedError(
                self.job.name, failures or self._failure_of_others(state["closed"])
            )
        if state["round"] != number or state["open"]:
            return True
        # What has ended well on a machine is not begun anew for one that comes now.
        is_over = self.store.add(f"done/{number}", 0) > 0
        return bool(
            self.rounds.waiting(state) and not is_over or self.rounds.gone(state)
        )

    def _all_failures(self, failures):
        """The failures of the processes, which learn of the first one by themselves."""
        last = time.monotonic() + min(SIBLING_PATIENCE, self.job.end_patience)
        while time.monotonic() < last:
            if all(p.poll() is not None for p in self.workers.processes):
                break
            time.sleep(0.02)
        return self.workers.failures() or failures

    def _failure_of_others(self, why):
        failure = ProcessFailure(-1, 0, 1, "")
        failure.message = f"{why}; its launcher says how"
        return {-1: failure}

    def _leave(self):
        """Keep the store until all machines are through with it."""
        count = len(self.round.facts) if self.round is not None else 1
        left = f"left/{self.round.number if self.round is not None else 0}"
        self.rounds.stop()
        try:
            self.store.add(left, 1)
            last = time.monotonic() + SIBLING_PATIENCE
            serves = getattr(self.server, "_server", None) is not None
            while serves and time.monotonic() < last:
                if self.store.add(left, 0) >= count:
                    break
                time.sleep(0.02)
        except DistError:
            pass  # the machine that served it is gone
