"""The processes of one machine: started, watched, ended, their output kept."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

from rushlight.distributed.elastic.multiprocessing.errors import (
    ERROR_FILE,
    ProcessFailure,
)

OUT, ERR = 1, 2


def streams_of(text, count):
    """Which streams of each local rank a ``--redirects`` or ``--tee`` names.

    Args:
        text: ``3`` for all ranks, or ``0:1,1:3`` for some; 1 is output, 2 are errors.
        count: the number of local ranks.

    >>> streams_of("0:1,1:3", 3)
    [1, 3, 0]
    """
    text = str(text or "0")
    if text.isdigit():
        return [int(text)] * count
    found = [0] * count
    for pair in text.split(","):
        rank, streams = pair.split(":")
        found[int(rank)] = int(streams)
    return found


class Logs:
    """Where the output of processes goes.

    Args:
        folder: the folder of logs; a temporary one without it.
        run_id: the run's name.
        redirects: which streams go to files, for each local rank.
        tee: which go to files and to the terminal.
        shown: the local ranks whose output the terminal gets; all where it is empty.
        role: the name before lines of ``tee``.
    """

    def __init__(self, folder, run_id, redirects, tee, shown, role):
        self.redirects, self.tee, self.shown, self.role = redirects, tee, shown, role
        if folder:
            os.makedirs(folder, exist_ok=True)
        self.folder = tempfile.mkdtemp(prefix=f"{run_id}_", dir=folder or None)
        self.threads = []

    def place(self, attempt, local_rank):
        """The folder of one process in one attempt."""
        path = os.path.join(self.folder, f"attempt_{attempt}", str(local_rank))
        os.makedirs(path, exist_ok=True)
        return path

    def open(self, path, local_rank):
        """What a process's output and errors are connected to.

        Args:
            path: the folder of the process.
            local_rank: its number.

        Returns:
            Two arguments of ``Popen``, and what is to be copied to the terminal.
        """
        connected, copied = [], []
        for stream, name in ((OUT, "stdout"), (ERR, "stderr")):
            to_file = self.redirects[local_rank] | self.tee[local_rank]
            hidden = self.shown and local_rank not in self.shown
            if not to_file & stream and not hidden:
                connected.append(None)
                continue
            file = open(os.path.join(path, name + ".log"), "wb")
            connected.append(file)
            if self.tee[local_rank] & stream and not hidden:
                copied.append((file.name, stream))
        return connected, copied

    def copy(self, process, copied, local_rank):
        """Copy files to the terminal, line by line, while a process runs."""
        for name, stream in copied:
            thread = threading.Thread(
                target=self._follow, args=(process, name, stream, local_rank)
            )
            thread.start()
            self.threads.append(thread)

    def _follow(self, process, name, stream, local_rank):
        target = sys.stdout if stream == OUT else sys.stderr
        prefix = f"[{self.role}{local_rank}]:"
        with open(name, encoding="utf-8") as file:
            while True:
                over = process.poll() is not None
                for line in file:
                    target.write(prefix + line.rstrip("\n") + "\n")
                target.flush()
                if over:
                    return
                time.sleep(0.05)

    def close(self):
        """Wait until all is copied."""
        for thread in self.threads:
            thread.join()
        self.threads.clear()


class Workers:
    """The processes of one attempt on one machine.

    Args:
        command: the program and its arguments.
        environments: what each process's environment has beside the launcher's.
        logs: where their output goes.
        attempt: how often the program was started before.
    """

    def __init__(self, command, environments, logs, attempt):
        self.logs, self.processes, self.errors = logs, [], []
        self.environments = environments
        for local_rank, environment in enumerate(environments):
            path = logs.place(attempt, local_rank)
            error_file = os.path.join(path, "error.json")
            (out, err), copied = logs.open(path, local_rank)
            try:
                process = subprocess.Popen(
                    command,
                    env={**os.environ, **environment, ERROR_FILE: error_file},
                    stdout=out,
                    stderr=err,
                )
            except OSError:
                self.end()
                raise
            finally:
                for file in filter(None, (out, err)):
                    file.close()
            logs.copy(process, copied, local_rank)
            self.processes.append(process)
            self.errors.append(error_file)

    def failures(self):
        """Local rank -> failure, of those that have failed so far."""
        return {
            rank: ProcessFailure(
                rank,
                process.pid,
                process.returncode,
                self.errors[rank],
                int(self.environments[rank]["RANK"]),
            )
            for rank, process in enumerate(self.processes)
            if process.poll() not in (None, 0)
        }

    def are_done(self):
        """Whether all have ended well."""
        return all(process.poll() == 0 for process in self.processes)

    def end(self, patience=30.0):
        """End those that run: asked first, then killed.

        Args:
            patience: seconds that they have to end by themselves.
        """
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGCONT)
        last = time.monotonic() + patience
        for process in self.processes:
            try:
                process.wait(max(last - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.logs.close()
