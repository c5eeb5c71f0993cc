"""How a failed process tells its launcher why."""

import functools
import json
import os
import socket
import time
import traceback
from dataclasses import dataclass, field

__all__ = ["ChildFailedError", "ProcessFailure", "record"]

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"


def record(fn, error_handler=None):
    """A function whose exception is kept in a file for the launcher.

    Args:
        fn: the program's main function.
        error_handler: called with the exception, in place of writing the file.

    Returns:
        The function; its exceptions go on.

    >>> record(abs)(-3)
    3
    """

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code:
                _note(end, error_handler)
            raise
        except Exception as error:
            _note(error, error_handler)
            raise

    return wrapped


def _note(error, handler):
    if handler is not None:
        handler(error)
        return
    path = os.environ.get(ERROR_FILE)
    if not path:
        return
    message = {
        "message": f"{type(error).__name__}: {error}",
        "extraInfo": {
            "py_callstack": traceback.format_exc(),
            "timestamp": str(time.time()),
        },
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"message": message}, file)


@dataclass
class ProcessFailure:
    """How one process failed.

    Args:
        local_rank: its number on its machine.
        pid: its process.
        exitcode: its status; minus a signal's number.
        error_file: where ``record`` has written.
        rank: its number among all.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    rank: int = -1
    timestamp: float = field(default_factory=time.time)
    message: str = ""

    def __post_init__(self):
        try:
            with open(self.error_file, encoding="utf-8") as file:
                info = json.load(file)["message"]
        except (OSError, ValueError, KeyError):
            self.message = self._from_status()
            return
        self.timestamp = float(info["extraInfo"]["timestamp"])
        self.message = info["extraInfo"]["py_callstack"].rstrip()

    def _from_status(self):
        if self.exitcode < 0:
            return f"{self.signal_name()} received by PID {self.pid}"
        return "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"

    def signal_name(self):
        """The signal that ended it, in words."""
        import signal

        if self.exitcode >= 0:
            return "<N/A>"
        return f"Signal {-self.exitcode} ({signal.Signals(-self.exitcode).name})"

    def lines(self, number):
        """The failure in a summary.

        Args:
            number: its place in it.
        """
        text = self.message.replace("\n", "\n    ")
        when = time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))
        return (
            f"[{number}]:\n  time      : {when}\n  host      : {socket.gethostname()}\n"
            f"  rank      : {self.rank} (local_rank: {self.local_rank})\n"
            f"  exitcode  : {self.exitcode} (pid: {self.pid})\n"
            f"  error_file: {self.error_file}\n  traceback : {text}"
        )


class ChildFailedError(Exception):
    """A program has failed in one or more of its processes.

    Args:
        name: the program.
        failures: local rank -> ``ProcessFailure``.
    """

    def __init__(self, name, failures):
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self):
        """Local rank and failure of the process that failed first."""
        rank = min(self.failures, key=lambda each: self.failures[each].timestamp)
        return rank, self.failures[rank]

    def format_msg(self):
        """All failures, the first of them at the end."""
        root, first = self.get_first_failure()
        others = [each for rank, each in self.failures.items() if rank != root]
        rest = [each.lines(index + 1) for index, each in enumerate(others)]
        rule = "=" * 60
        return "\n".join(
            [
                "",
                rule,
                f"{self.name} FAILED",
                "-" * 60,
                "Failures:",
                *(rest or ["  <NO_OTHER_FAILURES>"]),
                "-" * 60,
                "Root Cause (first observed failure):",
                first.lines(0),
                rule,
            ]
        )
