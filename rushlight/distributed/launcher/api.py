"""Starts a function or a program in several processes, and gives what the function returns."""

import os
import pickle
import sys
import tempfile
from dataclasses import dataclass, field
from multiprocessing import spawn
from multiprocessing.reduction import ForkingPickler
from typing import Any

import rushlight as rl
from rushlight.distributed.elastic.agent import Agent, Job
from rushlight.distributed.elastic.rendezvous.rounds import Limits
from rushlight.distributed.elastic.workers import Logs

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

ENTRY = "rushlight.distributed.elastic.multiprocessing.entry"
DEFAULT_PORT = 29400


@dataclass
class LaunchConfig:
    """How something is started in several processes.

    Args:
        min_nodes, max_nodes: how many machines.
        nproc_per_node: how many processes on this one.
        logs_specs: without effect: output goes to the terminal.
        run_id: the run's name.
        role: a name that processes are told.
        rdzv_endpoint: where machines meet, as ``host:port``; of one machine a free port.
        rdzv_backend: ``static``, or ``c10d``: machines are numbered as they come.
        rdzv_configs: settings by name: ``rank``, ``timeout``, ``last_call_timeout``.
        rdzv_timeout: seconds to wait for machines, where it is positive.
        max_restarts: how often to start again after a failure.
        monitor_interval: seconds between looks at the processes.
        start_method: without effect: processes are programs of their own.
        log_line_prefix_template: without effect.
        metrics_cfg: without effect; `elastic.metrics.configure` says where numbers go.
        local_addr: without effect.
        event_log_handler: without effect.
        numa_options: without effect.
        signals_to_handle: without effect.
        duplicate_stdout_filters, duplicate_stderr_filters: without effect.
        virtual_local_rank: whether every process is told that it is local rank 0.
        shutdown_timeout: seconds that processes have to end.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list | None = None
    duplicate_stderr_filters: list | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self):
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        elif "timeout" not in self.rdzv_configs:
            self.rdzv_configs["timeout"] = 900


def _command(entrypoint, args, folder):
    """The words that start a process."""
    if isinstance(entrypoint, str):
        return [entrypoint, *map(str, args)]
    prepared = spawn.get_preparation_data("rank")
    prepared.pop("authkey")  # it may not be in a file
    with open(os.path.join(folder, "call"), "wb") as file:
        file.write(pickle.dumps(prepared))
        file.write(ForkingPickler.dumps((entrypoint, tuple(args))))
    words, runner = sys.orig_argv, []
    if sys.modules.get("torch") is rl and "-m" in words:  # so it is in the processes
        runner = words[words.index("-m") :][:2]
    return [sys.executable, "-u", *runner, "-m", ENTRY, folder]


def _job(config, name, command):
    """The job that settings describe."""
    settings = dict(config.rdzv_configs)
    host, _, port = config.rdzv_endpoint.rpartition(":")
    rank = settings.get("rank")
    is_alone = config.max_nodes == 1
    limits = Limits(
        config.min_nodes,
        config.max_nodes,
        float(settings["timeout"]),
        float(settings.get("last_call_timeout", 30)),
        float(settings.get("keep_alive_interval", 5)),
        int(settings.get("keep_alive_max_attempt", 3)),
    )
    if not host and not is_alone:
        host, port = config.rdzv_endpoint or "127.0.0.1", DEFAULT_PORT
    return Job(
        name,
        command,
        config.nproc_per_node,
        host=host or "127.0.0.1",
        port=int(port or 0),
        node_rank=0 if is_alone else None if rank is None else int(rank),
        run_id=config.run_id or "none",
        max_restarts=config.max_restarts,
        interval=config.monitor_interval,
        limits=limits,
        role=config.role,
        end_patience=30.0
        if config.shutdown_timeout is None
        else config.shutdown_timeout,
        virtual=config.virtual_local_rank,
    )


def launch_agent(config, entrypoint, args):
    """Run something in several processes, to its end.

    Args:
        config: a `LaunchConfig`.
        entrypoint: a function that pickles, or a program.
        args: what it takes.

    Returns:
        Rank -> what the function has returned, of the ranks of this machine; None for
        each of a program.

    Raises:
        ChildFailedError: it failed, and was not to be started again.
    """
    name = entrypoint if isinstance(entrypoint, str) else entrypoint.__name__
    with tempfile.TemporaryDirectory(prefix="rushlight-launch-") as folder:
        job = _job(config, name, _command(entrypoint, args, folder))
        none = [0] * job.processes
        agent = Agent(job, Logs(folder, job.run_id, none, none, set(), job.role))
        agent.run()
        found = {}
        for environment in agent.workers.environments if agent.workers else ():
            path = os.path.join(folder, f"returned-{environment['RANK']}")
            value = None
            if os.path.exists(path):
                with open(path, "rb") as file:
                    value = pickle.load(file)
            found[int(environment["RANK"])] = value
        return found


class elastic_launch:
    """Something that runs in several processes when it is called.

    Args:
        config: a `LaunchConfig`.
        entrypoint: a function that pickles, or a program.
    """

    def __init__(self, config, entrypoint):
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args):
        return launch_agent(self._config, self._entrypoint, list(args))
