"""Monoids: how the values of a row become one state, of one or more variables.

A state is a list of real expressions, its leaves. A monoid has a state of no values, a
way to combine two states and, where that is cheaper, a way to take in one more value.
Online algorithms are monoids whose states have several leaves: moments (count, mean,
squares), an extreme and its position, the logarithm of a sum of exponentials (largest so
far, mass relative to it).
"""

import functools
import inspect
import math

from rushlight.codegen.frontend.complexes import Complex
from rushlight.ir import expr as ir
from rushlight.ir.expr import Call, Const, Position, Type, Var

# Each accumulator takes in 16 values, then passes its result on to one that takes in
# 16 of those, and so on: the error of a long sum grows with its logarithm at first.
CHUNK, LEVELS = 16, 3


class Plain:
    """One of the machine's own operations: ``add``, ``max`` or ``min``.

    Attributes:
        name: the operation.
        types: of the state's leaves.
        vectors: how many vectors of partial results a row has; None to choose by the
            costs of the values.
        levels: of chunks, see `CHUNK`: one for sums, which are of a row as a rule.
        any_order: whether a state has the same bits in whatever order values are taken in.
    """

    vectors = None

    def __init__(self, name, type):
        self.name, self.types = name, (type,)
        self.levels = int(name == "add")
        self.any_order = name != "add"

    def empty(self, lanes):
        """The state of no values."""
        identity = {"add": 0, "max": -math.inf, "min": math.inf}[self.name]
        type = self.types[0]
        return [Const(type.vector(lanes), bounded(identity, type))]

    def combined(self, left, right):
        """The state of two states."""
        return [ir.Binary(self.name, left[0], right[0])]

    def taken(self, state, values, mask=None):
        """The state after one more value, or vector of values where the mask holds."""
        return self.combined(state, _masked(values, self.empty, mask))

    def across_lanes(self, state):
        """One state out of those in a vector's lanes."""
        return [Call(f"reduce_{self.name}", self.types[0], state[0])]


@functools.cache
def plain(name, type) -> Plain:
    """The monoid of an operation, one object for each type."""
    return Plain(name, type)


class Described:
    """A reduction's description (see `reduction`) over values of one type.

    Args:
        front: the `Reduction`.
        type: what its values are computed in.
        is_complex: whether they are pairs of that type.
    """

    levels = LEVELS
    any_order = False

    def __init__(self, front, type, is_complex=False):
        self.front, self.type, self.complex = front, type, is_complex
        self.name = front.name
        extras = {"index": Position(), "scalar": Var("scalar", ir.f64)}
        sample = call(front.prepare, (self.symbol("x"),), extras)
        self.several = isinstance(sample, tuple)
        self.shapes = [isinstance(value, Complex) for value in tuple_of(sample)]
        self.types = tuple(leaf.type for leaf in flat(sample, type))
        self.vectors = 4 if len(self.types) == 1 else 2
        functions = (front.prepare, front.accumulate, front.finish)
        self.needs_scalar = any(
            f is not None and "scalar" in inspect.signature(f).parameters
            for f in functions
        )

    def symbol(self, name):
        """A symbolic value of the type computed in."""
        if self.complex:
            return Complex(
                Var(f"{name}_real", self.type), Var(f"{name}_imag", self.type)
            )
        return Var(name, self.type)

    def values(self, x, scalar):
        """What of one value, or row of values, the state takes in.

        Args:
            x: the value.
            scalar: the description's extra number, or None.
        """
        extras = {"index": Position(), "scalar": scalar}
        if self.front.accumulate is None:
            return flat(call(self.front.prepare, (x,), extras), self.type)
        wanted = [name for name in _extras_of(self.front.accumulate) if name in extras]
        return [*flat(x, self.type), *(extras[name] for name in wanted)]

    def empty(self, lanes):
        """The state of no values."""
        leaves = []
        for value, is_complex in zip(
            tuple_of(self.front.identity), self.shapes, strict=True
        ):
            leaves += [value, 0] if is_complex else [value]
        return [
            Const(type.vector(lanes), bounded(value, type))
            for value, type in zip(leaves, self.types, strict=True)
        ]

    def combined(self, left, right):
        """The state of two states."""
        result = self.front.combine(self.nested(left), self.nested(right))
        return flat(result, left[0].type)

    def taken(self, state, values, mask=None):
        """The state after one more value, or vector of values where the mask holds."""
        if self.front.accumulate is None:
            return self.combined(state, _masked(values, self.empty, mask))
        parts = 2 if self.complex else 1
        x = Complex(*values[:2]) if self.complex else values[0]
        extras = dict(
            zip(_extras_of(self.front.accumulate), values[parts:], strict=True)
        )
        result = self.front.accumulate(self.nested(state), x, **extras)
        result = flat(result, state[0].type)
        if mask is None:
            return result
        return [
            ir.select(mask, new, old) for new, old in zip(result, state, strict=True)
        ]

    def across_lanes(self, state):
        """One state out of those in a vector's lanes: halves onto halves."""
        return None

    def nested(self, leaves):
        """A state as its functions are given it."""
        rest = iter(leaves)
        values = tuple(
            Complex(next(rest), next(rest)) if is_complex else next(rest)
            for is_complex in self.shapes
        )
        return values if self.several else values[0]

    def finished(self, state, scalar):
        """The results of a state, a tuple."""
        result = self.nested(state)
        if self.front.finish is not None:
            result = call(self.front.finish, (result,), {"scalar": scalar})
        return tuple_of(result)


def _extras_of(function):
    return list(inspect.signature(function).parameters)[2:]


def _masked(values, empty, mask):
    if mask is None:
        return values
    return [
        ir.select(mask, value, nothing)
        for value, nothing in zip(values, empty(mask.type.lanes), strict=True)
    ]


def call(function, args, extras):
    """Calls a piece of a description with the extras that its parameters name."""
    wanted = inspect.signature(function).parameters
    return function(*args, **{k: v for k, v in extras.items() if k in wanted})


def tuple_of(value):
    """Several values as they are, one in a tuple."""
    return value if isinstance(value, tuple) else (value,)


def flat(value, type):
    """The real expressions of a value or tuple of values; numbers become literals."""
    leaves = []
    for item in tuple_of(value):
        if isinstance(item, Complex):
            leaves += [item.real, item.imag]
        else:
            leaves.append(ir.as_expr(item, type))
    return leaves


def bounded(value, type: Type):
    """An identity in a type: infinities become the bounds of integers and bool."""
    if type.is_float or not isinstance(value, float) or not math.isinf(value):
        return value
    if type.is_bool:
        return value > 0
    low = -(1 << type.bits - 1) if type.is_signed else 0
    return low + (1 << type.bits) - 1 if value > 0 else low
