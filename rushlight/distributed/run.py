"""Starts a program in several processes: ``python -m rushlight.distributed.run``.

The options are those of ``torchrun``, in the environment too: ``PET_NPROC_PER_NODE``.

    python -m rushlight.distributed.run --standalone --nproc-per-node 2 train.py
"""

import argparse
import os
import signal
import sys
import uuid

from rushlight.distributed.elastic.agent import Agent, Job
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError
from rushlight.distributed.elastic.rendezvous.rounds import Limits
from rushlight.distributed.elastic.workers import Logs, streams_of

__all__ = ["get_args_parser", "main", "parse_args", "run"]

DEFAULT_PORT = 29500
# dest, default, help
VALUES = [
    ("nnodes", "1:1", "number of machines, or the least and most as 1:4"),
    ("nproc-per-node", "1", "processes on this machine: a number, auto, cpu, gpu"),
    ("rdzv-backend", "static", "static, or c10d: machines are numbered as they come"),
    ("rdzv-endpoint", "", "where machines meet: HOST:PORT"),
    ("rdzv-id", "none", "the run's name"),
    ("rdzv-conf", "", "timeout=600,last_call_timeout=30,keep_alive_interval=5"),
    ("max-restarts", 0, "how often to start again after a failure"),
    ("monitor-interval", 0.1, "seconds between looks at the processes"),
    ("start-method", "spawn", "without effect: processes are programs of their own"),
    ("event-log-handler", "null", "without effect"),
    ("role", "default", "a name that processes are told"),
    ("log-dir", None, "where logs go"),
    ("redirects", "0", "streams to files: 1 output, 2 errors, 3 both, or 0:1,1:2"),
    ("tee", "0", "streams to files and to the terminal, likewise"),
    ("local-ranks-filter", "", "local ranks whose output the terminal gets: 0,1"),
    ("node-rank", 0, "this machine's number, where the backend is static"),
    ("master-addr", "127.0.0.1", "address of machine 0, where the backend is static"),
    ("master-port", DEFAULT_PORT, "its port"),
    ("local-addr", None, "this machine's address"),
    ("shutdown-timeout", 30.0, "seconds that processes have to end"),
    ("logs-specs", None, "without effect"),
    ("numa-binding", None, "without effect"),
    ("signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "signals that end all"),
    ("duplicate-stdout-filters", "", "without effect"),
    ("duplicate-stderr-filters", "", "without effect"),
]
SHORT = {"redirects": "-r", "tee": "-t", "module": "-m"}
SWITCHES = [
    ("standalone", "one machine, at a free port"),
    ("module", "the program is a module"),
    ("no-python", "the program is no Python program"),
    ("run-path", "the program is run by runpy"),
    ("virtual-local-rank", "every process is local rank 0"),
]


def get_args_parser():
    """The parser of the options.

    >>> get_args_parser().parse_args(["--nproc-per-node", "2", "train.py"]).nproc_per_node
    '2'
    """
    parser = argparse.ArgumentParser(
        prog="python -m rushlight.distributed.run",
        description="Starts a program in several processes.",
    )
    for name, default, text in VALUES:
        flags = [SHORT[name]] if name in SHORT else []
        flags += [f"--{name}"] + (
            [f"--{name.replace('-', '_')}"] if "-" in name else []
        )
        given = os.environ.get("PET_" + name.replace("-", "_").upper(), default)
        kind = str if default is None else type(default)
        parser.add_argument(*flags, type=kind, default=_as(kind, given), help=text)
    for name, text in SWITCHES:
        flags = [SHORT[name]] if name in SHORT else []
        flags += [f"--{name}"] + (
            [f"--{name.replace('-', '_')}"] if "-" in name else []
        )
        given = os.environ.get("PET_" + name.replace("-", "_").upper(), "0") == "1"
        parser.add_argument(*flags, action="store_true", default=given, help=text)
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def _as(kind, value):
    return value if value is None else kind(value)


def parse_args(args):
    """The options of a command line.

    Args:
        args: its words; those of this process where it is None.
    """
    return get_args_parser().parse_args(args)


def _processes(text):
    """How many processes ``--nproc-per-node`` asks for."""
    if text.isdigit() and int(text):
        return int(text)
    if text in ("auto", "cpu"):
        return os.cpu_count() or 1
    if text == "gpu":
        from rushlight import cuda

        if not cuda.is_available():
            raise ValueError("Cuda is not available.")
        return cuda.device_count()
    raise ValueError(f"Unsupported nproc_per_node value: {text}")


def _nodes(text):
    least, _, most = str(text).partition(":")
    return int(least), int(most or least)


def _settings(text):
    pairs = [each.partition("=") for each in str(text).split(",") if each]
    return {name.strip(): value.strip() for name, _, value in pairs}


def _limits(least, most, settings):
    """What ``--rdzv-conf`` says of coming together."""
    return Limits(
        least,
        most,
        float(settings.get("timeout", settings.get("join_timeout", 600))),
        float(settings.get("last_call_timeout", 30)),
        float(settings.get("keep_alive_interval", 5)),
        int(settings.get("keep_alive_max_attempt", 3)),
    )


def _command(args):
    if args.no_python:
        if args.module:
            raise ValueError(
                "Don't use both the '--no-python' flag and the '--module' flag at the "
                "same time."
            )
        return [args.training_script, *args.training_script_args]
    command = [os.environ.get("PYTHON_EXEC", sys.executable), "-u"]
    words = sys.orig_argv
    if words.count("-m") > 1:  # what runs this module as a program runs the others, too
        first = words.index("-m")
        command += words[first : first + 2]
    if args.module:
        command.append("-m")
    return [*command, args.training_script, *args.training_script_args]


def _endpoint(text, port):
    host, _, given = text.rpartition(":")
    if not host:
        return text or "127.0.0.1", port
    return host.strip("[]"), int(given)


def job_of(args):
    """The job that options describe.

    Args:
        args: the parsed options.
    """
    settings = _settings(args.rdzv_conf)
    job = Job(
        args.training_script,
        _command(args),
        _processes(str(args.nproc_per_node)),
        args.master_addr,
        args.master_port,
        args.node_rank,
        args.rdzv_id,
        args.max_restarts,
        float(args.monitor_interval),
        _limits(*_nodes(args.nnodes), settings),
        args.role,
        float(args.shutdown_timeout),
        args.virtual_local_rank,
    )
    if args.standalone:
        job.host, job.port, job.node_rank, job.run_id = "127.0.0.1", 0, 0, _new_id()
        job.limits.least = job.limits.most = 1
    elif args.rdzv_backend != "static":
        job.host, job.port = _endpoint(args.rdzv_endpoint, DEFAULT_PORT)
        job.node_rank = None
    elif args.rdzv_endpoint:
        job.host, job.port = _endpoint(args.rdzv_endpoint, args.master_port)
    return job


def _new_id():
    return uuid.uuid4().hex[:12]


def _ended(number, frame):
    raise SystemExit(128 + number)


def run(args):
    """Run the program that options describe.

    Args:
        args: the parsed options.

    Raises:
        ChildFailedError: a process failed, and was not to be started again.
    """
    job = job_of(args)
    shown = {int(each) for each in args.local_ranks_filter.split(",") if each}
    logs = Logs(
        args.log_dir,
        job.run_id,
        streams_of(args.redirects, job.processes),
        streams_of(args.tee, job.processes),
        shown,
        job.role,
    )
    for name in args.signals_to_handle.split(","):
        signal.signal(signal.Signals[name], _ended)
    Agent(job, logs).run()


def main(args=None):
    """The command.

    Args:
        args: its words; those of this process where it is None.
    """
    try:
        run(parse_args(args))
    except ChildFailedError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
