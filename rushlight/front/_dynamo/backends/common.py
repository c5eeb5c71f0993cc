"""Backends of one compiler for forward graphs and one for the sweeps back."""

from __future__ import annotations

from rushlight.operators import call as ops

__all__ = ["AotAutograd", "aot_autograd"]


def aot_autograd(**kwargs):
    """A backend that gives forward and backward graphs of operators to compilers.

    Args:
        fw_compiler: ``fw_compiler(graph_module, example_inputs)`` gives a function.
        bw_compiler: the same for the graphs of sweeps back; by default the first.
        inference_compiler: the same where no gradients are recorded; by default the first.
        decompositions: what to run in place of an operator, by operator; those that are
            composed of others are taken apart in any case.

    >>> import rushlight as rl
    >>> found = []
    >>> def look(graph, inputs):
    ...     found.append(len(inputs))
    ...     return graph.forward
    >>> backend = aot_autograd(fw_compiler=look)
    >>> rl.compile(lambda x: x.sin(), backend=backend)(rl.zeros(2))
    tensor([0., 0.])
    >>> found
    [1]
    """
    return AotAutograd(**kwargs)


class AotAutograd:
    """A backend: see `aot_autograd`, whose arguments it has.

    The compiler that keeps no gradients' needs apart from results has both as results, as
    the graphs of PyTorch's backend do; ``partition_fn`` and further names are taken and
    change nothing, since forward and backward calls are recorded one by one.
    """

    def __init__(
        self,
        fw_compiler=None,
        bw_compiler=None,
        inference_compiler=None,
        decompositions=None,
        **more,
    ):
        if fw_compiler is None:
            raise TypeError("aot_autograd() needs a fw_compiler")
        self.fw_compiler = fw_compiler
        self.bw_compiler = bw_compiler or fw_compiler
        self.inference_compiler = inference_compiler or fw_compiler
        self.decompositions = decompositions or {}
        self.more = more

    def __call__(self, gm, example_inputs, **kwargs):
        """A function for a forward graph; sweeps back come to `compile_backward`."""
        from rushlight import is_grad_enabled

        compiler = self.fw_compiler if is_grad_enabled() else self.inference_compiler
        return self.compiled(compiler, gm, example_inputs)

    def compile_backward(self, gm, example_inputs):
        """A function for the graph of a sweep back."""
        return self.compiled(self.bw_compiler, gm, example_inputs)

    def compiled(self, compiler, gm, example_inputs):
        """What a compiler makes of a graph, called with separate arguments.

        Where a graph looks beside its inputs' windows, it is given as it is.
        """
        windows = ops.as_strided.overloads[0], ops.view.overloads[1]
        if any(node.target in windows for node in gm.graph.nodes):
            return Compiled(compiler(gm, example_inputs), self)
        return Decomposed(compiler, self, gm, example_inputs)


class Compiled:
    """A compiler's function, and the backend that takes the sweeps back from it."""

    def __init__(self, function, backend):
        self.function, self.backend = function, backend
        self.boxed = getattr(function, "_boxed_call", False)

    def __call__(self, *args):
        """The results; boxed functions are given one list, which they may empty."""
        return self.function(list(args)) if self.boxed else self.function(*args)

    def compile_backward(self, gm, example_inputs):
        """A function for the graph of a sweep back."""
        return self.backend.compile_backward(gm, example_inputs)


class Decomposed:
    """A compiler's function of a graph in which operators are what they decompose into.

    A decomposition that asks for sizes is recorded for all of them, where nothing hangs on
    them; else there is a graph for each call's.

    Args:
        compiler: makes functions of graphs.
        backend: the `AotAutograd`.
        gm: the graph.
        example_inputs: its first arguments.
    """

    def __init__(self, compiler, backend, gm, example_inputs):
        self.compiler, self.backend, self.gm = compiler, backend, gm
        self.made: dict = {}
        self.general = self._made(example_inputs)

    def _made(self, inputs):
        from rushlight.fx.experimental.proxy_tensor import make_fx  # graphs, late

        record = make_fx(self.gm, self.backend.decompositions, tracing_mode="symbolic")
        graph = record(*inputs)
        env = graph.shape_env
        function = Compiled(self.compiler(graph, inputs), self.backend)
        self.made[self._sizes(inputs)] = function
        hangs = env.guards or env.fixed or env.constant != ()
        return None if hangs else function

    @staticmethod
    def _sizes(inputs):
        """What a graph may hang on: sizes, and numbers among the arguments."""
        return tuple(
            [
                tuple(getattr(one, "shape", (getattr(one, "hint", one),)))
                for one in inputs
            ]
        )

    def __call__(self, *args):
        """The results, by the graph that is for the arguments' sizes."""
        function = self.general or self.made.get(self._sizes(args))
        if function is None:
            self._made(args)
            function = self.made[self._sizes(args)]
        return function(*args)

    def compile_backward(self, gm, example_inputs):
        """A function for the graph of a sweep back."""
        return self.backend.compile_backward(gm, example_inputs)
