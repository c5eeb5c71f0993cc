"""What can be read about compiled programs, while they are made.

``RUSHLIGHT_LOGS`` (or ``TORCH_LOGS``) names what is wanted, with commas between: ``graph``
(or ``aot_graphs``), ``graph_breaks``, ``recompiles``, ``fusion``, ``output_code``,
``cudagraphs``, or ``all``; PyTorch's longer names are understood, and a ``+`` before a name
means nothing more. ``rushlight._logging.set_logs`` says the same from inside a program.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter, defaultdict

# What `rushlight._dynamo.utils.counters` shows, by kind.
counters: defaultdict = defaultdict(Counter)


class Log:
    """One kind of message; ``say`` writes it where it is wanted."""

    def __init__(self, name, about):
        self.name, self.about = name, about
        self.active = False

    def say(self, text):
        """Writes a message to standard error."""
        if self.active:
            sys.stderr.write(f"[{self.name}] {text}\n")

    def warn(self, text):
        """Warns, whether or not the log is wanted."""
        if not self.active:
            warnings.warn(f"torch.compile: {text}", stacklevel=3)
        self.say(text)


graph = Log("graph", "what was captured, operator by operator")
graph_breaks = Log("graph_breaks", "where a value is needed in the middle, and why")
recompiles = Log("recompiles", "where a program takes another course than before")
fusion = Log("fusion", "which operators became one kernel, and which did not")
output_code = Log("output_code", "the programs that are run, as Python")
cudagraphs = Log("cudagraphs", "why programs are not launched as a graph of a card's")
_ALL = (graph, graph_breaks, recompiles, fusion, output_code, cudagraphs)
LOGS = {log.name: log for log in _ALL}
# PyTorch's names for much the same.
ALIASES = {
    "aot": ("graph",),
    "aot_graphs": ("graph",),
    "aot_joint_graph": ("graph",),
    "dynamo": ("graph", "graph_breaks", "recompiles"),
    "graph_code": ("graph",),
    "inductor": ("fusion", "output_code"),
    "kernel_code": ("output_code",),
    "post_grad_graphs": ("graph",),
    "recompiles_verbose": ("recompiles",),
    "schedule": ("fusion",),
    "all": tuple(LOGS),
}


def names_of(name):
    """The logs that a name stands for.

    Raises:
        ValueError: there is no such log.
    """
    bare = name.strip().lstrip("+")
    if bare.startswith("-"):
        return ()
    if bare in LOGS:
        return (bare,)
    if bare in ALIASES:
        return ALIASES[bare]
    known = ", ".join(sorted([*LOGS, *ALIASES]))
    raise ValueError(f"there is no log {bare!r}; there are {known}")


def set_wanted(names):
    """Switches the logs with these names on, and all others off."""
    wanted = {one for name in names for one in names_of(name)}
    for name, log in LOGS.items():
        log.active = name in wanted


def read_environment():
    """Takes up what the environment asks for; names that nobody knows are passed over."""
    text = os.environ.get("RUSHLIGHT_LOGS") or os.environ.get("TORCH_LOGS") or ""
    wanted = []
    for name in filter(None, text.split(",")):
        try:
            wanted += names_of(name)
        except ValueError:
            continue
    set_wanted(wanted)


read_environment()
