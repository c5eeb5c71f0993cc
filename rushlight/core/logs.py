"""What can be read about programs, kernels and caches while they are made.

``RUSHLIGHT_LOGS`` (or ``TORCH_LOGS``) names what is wanted, with commas between; ``help``
lists the names. PyTorch's names are understood: those of things that Rushlight does not
have stand for the nearest ones, or for nothing. A ``+`` before a name means nothing more, a
``-`` leaves its messages out of ``all``. ``TORCH_LOGS_OUT`` names a file to write to.
``rushlight._logging.set_logs`` says the same from inside a program.
"""

import importlib.util
import os
import sys
import warnings
from collections import Counter, defaultdict

from rushlight.core import naming

# What `rushlight._dynamo.utils.counters` shows, by kind.
counters: defaultdict = defaultdict(Counter)


def users_line():
    """The innermost line of the stack outside of the package: file, line, function."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not naming.is_own(name):
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return None


def shown_line(line):
    """A line as tracebacks show it."""
    return f'File "{line[0]}", line {line[1]}, in {line[2]}' if line else "unknown line"


class Log:
    """One kind of message; ``say`` writes it where it is wanted."""

    def __init__(self, name, about):
        self.name, self.about = name, about
        self.active = False

    def say(self, text, line=False):
        """Writes a message to standard error, or to the file that was named.

        Args:
            text: the message.
            line: whether the user's line that led here is told, too.
        """
        if self.active:
            watching = sys.getprofile()
            watches_program = getattr(watching, "watches_program", False)
            if watches_program:  # and not what is told of it
                sys.setprofile(None)
            where = f"\n  {shown_line(users_line())}" if line else ""
            _write(f"[{self.name}] {text}{where}\n")
            if watches_program:
                sys.setprofile(watching)

    def warn(self, text):
        """Warns, whether or not the log is wanted."""
        if not self.active:
            warnings.warn(f"torch.compile: {text}", stacklevel=3)
        self.say(text)


def _write(text):
    path = os.environ.get("RUSHLIGHT_LOGS_OUT") or os.environ.get("TORCH_LOGS_OUT")
    if not path:
        sys.stderr.write(text)
        return
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


graph = Log("graph", "what was captured, operator by operator")
graph_breaks = Log("graph_breaks", "where a value is needed in the middle, and why")
recompiles = Log("recompiles", "where a program takes another path than before")
fusion = Log("fusion", "which operators became one kernel, and which did not")
output_code = Log("output_code", "the programs that are run, as Python")
cudagraphs = Log("cudagraphs", "why programs are not launched as a graph of a device's")
caching = Log("caching", "where each kernel's machine code came from, and why")
perf_hints = Log("perf_hints", "what takes a slow way, and why")
_ALL = (
    *(graph, graph_breaks, recompiles, fusion, output_code, cudagraphs),
    *(caching, perf_hints),
)
LOGS = {log.name: log for log in _ALL}
# PyTorch's names for much the same.
ALIASES = {
    "all": tuple(LOGS),
    "aot": ("graph",),
    "aot_graphs": ("graph",),
    "aot_graphs_effects": ("graph",),
    "aot_joint_graph": ("graph",),
    "async_compile": ("caching",),
    "cache": ("caching",),
    "compiled_autograd": ("graph",),
    "compiled_autograd_verbose": ("graph",),
    "cudagraph_static_inputs": ("cudagraphs",),
    "ddp_graphs": ("graph",),
    "dynamo": ("graph", "graph_breaks", "recompiles"),
    "graph_code": ("graph",),
    "graph_code_verbose": ("graph",),
    "graph_sizes": ("graph",),
    "guards": ("recompiles",),
    "inductor": ("fusion", "output_code", "caching"),
    "ir_post_fusion": ("fusion",),
    "ir_pre_fusion": ("graph",),
    "kernel_code": ("output_code",),
    "post_grad_graphs": ("graph",),
    "pre_grad_graphs": ("graph",),
    "recompiles_verbose": ("recompiles",),
    "schedule": ("fusion",),
    "torch": tuple(LOGS),
    "verbose_guards": ("recompiles",),
}
# Names of PyTorch's parts that have no messages here.
SILENT = frozenset(
    """annotation auto_chunker autograd autotuning benchmarking bytecode c10d
    compute_dependencies custom_format_test_artifact ddp distributed dtensor dynamic export
    fake_tensor fsdp graph_region_expansion hierarchical_compile incremental
    inductor_metrics loop_ordering loop_tiling native_dsl node_runtime_estimation
    not_implemented onnx onnx_diagnostics overlap overlap_scheduling pp side_effects
    sym_node trace_bytecode trace_call trace_shape_events trace_source""".split()
)


def is_known(name):
    """Whether a name is that of a log, here or in PyTorch."""
    return name in LOGS or name in ALIASES or name in SILENT


def names_of(name):
    """The logs that a name stands for; of a module's name, none.

    Raises:
        ValueError: there is no such log.
    """
    bare = name.strip().lstrip("+-")
    if bare in LOGS:
        return (bare,)
    if bare in ALIASES:
        return ALIASES[bare]
    if bare in SILENT or _is_module(bare):
        return ()
    known = ", ".join(sorted([*LOGS, *ALIASES, *SILENT]))
    raise ValueError(
        f"Invalid log settings: {name}, must be a comma separated list of fully "
        "qualified module names, registered log names or registered artifact names.\n"
        f"  remedy: RUSHLIGHT_LOGS=help tells what they say; there are {known}"
    )


def _is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def set_wanted(names):
    """Switches the logs with these names on, and all others off."""
    wanted: set = set()
    for name in names:
        if not name.strip().startswith("-"):
            wanted.update(names_of(name))
    for name in names:
        if name.strip().startswith("-"):
            wanted.difference_update(names_of(name))
    for name, log in LOGS.items():
        log.active = name in wanted


def described():
    """The logs and what each tells, as text."""
    lines = [f"  {log.name:14} {log.about}" for log in LOGS.values()]
    others = (
        f"{name}: {', '.join(ALIASES[name])}" for name in ALIASES if name != "all"
    )
    return "\n".join(
        ["Logs, for RUSHLIGHT_LOGS=NAME,NAME (or all):", *lines]
        + ["PyTorch's names for them:", *(f"  {text}" for text in others)]
    )


def _asked_for():
    return os.environ.get("RUSHLIGHT_LOGS") or os.environ.get("TORCH_LOGS") or ""


def has_environment():
    """Whether the environment says what is wanted: programs then do not."""
    return bool(_asked_for())


def read_environment():
    """Takes up what the environment asks for.

    Raises:
        ValueError: it names a log that is unknown.
    """
    wanted = [name for name in _asked_for().split(",") if name.strip()]
    if any(name.strip().lstrip("+") == "help" for name in wanted):
        _write(described() + "\n")
        wanted = [name for name in wanted if name.strip().lstrip("+") != "help"]
    set_wanted(wanted)


read_environment()
