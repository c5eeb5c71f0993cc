"""Compilers for the graphs that `aot_function` cuts: small ones, and TorchScript's."""

import rushlight as rl
from rushlight import fx
from rushlight._decomp import decomposition_table
from rushlight._functorch.aot_autograd import (
    aot_function,
    aot_module,
    make_boxed_compiler,
)
from rushlight._functorch.compile_utils import strip_overloads
from rushlight._functorch.partitioners import (
    draw_graph,
    min_cut_rematerialization_partition,
)

__all__ = [
    "DebugInterpreter",
    "debug_nop",
    "default_decompositions",
    "draw_graph_compile",
    "memory_efficient_fusion",
    "nnc_jit",
    "nop",
    "print_compile",
    "simple_ts_compile",
    "ts_compile",
]

default_decompositions = dict(decomposition_table)


@make_boxed_compiler
def nop(fx_g, _):
    """A compiler that gives the graph itself."""
    return fx_g


@make_boxed_compiler
def print_compile(fx_g, _):
    """A compiler that prints the graph, and gives it itself."""
    print(fx_g.code)
    return fx_g


def draw_graph_compile(name):
    """A compiler that writes a picture of the graph, and gives it itself.

    Args:
        name: the picture's file.
    """

    def drawn(fx_g, _):
        print(fx_g.code)
        draw_graph(fx_g, name)
        return fx_g

    return make_boxed_compiler(drawn)


@make_boxed_compiler
def simple_ts_compile(fx_g, _):
    """A compiler that translates the graph to TorchScript, frozen."""
    strip_overloads(fx_g)
    return rl.jit.freeze(rl.jit.script(fx_g).eval())


@make_boxed_compiler
def ts_compile(fx_g, inps):
    """A compiler that translates the graph to TorchScript, frozen and ready for inference.

    Args:
        fx_g: the graph; its steps lose their overloads.
        inps: its example inputs, which it is run on once.
    """
    strip_overloads(fx_g)
    function = rl.jit.optimize_for_inference(rl.jit.freeze(rl.jit.script(fx_g).eval()))
    function(*inps)
    return function


class DebugInterpreter(fx.Interpreter):
    """Runs a graph and compares each result with what was recorded of it.

    Raises:
        AssertionError: a result has another type, other sizes or strides.
    """

    def run_node(self, n):
        """The result of a step, compared."""
        result = super().run_node(n)
        leaves = rl.utils._pytree.tree_leaves
        pairs = zip(leaves(n.meta.get("val")), leaves(result))
        for at, (was, now) in enumerate(pairs):
            if isinstance(now, rl.Tensor) and isinstance(was, rl.Tensor):
                _compare(was, now, f"output {at} of {n.format_node()}")
        return result


def _compare(was, now, name):
    for before, after in (
        (was.dtype, now.dtype),
        (tuple(was.shape), tuple(now.shape)),
        (_strides(was), _strides(now)),
    ):
        if before != after:
            raise AssertionError(f"{name}: {before} != {after}")


def _strides(tensor):
    """The strides of the dimensions in which they matter."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if size > 1] if tensor.numel() else []


@make_boxed_compiler
def debug_nop(fx_g, _):
    """A compiler whose function compares results with what was recorded: slow."""
    return DebugInterpreter(fx_g).run


def nnc_jit(f):
    """A function that runs as TorchScript."""
    return aot_function(f, simple_ts_compile)


def memory_efficient_fusion(fn, **kwargs):
    """A function or module whose sweep back computes again what is cheap to compute.

    Args:
        fn: the function or module.
        kwargs: other arguments of `aot_function`.
    """
    options = {
        "fw_compiler": ts_compile,
        "bw_compiler": ts_compile,
        "partition_fn": min_cut_rematerialization_partition,
        "decompositions": default_decompositions,
        **kwargs,
    }
    make = aot_module if isinstance(fn, rl.nn.Module) else aot_function
    return make(fn, **options)
