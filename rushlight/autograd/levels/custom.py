"""``autograd.Function`` under transformations: each level asks for its part of it."""

import functools

from rushlight.autograd.dual_function import pushed
from rushlight.autograd.function import Function
from rushlight.autograd.levels.batch import BatchLevel
from rushlight.autograd.levels.gradient import GradientLevel
from rushlight.autograd.levels.rules import VmapInfo
from rushlight.autograd.levels.stack import THREAD, Outside, mapped, nested, revived
from rushlight.autograd.levels.tangent import TangentLevel
from rushlight.core.tensor import Tensor


def apply(function, args, kwargs):
    """A call of a Function inside a transformation: the innermost level takes it.

    Raises:
        RuntimeError: the Function defines no ``setup_context``, or not what the
            transformation needs.
    """
    level = THREAD.open[THREAD.at - 1]
    args = tuple(mapped(revived, arg) for arg in args)
    if not any(level.owns(tensor) for tensor in nested(args)):
        with Outside(level):
            return function.apply(*args, **kwargs)
    if function.setup_context is Function.setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, "
            "jvp, jacrev, ...), it must override the setup_context staticmethod.\n"
            f"  function: {function.__name__}"
        )
    if isinstance(level, GradientLevel):
        lifted = [mapped(level.lifted, arg) for arg in args]
        return _recorded(function).apply_here(*lifted)
    if isinstance(level, TangentLevel):
        return pushed(level, function, args)
    if not isinstance(level, BatchLevel):
        raise RuntimeError("NYI: Functionalize rule for custom_function_call")
    return _batched(level, function, args)


def _unwrapped(level, args):
    return [mapped(level.unwrap, arg) for arg in args]


def _known(args, values):
    """The tensors of a level by the numbers of their values: what returns is they."""
    pairs = zip(nested(list(args)), nested(list(values)))
    return {id(value): arg for arg, value in pairs}


# -- gradients -------------------------------------------------------------------------


@functools.cache
def _recorded(function):
    """The Function whose forward is a call of the given one by the level outside."""

    def forward(ctx, *args):
        level = THREAD.open[THREAD.at - 1]
        values = _unwrapped(level, args)
        with Outside(level):
            output = function.apply(*values)
        known = _known(args, values)
        output = mapped(
            lambda t: known[id(t)] if id(t) in known else level.wrap(t), output
        )
        function.setup_context(ctx, args, output)
        return output

    namespace = {
        "forward": staticmethod(forward),
        "backward": staticmethod(function.backward),
        "vjp": staticmethod(function.vjp),
    }
    if function.vjp is Function.vjp:
        del namespace["vjp"]
    if function.backward is Function.backward:
        del namespace["backward"]
    return type(function)(function.__name__, (Function,), namespace)


# -- batches ---------------------------------------------------------------------------


def _dims(level, value):
    """The dimensions that count examples, in the nest of the tensors; None for others."""
    if isinstance(value, Tensor):
        return value._stand.dim if level.owns(value) else None
    if isinstance(value, (tuple, list)):
        found = [_dims(level, item) for item in value]
        if hasattr(value, "_fields"):
            return type(value)(*found)
        return type(value)(found)
    if isinstance(value, dict):
        return {key: _dims(level, item) for key, item in value.items()}
    return None


def _batched(level, function, args):
    dims = _dims(level, args)
    written = function.vmap is not Function.vmap
    if function.generate_vmap_rule:
        if written:
            raise RuntimeError(
                f"You tried to vmap over {function.__name__}, but it has both "
                "generate_vmap_rule=True and an overriden vmap staticmethod. Please set "
                "generate_vmap_rule=False or delete the overriden vmap staticmethod to "
                "avoid ambiguity."
            )
        with Outside(level):
            made = _generated(function, level.size, level.randomness, dims)
            output = made.apply(*_unwrapped(level, args))
        return mapped(level.wrap, output)
    if not written:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it does not have vmap "
            "support. Please override and implement the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )
    values = _unwrapped(level, args)
    with Outside(level):
        info = VmapInfo(level.size, level.randomness)
        output, out_dims = function.vmap(info, dims, *values)
    known = _known(args, values)

    def shown(value, dim):
        arg = known.get(id(value))
        if arg is not None and (dim is None or arg._stand.dim == dim):
            return arg
        return value if dim is None else level.wrap(value, dim)

    if not isinstance(output, tuple):
        return shown(output, out_dims)
    if not isinstance(out_dims, tuple):
        out_dims = (out_dims,) * len(output)
    return tuple(shown(value, dim) for value, dim in zip(output, out_dims))


class _BatchContext:
    """One example's ``ctx`` over that of all: what it saves is kept whole."""

    def __init__(self, ctx, level):
        self.__dict__["ctx"], self.__dict__["level"] = ctx, level

    def save_for_backward(self, *tensors):
        values, dims = _unpacked(self.level, tensors)
        self.ctx.save_for_backward(*values)
        self.ctx.dims_of_saved = dims

    def save_for_forward(self, *tensors):
        values, dims = _unpacked(self.level, tensors)
        self.ctx.save_for_forward(*values)
        self.ctx.dims_of_saved = dims

    @property
    def saved_tensors(self):
        return tuple(
            value if dim is None else self.level.wrap(value, dim)
            for value, dim in zip(self.ctx.saved_tensors, self.ctx.dims_of_saved)
        )

    def __getattr__(self, name):
        found = getattr(self.ctx, name)
        if isinstance(found, tuple) and name in self.ctx.__dict__.get("kept", ()):
            value, dim = found
            return self.level.wrap(value, dim)
        return found

    def __setattr__(self, name, value):
        if isinstance(value, Tensor) and self.level.owns(value):
            self.ctx.kept = (*getattr(self.ctx, "kept", ()), name)
            value = (value._stand.value, value._stand.dim)
        setattr(self.ctx, name, value)


def _unpacked(level, tensors):
    values, dims = [], []
    for tensor in tensors:
        mine = tensor is not None and level.owns(tensor)
        values.append(tensor._stand.value if mine else tensor)
        dims.append(tensor._stand.dim if mine else None)
    return values, tuple(dims)


def _wrapped(level, value, dims):
    """A nest of whole batches as the level's tensors, by the nest of their dimensions."""
    if isinstance(value, Tensor):
        return value if dims is None else level.wrap(value, dims)
    if isinstance(value, (tuple, list)):
        return [_wrapped(level, item, dim) for item, dim in zip(value, dims)]
    if isinstance(value, dict):
        return {key: _wrapped(level, value[key], dims[key]) for key in value}
    return value


def _generated(function, size, randomness, dims):
    """A Function of whole batches whose parts are the given one's, each under `vmap`."""

    def forward(*args):
        with BatchLevel(size, randomness) as level:
            output = function.forward(*_wrapped(level, args, dims))
            return mapped(level.filled, output)

    def setup_context(ctx, inputs, output):
        with BatchLevel(size, randomness) as level:
            function.setup_context(
                _BatchContext(ctx, level),
                tuple(_wrapped(level, inputs, dims)),
                mapped(level.wrap, output),
            )
        ctx.shapes = [a.shape if isinstance(a, Tensor) else None for a in inputs]

    def backward(ctx, *grads):
        with BatchLevel(size, randomness) as level:
            found = function.backward(
                _BatchContext(ctx, level),
                *[None if g is None else level.wrap(g) for g in grads],
            )
            found = found if isinstance(found, tuple) else (found,)
            whole = [None if g is None else level.filled(g) for g in found]
        return tuple(
            None if g is None else g.movedim(0, dim) if dim is not None else g.sum(0)
            for g, dim in zip(whole, dims)
        )

    def jvp(ctx, *tangents):
        with BatchLevel(size, randomness) as level:
            given = [
                t if t is None or d is None else level.wrap(t, d)
                for t, d in zip(tangents, dims)
            ]
            return mapped(level.filled, function.jvp(_BatchContext(ctx, level), *given))

    namespace = {
        name: staticmethod(part)
        for name, part in (
            ("forward", forward),
            ("setup_context", setup_context),
            ("backward", backward),
            ("jvp", jvp),
        )
    }
    namespace["generate_vmap_rule"] = True
    return type(function)(f"Vmapped{function.__name__}", (Function,), namespace)
