"""Gradients of operators from outside: `register_autograd`'s formulas, recorded.

An operator's tensors may come in lists, and so may its results; a `Function` takes and
gives single tensors. Each call is taken apart here, and put together again for the
user's two functions.
"""

from rushlight.autograd.function import Function
from rushlight.core import state
from rushlight.core.tensor import Tensor
from rushlight.dispatch.keys import DispatchKey


def recorder(op, backward=None, setup_context=None):
    """The kernel of an operator's autograd key.

    Args:
        op: the operator.
        backward: ``backward(ctx, *grads)``; without it, a backward pass is refused.
        setup_context: ``setup_context(ctx, inputs, output)`` saves what backward needs;
            one with keyword-only arguments takes ``keyword_only_inputs`` as well.

    Returns:
        ``kernel(keyset, *args)``, for `Library.impl` with ``with_keyset``.
    """
    function = _function(op, backward, setup_context)

    def kernel(keyset, *args):
        below = keyset.below(DispatchKey.ADInplaceOrView)
        if not (state.is_grad_enabled() and any(map(_wants_gradient, args))):
            return op.redispatch(below, *args)
        call = _Call(op, below, args)
        return call.joined_result(function.apply(call, *call.tensors))

    return kernel


def _wants_gradient(arg):
    if isinstance(arg, Tensor):
        return arg.requires_grad
    if isinstance(arg, (list, tuple)):
        return any(isinstance(item, Tensor) and item.requires_grad for item in arg)
    return False


def _of_tensors(value):
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(item is None or isinstance(item, Tensor) for item in value)
        and not all(item is None for item in value)
    )


class _Call:
    """One call's arguments: all, and the single ones among the positional."""

    def __init__(self, op, below, args):
        rows = op.signature.rows
        self.op, self.below = op, below
        self.names = [row[0] for row in rows if row[3]]
        self.positional = args[: len(rows) - len(self.names)]
        self.keywords = args[len(rows) - len(self.names) :]
        self.lengths = [len(a) if _of_tensors(a) else None for a in self.positional]
        self.tensors = _split(self.positional, self.lengths)
        self.result_lengths = self.several = None

    def joined(self, flat):
        """Single values as the arguments were: lists where those were lists."""
        return _joined(flat, self.lengths)

    def flatten_result(self, result):
        self.several = isinstance(result, tuple)
        parts = result if self.several else (result,)
        self.result_lengths = [len(r) if _of_tensors(r) else None for r in parts]
        flat = _split(parts, self.result_lengths)
        return tuple(flat) if self.several or self.result_lengths != [None] else flat[0]

    def joined_result(self, flat):
        if not self.several and self.result_lengths == [None]:
            return flat
        parts = _joined(flat, self.result_lengths)
        return tuple(parts) if self.several else parts[0]


def _split(values, lengths):
    flat = []
    for value, length in zip(values, lengths):
        if length is None:
            flat.append(value)
        else:
            flat.extend(value)
    return flat


def _joined(flat, lengths):
    flat = iter(flat)
    return [
        next(flat) if length is None else [next(flat) for _ in range(length)]
        for length in lengths
    ]


def _function(op, backward, setup_context):
    base, _, overload = op.name.partition(".")
    name = f"{op.namespace}::{op.name}"
    title = f"{op.namespace}.{base}.{overload or 'default'}"

    def forward(ctx, call, *flat):
        args = call.joined(flat)
        result = op.redispatch(call.below, *args, *call.keywords)
        ctx.call = call
        flat_result = call.flatten_result(result)
        if setup_context is not None:
            given = {"ctx": ctx, "inputs": tuple(args), "output": result}
            if call.names:
                values = zip(call.names, call.keywords)
                given["keyword_only_inputs"] = dict(values)
            setup_context(**given)
        return flat_result

    def pull(ctx, *grads):
        if backward is None:
            raise RuntimeError(
                f"Trying to backward through {title} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        call, needs = ctx.call, ctx.needs_input_grad
        ctx.needs_input_grad = tuple(call.joined(needs[1:]))
        try:
            result = backward(ctx, *_joined(grads, call.result_lengths))
        finally:
            ctx.needs_input_grad = needs
        result = result if isinstance(result, tuple) else (result,)
        return (None, *_gradients(name, call.lengths, result))

    parts = {"forward": staticmethod(forward), "backward": staticmethod(pull)}
    node = f"GeneratedBackwardFor_{title.replace('.', '_')}"
    return type(Function)(node, (Function,), parts)


def _gradients(name, lengths, result):
    """The gradients that a formula gave, one for each single tensor."""
    if len(result) != len(lengths):
        raise RuntimeError(
            f"{name}: the backward formula returned {len(result)} gradients for "
            f"{len(lengths)} inputs"
        )
    flat = []
    for given, length in zip(result, lengths):
        if length is None:
            flat.append(given)
        elif given is None:
            flat.extend([None] * length)
        elif not isinstance(given, (list, tuple)) or len(given) != length:
            raise RuntimeError(
                f"{name}: the backward formula returned {type(given).__name__} for a "
                f"list of {length} tensors, not a list of as many gradients"
            )
        else:
            flat.extend(given)
    return flat
