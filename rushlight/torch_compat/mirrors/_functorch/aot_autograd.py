"""Compilers for the graphs of functions and of the sweeps back through them."""

import functools

import rushlight as rl
from rushlight._dynamo.backends.common import aot_autograd
from rushlight._functorch import _joint
from rushlight._functorch.partitioners import default_partition
from rushlight.nn import Module

__all__ = [
    "aot_export_joint_simple",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "compiled_function",
    "compiled_module",
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
    partition_fn=default_partition,
    decompositions=None,
    inference_compiler=None,
    **more,
):
    """A function whose forward and backward graphs are given to compilers.

    Both are cut out of one joint graph, which is recorded for each set of sizes and types.

    Args:
        fn: the function; its tensors are recorded, other arguments are constants.
        fw_compiler: ``fw_compiler(graph_module, example_inputs)`` gives a function.
        bw_compiler: the same for sweeps back; by default the first.
        partition_fn: cuts the joint graph: see `rushlight._functorch.partitioners`.
        decompositions: what to run in place of an operator, by operator.
        inference_compiler: for calls that need no gradients; by default the first.
    """
    return _joint.JointFunction(
        fn,
        _joint.Compilers(
            fw_compiler,
            bw_compiler or fw_compiler,
            inference_compiler or fw_compiler,
            partition_fn,
            decompositions or {},
        ),
    )


def aot_export_joint_simple(
    func, args, *, trace_joint, num_params_buffers=0, decompositions=None
):
    """The graph of a function of tensors, or its joint graph with gradients.

    Args:
        func: gives a tuple or list of tensors, and writes to none.
        args: its tensors.
        trace_joint: whether gradients are part of the graph; it takes a list of ``primals``
            and one of ``tangents`` then.
        num_params_buffers: kept for programs that count parameters among the arguments.
        decompositions: what to run in place of an operator, by operator.

    Raises:
        RuntimeError: the function writes to a tensor.
    """
    graph = _joint.recorded_of(
        lambda tensors: list(func(*tensors)),
        list(args),
        trace_joint,
        decompositions or {},
    )
    if any(_joint.writes(node) for node in graph.graph.nodes):
        raise RuntimeError(
            "aot_export_joint_simple does not support input mutations\n"
            "  remedy: clone what is written, or use torch.export"
        )
    return graph if trace_joint else _joint.flat(graph)


def aot_module(mod, *args, **kwargs):
    """A module whose graphs are given to compilers: see `aot_function`.

    Args:
        mod: the module; its parameters and buffers are arguments of the graphs.
    """

    def functional_call(named, *args, **kwargs):
        return rl.func.functional_call(mod, named, args, kwargs)

    compiled = aot_function(functional_call, *args, **kwargs)

    class AOTModule(Module):
        def __init__(self):
            super().__init__()
            self.orig_module = mod

        def forward(self, *args, **kwargs):
            named = {**dict(mod.named_parameters()), **dict(mod.named_buffers())}
            return compiled(named, *args, **kwargs)

    return AOTModule()


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


compiled_function = aot_function
compiled_module = aot_module
