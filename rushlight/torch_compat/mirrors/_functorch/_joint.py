"""Functions as joint graphs of results and gradients, cut, compiled and run."""

from __future__ import annotations

import typing

import rushlight as rl
from rushlight._dynamo.backends.common import aot_autograd
from rushlight._subclasses.fake_tensor import FakeTensorMode
from rushlight.core.tensor import Tensor
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.fx.graph import CodeGen
from rushlight.utils._pytree import tree_flatten, tree_unflatten

_HOLE = object()


class Compilers(typing.NamedTuple):
    """Who makes functions of graphs, and who cuts graphs in two."""

    forward: typing.Any
    backward: typing.Any
    inference: typing.Any
    partition: typing.Any
    decompositions: dict


def _called(function, args):
    """A compiled function's results; one that is boxed is given one list."""
    boxed = getattr(function, "_boxed_call", False)
    return list(function(list(args)) if boxed else function(*args))


def _needs_gradient(value):
    return isinstance(value, Tensor) and value.requires_grad


class JointFunction:
    """A function recorded once for each look of its arguments.

    Args:
        fn: the function.
        compilers: the `Compilers`.
    """

    def __init__(self, fn, compilers):
        self.fn, self.compilers = fn, compilers
        self.programs: dict = {}

    def __call__(self, *args, **kwargs):
        """What the function gives, by its compiled graphs."""
        leaves, spec = tree_flatten((args, kwargs))
        tensors = [one for one in leaves if isinstance(one, Tensor)]
        rest = [_HOLE if isinstance(one, Tensor) else one for one in leaves]
        grad = rl.is_grad_enabled() and any(one.requires_grad for one in tensors)
        look = tuple(
            (t.shape, t.stride(), t.dtype, t.device, t.requires_grad) for t in tensors
        )
        key = look, grad, tuple((type(one), repr(one)) for one in rest), spec
        if key not in self.programs:
            self.programs[key] = self.program(tensors, rest, spec, grad)
        return self.programs[key](tensors, args, kwargs)

    def program(self, tensors, rest, spec, grad):
        """What runs calls with such arguments."""
        call = _FlatCall(self.fn, rest, spec)
        recorded = flat(recorded_of(call, tensors, grad, self.compilers.decompositions))
        if any(writes(node) for node in recorded.graph.nodes):
            whole = rl.compile(self.fn, backend=self.as_backend())
            return lambda _, args, kwargs: whole(*args, **kwargs)
        made = _trained if grad else _inferred
        return made(recorded, call, tensors, self.compilers)

    def as_backend(self):
        """For functions that write: what is written is recorded call by call."""
        own = self.compilers
        return aot_autograd(
            fw_compiler=own.forward,
            bw_compiler=own.backward,
            inference_compiler=own.inference,
            decompositions=own.decompositions,
        )


def writes(node):
    """Whether a step changes a tensor that it is given."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


class _FlatCall:
    """A call of a function of tensors alone, whose results are a list.

    Args:
        fn: the function.
        rest: its flat arguments; a hole where a tensor stands.
        spec: how they were nested.
    """

    def __init__(self, fn, rest, spec):
        self.fn, self.rest, self.spec, self.results = fn, rest, spec, None

    def __call__(self, tensors):
        given = iter(tensors)
        leaves = [next(given) if one is _HOLE else one for one in self.rest]
        args, kwargs = tree_unflatten(leaves, self.spec)
        made, self.results = tree_flatten(self.fn(*args, **kwargs))
        return made

    def nested(self, made):
        """Results as the function gives them."""
        return tree_unflatten(made, self.results)


def recorded_of(call, tensors, grad, decompositions):
    """The graph of a call; with gradients, the joint one.

    Args:
        call: a function of a list of tensors, which gives a list.
        tensors: its arguments.
        grad: whether gradients are part of the graph.
        decompositions: what to run in place of an operator, by operator.
    """

    def joint(primals, tangents):
        made = call(primals)
        wanted = [one for one in primals if one.requires_grad]
        found = iter(
            rl.autograd.grad(
                [one for one in made if _needs_gradient(one)],
                wanted,
                tangents,
                allow_unused=True,
            )
        )
        grads = [next(found) if one.requires_grad else None for one in primals]
        return [*made, *grads]

    primals = [one.detach().requires_grad_(one.requires_grad) for one in tensors]
    if not grad:
        made = make_fx(call, decompositions, "fake")(primals)
    else:
        tangents = _tangents(call, primals)
        with rl.enable_grad():
            made = make_fx(joint, decompositions, "fake")(primals, tangents)
    return made


def flat(graph):
    """A graph that takes its tensors one by one, and gives the leaves of its results."""
    graph.graph.set_codegen(CodeGen())
    graph.recompile()
    return graph


def _tangents(call, primals):
    """A gradient for each result that has one; the call is made without numbers."""
    with FakeTensorMode() as mode:
        made = call([mode.from_tensor(one) for one in primals])
    return [
        rl.ones(one.shape, dtype=one.dtype, device=one.device)
        for one in made
        if _needs_gradient(one)
    ]


def _inferred(graph, call, tensors, compilers):
    function = compilers.inference(graph, list(tensors))
    return lambda tensors, *_: call.nested(_called(function, tensors))


def _trained(graph, call, tensors, compilers):
    """A call whose gradients are the second graph's."""
    count = call.results.num_leaves
    outputs = graph.graph.output_node().args[0][:count]
    wanted = [_needs_gradient(one.meta["val"]) for one in outputs]
    first, second = compilers.partition(graph, None, num_fwd_outputs=count)
    forward = compilers.forward(first, list(tensors))
    backward: list = []

    class CompiledFunction(rl.autograd.Function):
        @staticmethod
        def forward(ctx, *tensors):
            made = _called(forward, tensors)
            results, saved = made[:count], made[count:]
            ctx.save_for_backward(*saved)
            ctx.mark_non_differentiable(
                *[one for one, needs in zip(results, wanted, strict=True) if not needs]
            )
            return tuple(results)

        @staticmethod
        def backward(ctx, *grads):
            tangents = [g for g, needs in zip(grads, wanted, strict=True) if needs]
            given = [*ctx.saved_tensors, *[one.contiguous() for one in tangents]]
            if not backward:
                backward.append(compilers.backward(second, given))
            return tuple(_called(backward[0], given))

    return lambda tensors, *_: call.nested(list(CompiledFunction.apply(*tensors)))
