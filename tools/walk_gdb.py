"""gdb's side of `tools.walk`: stops at every function of the compiled modules."""

import os
import re
import subprocess

import gdb  # only inside of gdb

STOPPED: list = []
FUNCTION = re.compile("__pyx_(f|pw)_9rushlight")


class Stop(gdb.Breakpoint):
    """Writes a function's name down, and goes on."""

    def __init__(self, place, name):
        super().__init__(place, internal=True)
        self.name = name

    def stop(self):
        STOPPED.append(self.name)
        return False


def loaded():
    """Shared objects of the package in the process, and where each begins."""
    begins: dict = {}
    process = gdb.selected_inferior().pid
    with open(f"/proc/{process}/maps", encoding="utf-8") as maps:
        for line in maps:
            span, _, offset, *_, path = line.split()
            if "/rushlight/" in path and path.endswith(".so"):
                start = int(span.split("-")[0], 16) - int(offset, 16)
                begins.setdefault(path, start)
    return begins


def functions(path):
    """Offsets and names of what Cython compiled."""
    table = subprocess.run(
        ["nm", "--defined-only", path], capture_output=True, text=True, check=True
    ).stdout
    for line in table.splitlines():
        offset, kind, name = line.split()
        if kind in "tT" and FUNCTION.match(name):
            yield int(offset, 16), name


def follow():
    """Runs the program between its two signals."""
    for command in (
        *("set pagination off", "set confirm off"),
        "handle SIGUSR1 stop print nopass",
        "run",
    ):
        gdb.execute(command)
    for path, begin in loaded().items():
        for offset, name in functions(path):
            Stop(f"*{begin + offset:#x}", name)
    Stop("getppid", ".")
    gdb.execute("continue")
    gdb.execute("delete")
    with open(os.environ["WALK_STOPPED"], "w", encoding="utf-8") as file:
        file.write("\n".join(STOPPED))
    gdb.execute("continue")


follow()
