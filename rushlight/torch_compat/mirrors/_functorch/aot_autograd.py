"""Compilers for the graphs of functions and of the sweeps back through them."""

from __future__ import annotations

import functools

from rushlight._dynamo.backends.common import aot_autograd
from rushlight._dynamo.eval_frame import compile

__all__ = [
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "make_boxed_compiler",
    "make_boxed_func",
]


def make_boxed_func(f):
    """A function of one list, in place of one of many arguments.

    Args:
        f: the function.
    """

    def boxed(args):
        return f(*args)

    boxed._boxed_call = True
    return boxed


def make_boxed_compiler(compiler):
    """A compiler whose functions take one list.

    Args:
        compiler: ``compiler(graph_module, example_inputs)`` gives a function.
    """

    @functools.wraps(compiler)
    def boxed(gm, example_inputs):
        return make_boxed_func(compiler(gm, example_inputs))

    return boxed


def aot_function(
    fn,
    fw_compiler,
    bw_compiler=None,
    partition_fn=None,
    decompositions=None,
    inference_compiler=None,
    **more,
):
    """A function whose forward and backward graphs are given to compilers.

    Args:
        fn: the function.
        fw_compiler: ``fw_compiler(graph_module, example_inputs)`` gives a function.
        bw_compiler: the same for sweeps back; by default the first.
        partition_fn: kept for PyTorch's programs: graphs are recorded one by one.
        decompositions: what to run in place of an operator, by operator.
    """
    backend = aot_autograd(
        fw_compiler=fw_compiler,
        bw_compiler=bw_compiler,
        inference_compiler=inference_compiler,
        decompositions=decompositions,
    )
    return compile(fn, backend=backend)


def aot_module(mod, *args, **kwargs):
    """A module whose graphs are given to compilers: see `aot_function`."""
    return aot_function(mod, *args, **kwargs)


def aot_module_simplified(
    mod,
    args,
    fw_compiler,
    bw_compiler=None,
    partition_fn=None,
    decompositions=None,
    inference_compiler=None,
    **more,
):
    """The function that compilers make of a graph, inside of a backend.

    Args:
        mod: the `GraphModule` that the backend was given.
        args: its example inputs.
        fw_compiler: gives a function for it; ``bw_compiler`` for the sweep back.
    """
    backend = aot_autograd(
        fw_compiler=fw_compiler,
        bw_compiler=bw_compiler,
        inference_compiler=inference_compiler,
        decompositions=decompositions,
    )
    return backend(mod, args)
