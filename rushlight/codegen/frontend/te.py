"""Tensor expressions: what is computed, apart from the loops that compute it.

>>> x = placeholder((4, 8), name="x")
>>> k = reduce_axis((0, 8), name="k")
>>> y = compute((4,), lambda i: sum(x[i, k], axis=k), name="y")
>>> y
y[i] = sum(x[i, k], k)
"""

from __future__ import annotations

import inspect

from rushlight.codegen.emit import python
from rushlight.ir import expr as ir
from rushlight.ir.rewrite import map_expr

IDENTITIES = {"add": 0, "mul": 1, "max": float("-inf"), "min": float("inf")}
REDUCTION_NAMES = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


class Axis(ir.Var):
    """An index that runs over ``range(extent)``; summed over if ``reduce``."""

    __slots__ = ("extent", "reduce")

    def __init__(self, name, extent, reduce=False):
        super().__init__(name, ir.i64)
        self.extent, self.reduce = extent, reduce


class Read(ir.Expr):
    """One element of a tensor, at index expressions."""

    __slots__ = ("tensor",)

    def __init__(self, tensor, *indices):
        self.tensor, self.args, self.type = tensor, indices, tensor.type

    @property
    def attributes(self):
        return (self.tensor,)


class Reduce(ir.Expr):
    """A value combined over reduction axes; only at the top of a computation."""

    __slots__ = ("axes", "op")

    def __init__(self, op, axes, value):
        self.op, self.axes, self.args, self.type = op, axes, (value,), value.type

    @property
    def attributes(self):
        return self.op, self.axes

    @property
    def identity(self):
        """The value that changes nothing: where an accumulation starts."""
        value = IDENTITIES[self.op]
        if self.type.is_float or self.op in ("add", "mul"):
            return ir.Const(self.type, value)
        from rushlight.codegen.frontend.loop_words import bounds

        return ir.Const(self.type, bounds(self.type)[self.op == "min"])


class Tensor:
    """An array of known sizes: given from outside, or computed element by element."""

    def __init__(self, name, shape, type, axes=(), body=None):
        self.name, self.shape, self.type = name, tuple(shape), type
        self.axis, self.body = tuple(axes), body

    @property
    def dtype(self):
        """The name of the element type."""
        return self.type.name

    @property
    def reduce_axis(self):
        """The axes that the computation sums over."""
        return self.body.axes if isinstance(self.body, Reduce) else ()

    def __getitem__(self, indices):
        indices = indices if isinstance(indices, tuple) else (indices,)
        if len(indices) != len(self.shape):
            raise IndexError(
                f"{self.name} has {len(self.shape)} dimensions, got {len(indices)} "
                "indices"
            )
        return Read(self, *(ir.as_expr(index, ir.i64) for index in indices))

    def __repr__(self):
        if self.body is None:
            sizes = ", ".join(map(str, self.shape))
            return f"{self.name}: {self.type}[{sizes}]"
        names = ", ".join(axis.name for axis in self.axis)
        return f"{self.name}[{names}] = {self.body!r}"


def placeholder(shape, dtype="float32", name="placeholder") -> Tensor:
    """A tensor that the caller of the built function passes in."""
    return Tensor(name, shape, ir.Type(dtype))


def reduce_axis(bounds, name="k") -> Axis:
    """An axis to sum over, from 0 to ``bounds[1]``.

    Raises:
        ValueError: the range doesn't start at 0.
    """
    start, stop = bounds
    if start != 0:
        raise ValueError(f"reduce_axis: {name} starts at {start}; ranges start at 0")
    return Axis(name, stop, reduce=True)


def compute(shape, function, name="compute") -> Tensor:
    """A tensor whose element at ``i, j, ...`` is ``function(i, j, ...)``.

    Raises:
        TypeError: the function doesn't take one index for each dimension.
    """
    names = list(inspect.signature(function).parameters)
    if len(names) != len(shape):
        raise TypeError(
            f"compute: {name} has {len(shape)} dimensions, but its function "
            f"takes {len(names)} indices"
        )
    axes = [Axis(label, extent) for label, extent in zip(names, shape)]
    body = function(*axes)
    if not isinstance(body, ir.Expr):
        raise TypeError(f"compute: {name} is {body!r}, not an expression")
    return Tensor(name, shape, body.type, axes, body)


def _reduction(op, doc):
    def function(value, axis):
        axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        return Reduce(op, axes, value)

    function.__name__ = function.__qualname__ = REDUCTION_NAMES[op]
    function.__doc__ = doc
    return function


sum = _reduction("add", "The sum of a value over reduction axes.")
prod = _reduction("mul", "The product of a value over reduction axes.")
max = _reduction("max", "The largest value over reduction axes; NaN wins.")
min = _reduction("min", "The smallest value over reduction axes; NaN wins.")


def reads(e):
    """Every `Read` of an expression, in order of evaluation."""
    found = [item for arg in e.args for item in reads(arg)]
    return [*found, e] if isinstance(e, Read) else found


def substitute(e, values):
    """An expression with variables, found by identity, replaced."""
    return map_expr(e, lambda node: values.get(id(node), node))


class Intrinsic:
    """A block of work done by hand-written statements; see `intrinsic`."""

    def __init__(self, pattern, emit):
        self.pattern, self.emit = pattern, emit
        self.axes = (*pattern.axis, *pattern.reduce_axis)


def intrinsic(pattern, emit) -> Intrinsic:
    """Statements that stand for a small computation in `Stage.tensorize`.

    Args:
        pattern: a computed tensor of the block's sizes, over placeholders.
        emit: called with a view of the output and one of each read, in order; returns
            statements that write (for a reduction: accumulate into) the output. A view
            has ``load(*indices, lanes=1)`` and ``store(value, *indices)``.
    """
    return Intrinsic(pattern, emit)


def matches(pattern, e):
    """Whether an expression is a pattern with other tensors and axes read."""
    if type(pattern) is not type(e) and not isinstance(pattern, ir.Var):
        return False
    if pattern.type != e.type:
        return False
    if isinstance(pattern, (Read, ir.Var)):
        return True
    if isinstance(pattern, Reduce):
        return pattern.op == e.op and matches(pattern.args[0], e.args[0])
    same = repr(pattern.attributes) == repr(e.attributes)
    return (
        same
        and len(pattern.args) == len(e.args)
        and all(map(matches, pattern.args, e.args))
    )


def _render_read(e):
    return f"{e.tensor.name}[{', '.join(map(python.render_expr, e.args))}]"


def _render_reduce(e):
    names = ", ".join(axis.name for axis in e.axes)
    return f"{REDUCTION_NAMES[e.op]}({python.render_expr(e.args[0])}, {names})"


python.CALLS[Read] = _render_read
python.CALLS[Reduce] = _render_reduce
