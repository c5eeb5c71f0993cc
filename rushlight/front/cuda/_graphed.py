"""Functions that run as recorded work: what `make_graphed_callables` makes."""

import rushlight as rl
from rushlight.autograd import Function
from rushlight.cuda._graphs import CUDAGraph, graph, graph_pool_handle
from rushlight.cuda.streams import Stream, stream


def make(functions, samples, warm, unused, pool):
    """One callable that replays graphs for each function."""
    name = graph_pool_handle() if pool is None else pool
    side = Stream()
    with stream(side):
        for function, args in zip(functions, samples):
            for _ in range(warm):
                _run(function, args, unused)
    rl.cuda.synchronize()
    # Backward passes come in the other order, so that memory is shared as in a step.
    parts = [
        _Forward(function, args, name) for function, args in zip(functions, samples)
    ]
    for part in reversed(parts):
        part.write_backward(unused)
    return [part.callable() for part in parts]


def refuse_unfit(function, args):
    """Refuses what graphs do not replay: hooks, buffers that learn, other arguments.

    Raises:
        AssertionError: there is some.
    """
    if isinstance(function, rl.nn.Module):
        hooks = function._backward_hooks, function._forward_hooks
        if any((*hooks, function._forward_pre_hooks)):
            raise AssertionError(
                "Modules must not have hooks registered at the time they are passed. "
                "However, registering hooks on modules after passing them through "
                "make_graphed_callables is allowed."
            )
        if any(buffer.requires_grad for buffer in function.buffers()):
            raise AssertionError(
                "In any :class:`~torch.nn.Module` passed to "
                ":func:`~make_graphed_callables`, only parameters may be trainable. All "
                "buffers must have ``requires_grad=False``."
            )
    if not all(isinstance(arg, rl.Tensor) for arg in args):
        raise AssertionError(
            "In the beta API, sample_args for each callable must contain only Tensors. "
            "Other types are not allowed."
        )


def _run(function, args, unused):
    """One call with its gradients."""
    results = _flat(function(*args))
    wanted = _wanted(function, args)
    made = [r for r in results if r.requires_grad]
    if wanted and made:
        seeds = [rl.empty_like(r) for r in made]
        rl.autograd.grad(made, wanted, seeds, allow_unused=unused, only_inputs=True)


def _flat(results):
    return (results,) if isinstance(results, rl.Tensor) else tuple(results)


def _wanted(function, args):
    """What gradients are asked for: arguments, then a module's parameters."""
    parameters = function.parameters() if isinstance(function, rl.nn.Module) else ()
    return [a for a in (*args, *parameters) if a.requires_grad]


class _Forward:
    """A function's forward and backward graphs, and the memory that they read and write."""

    def __init__(self, function, args, name):
        self.function = function
        self.args = tuple(args)
        self.name = name
        module = isinstance(function, rl.nn.Module)
        self.parameters = tuple(function.parameters()) if module else ()
        self.training = module and function.training
        self.forward = CUDAGraph()
        with graph(self.forward, pool=name):
            made = function(*args)
        self.single = isinstance(made, rl.Tensor)
        self.results = _flat(made)

    def write_backward(self, unused):
        """Records the gradients."""
        self.backward = CUDAGraph()
        inputs = (*self.args, *self.parameters)
        wanted = [i for i in inputs if i.requires_grad]
        self.seeds = tuple(
            rl.empty_like(r) if r.requires_grad else None for r in self.results
        )
        found: list = []
        if wanted and any(s is not None for s in self.seeds):
            with graph(self.backward, pool=self.name):
                found = rl.autograd.grad(
                    [r for r in self.results if r.requires_grad],
                    wanted,
                    [s for s in self.seeds if s is not None],
                    allow_unused=unused,
                )
        rows = iter(found)
        self.gradients = tuple(
            next(rows, None) if i.requires_grad else None for i in inputs
        )
        self.has_backward = bool(found)

    def callable(self):
        """The function or module, replaying."""
        part = self

        class Graphed(Function):
            @staticmethod
            def forward(ctx, *inputs):
                for kept, given in zip(part.args, inputs):
                    if kept.data_ptr() != given.data_ptr():
                        kept.detach().copy_(given)
                part.forward.replay()
                return tuple(r.detach() for r in part.results)

            @staticmethod
            def backward(ctx, *gradients):
                for seed, given in zip(part.seeds, gradients):
                    if seed is not None and seed.data_ptr() != given.data_ptr():
                        seed.copy_(given)
                if part.has_backward:
                    part.backward.replay()
                return tuple(g if g is None else g.detach() for g in part.gradients)

        def replayed(*args):
            made = Graphed.apply(*args, *part.parameters)
            return made[0] if part.single else made

        if not isinstance(self.function, rl.nn.Module):
            return replayed
        module, own = self.function, self.function.forward

        def forward(*args):
            return replayed(*args) if module.training == part.training else own(*args)

        module.forward = forward
        return module
