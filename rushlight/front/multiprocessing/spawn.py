"""One function in many processes, and what becomes of their exceptions."""

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process has failed."""

    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process has raised an exception, whose traceback is in the text."""

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process has ended with a status or by a signal."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self):
        return type(self), (
            self.msg,
            self.error_index,
            self.pid,
            self.exit_code,
            self.signal_name,
        )


def _run(fn, number, args, error_file):
    """What a process does: the function, or its exception's text in a file."""
    try:
        fn(number, *args)
    except KeyboardInterrupt:
        pass  # the parent ends all
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that run one function."""

    def __init__(self, processes, error_files):
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self):
        """The numbers that the system gave them."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout=None, grace_period=None):
        """Waits until one ends; True once all have ended well.

        Args:
            timeout: how many seconds to wait at most.
            grace_period: how many seconds the others have once one has failed.

        Raises:
            ProcessRaisedException: one has raised.
            ProcessExitedException: one has ended otherwise.
        """
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(self.sentinels, timeout)
        failed = None
        for sentinel in ready:
            number = self.sentinels.pop(sentinel)
            self.processes[number].join()
            if self.processes[number].exitcode != 0:
                failed = number
                break
        if failed is None:
            return not self.sentinels
        self._end_others(grace_period)
        self._raise(failed)

    def _end_others(self, grace_period):
        end = time.monotonic() + (grace_period or 0)
        for process in self.processes:
            if grace_period:
                process.join(max(0, end - time.monotonic()))
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(30)
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, number):
        process = self.processes[number]
        try:
            with open(self.error_files[number], "rb") as file:
                text = pickle.load(file)
        except (OSError, EOFError):
            text = None
        if text is not None:
            raise ProcessRaisedException(
                f"\n\n-- Process {number} terminated with the following error:\n{text}",
                number,
                process.pid,
            )
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            raise ProcessExitedException(
                f"process {number} terminated with signal {name}",
                number,
                process.pid,
                code,
                name,
            )
        raise ProcessExitedException(
            f"process {number} terminated with exit code {code}",
            number,
            process.pid,
            code,
        )


class SpawnContext(ProcessContext):
    """Processes that ``spawn`` started."""


def start_processes(
    fn,
    args=(),
    nprocs=1,
    join=True,
    daemon=False,
    start_method="spawn",
    numa_options=None,
):
    """Runs ``fn(number, *args)`` in processes of its own.

    Args:
        fn: a function at the top of a module.
        nprocs: how many.
        join: whether to wait for all; otherwise their ``ProcessContext`` comes back.
        daemon: whether they end with this process.
        start_method: spawn, fork or forkserver.
    """
    context = multiprocessing.get_context(start_method)
    folder = tempfile.mkdtemp(prefix="rushlight-spawn-")
    files = [os.path.join(folder, str(number)) for number in range(nprocs)]
    processes = []
    for number in range(nprocs):
        process = context.Process(
            target=_run, args=(fn, number, args, files[number]), daemon=daemon
        )
        process.start()
        processes.append(process)
    started = SpawnContext(processes, files)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Runs ``fn(number, *args)`` in new processes; an exception ends them all.

    Raises:
        ProcessRaisedException: a process has raised.
        ProcessExitedException: a process has ended otherwise.
    """
    if start_method != "spawn":
        warnings.warn(
            "This method only supports start_method=spawn (got: "
            f"{start_method}).\nTo use a different start_method use:\n\t\t "
            "torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
