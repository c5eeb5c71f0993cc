"""Backends that count and keep graphs, for tests of programs that compile."""

from __future__ import annotations

from rushlight._dynamo.backends.common import aot_autograd
from rushlight._dynamo.backends.registry import lookup_backend
from rushlight._dynamo.utils import same
from rushlight.operators import call as ops

__all__ = [
    "AotEagerAndRecordGraphs",
    "CompileCounter",
    "CompileCounterWithBackend",
    "EagerAndRecordGraphs",
    "InductorAndRecordGraphs",
    "normalize_gm",
    "rand_strided",
    "reset_rng_state",
    "same",
]


class CompileCounter:
    """A backend that counts the graphs it is given, and the operators in them.

    >>> import rushlight as rl
    >>> counter = CompileCounter()
    >>> rl.compile(lambda x: (x * 2).sin(), backend=counter)(rl.zeros(1))
    tensor([0.])
    >>> counter.frame_count, counter.op_count
    (1, 2)
    """

    def __init__(self):
        self.frame_count = 0
        self.op_count = 0

    def __call__(self, gm, example_inputs):
        self.count(gm)
        return gm.forward

    def count(self, gm):
        """Counts a graph."""
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)

    def clear(self):
        """Begins at nothing again."""
        self.frame_count = 0
        self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """The same, before another backend; it keeps the graphs, too.

    Args:
        backend: the name of the other one.
    """

    def __init__(self, backend):
        super().__init__()
        self.backend = backend
        self.graphs: list = []

    def __call__(self, gm, example_inputs):
        self.count(gm)
        self.graphs.append(gm)
        found = lookup_backend(self.backend)
        return found(gm, example_inputs) if callable(found) else gm.forward

    def clear(self):
        """Begins at nothing again."""
        super().clear()
        self.graphs = []


class EagerAndRecordGraphs:
    """A backend that keeps graphs, and runs them as they are."""

    def __init__(self):
        self.graphs: list = []
        self.example_inputs: list = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        self.example_inputs.append(example_inputs)
        return gm.forward


class AotEagerAndRecordGraphs:
    """A backend that keeps graphs, and those of sweeps back apart."""

    def __init__(self):
        self.graphs: list = []
        self.fw_graphs: list = []
        self.bw_graphs: list = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        backend = aot_autograd(
            fw_compiler=keeping(self.fw_graphs), bw_compiler=keeping(self.bw_graphs)
        )
        return backend(gm, example_inputs)


class InductorAndRecordGraphs(EagerAndRecordGraphs):
    """A backend that keeps graphs; what it gives runs as they are."""


def keeping(graphs):
    """A compiler that keeps graphs in a list, and runs them as they are."""

    def compiler(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    return compiler


def normalize_gm(gm_str):
    """The text of a graph without its comments and the spaces at ends of lines.

    Args:
        gm_str: of ``print_readable(print_output=False)``.
    """
    lines = [line.partition("#")[0].rstrip() for line in gm_str.splitlines()]
    return "\n".join(line for line in lines if line)


def rand_strided(size, stride, dtype=None, device="cpu", extra_size=0):
    """A tensor of random numbers with given strides.

    Args:
        size: the sizes.
        stride: the strides, in elements.
        extra_size: elements of its storage beyond those it needs.

    >>> rand_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    reach = sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    needed = reach + 1 + extra_size if all(size) else extra_size
    kind = ops.empty([0], dtype=dtype).dtype
    if kind.is_floating_point or kind.is_complex:
        values = ops.randn([needed], dtype=dtype, device=device)
    else:
        values = ops.randint(0, 2, [needed], dtype=dtype, device=device)
    return ops.as_strided(values, list(size), list(stride))


def reset_rng_state(use_xla=False):
    """Sets all streams of random numbers to one beginning."""
    from rushlight import manual_seed

    manual_seed(1337)
