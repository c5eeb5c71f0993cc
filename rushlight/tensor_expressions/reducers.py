"""Reductions that join several values at once, as the largest element and its index.

>>> from rushlight import te
>>> largest = te.comm_reducer(
...     lambda left, right: (
...         te.if_then_else(right[0] > left[0], right[0], left[0]),
...         te.if_then_else(right[0] > left[0], right[1], left[1]),
...     ),
...     (float("-inf"), 0),
...     name="largest",
... )
>>> x = te.placeholder((4, 8), name="x")
>>> k = te.reduce_axis((0, 8), name="k")
>>> best, at = te.compute((4,), lambda i: largest((x[i, k], k), axis=k), name="best")
>>> best
best[i] = largest(x[i, k], k, axis=k)[0], largest(x[i, k], k, axis=k)[1]
"""

from rushlight.codegen.emit import python
from rushlight.ir import expr as ir
from rushlight.tensor_expressions.expressions import Reduce


class Part(Reduce):
    """One of the values that a `Reducer` joins; its arguments are all of their elements."""

    __slots__ = ("number",)

    def __init__(self, op, axes, number, *values):
        self.op, self.axes, self.number = op, axes, number
        self.args, self.type = values, values[number].type

    @property
    def attributes(self):
        return self.op, self.axes, self.number

    @property
    def identity(self):
        return ir.Const(self.type, self.op.identity[self.number])


class Reducer:
    """Joins tuples of values; called in `te.compute` with the values and their axes."""

    def __init__(self, combine, identity, name):
        self.combine, self.identity, self.name = combine, tuple(identity), name

    def __repr__(self):
        return self.name

    def __call__(self, values, axis):
        axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        if len(values) != len(self.identity):
            raise ValueError(
                f"{self.name} joins {len(self.identity)} values, not {len(values)}"
            )
        values = tuple(map(_as_value, values))
        left, right = (
            [ir.Var(f"{side}{n}", v.type) for n, v in enumerate(values)]
            for side in "xy"
        )
        found = self.joined(left, right)
        if [v.type for v in found] != [v.type for v in values]:
            types = ", ".join(str(v.type) for v in values)
            raise TypeError(
                f"{self.name} makes {', '.join(str(v.type) for v in found)} of {types}\n"
                "  remedy: te.cast(value, dtype) in what it combines"
            )
        return tuple(Part(self, axes, n, *values) for n in range(len(values)))

    def joined(self, left, right):
        """The values of two states together."""
        found = self.combine(tuple(left), tuple(right))
        if not isinstance(found, (tuple, list)) or len(found) != len(self.identity):
            raise TypeError(
                f"{self.name} combines {len(self.identity)} values, and returned {found!r}"
            )
        return tuple(map(_as_value, found))


def comm_reducer(combine, identity, name="reducer") -> Reducer:
    """A reduction of several values at once, by a function that joins two tuples of them.

    Args:
        combine: takes what was joined so far and an element's values, each a tuple; returns
            the tuple of both. Turns of a loop come in order; schedules may join parts.
        identity: for each value, the number that changes nothing: where it starts.
        name: what it is called in texts and errors.

    Raises:
        ValueError: there is no identity.
    """
    if not identity:
        raise ValueError(f"comm_reducer: {name} has no identity, so it joins nothing")
    return Reducer(combine, identity, name)


def joints(found):
    """Reductions in groups that are joined at once, each whole and by number."""
    groups = {}
    for item in found:
        if isinstance(item, Part):
            whole = [
                Part(item.op, item.axes, n, *item.args) for n in range(len(item.args))
            ]
            key = id(item.op), *map(id, item.args)
            groups.setdefault(key, whole)[item.number] = item
        else:
            groups[id(item)] = [item]
    return list(groups.values())


def _as_value(value):
    """An expression; of a number a constant of the type that it has in Python."""
    if isinstance(value, ir.Expr):
        return value
    return ir.Const(ir.i64 if isinstance(value, int) else ir.f32, value)


def _render(e):
    names = ", ".join(axis.name for axis in e.axes)
    values = ", ".join(map(python.render_expr, e.args))
    return f"{e.op.name}({values}, axis={names})[{e.number}]"


python.CALLS[Part] = _render
