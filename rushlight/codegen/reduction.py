"""Reductions: a monoid over one to three axes becomes loops with fixed trees.

Values are combined in an order that depends on the sizes alone: several vectors of
partial results, folded together at the end, so that sums are accurate and the same bits
come out for any number of threads. Long runs are cut into chunks whose results are
combined in turn, which bounds the error of floating-point sums.
"""

from __future__ import annotations

import functools
import inspect
import math

from rushlight.codegen import expr as ir
from rushlight.codegen.complexes import Complex
from rushlight.codegen.expr import Const, Type, Var, i64
from rushlight.codegen.fingerprint import fingerprint
from rushlight.codegen.front import Front, symbol
from rushlight.codegen.passes.name_shared import name_shared
from rushlight.codegen.pointwise import COMPLEX_PARTS, COMPUTED_IN
from rushlight.codegen.reduction_loops import across, along, segments
from rushlight.codegen.stored_only import refuse_stored_only


def reduction(identity, prepare=None, accumulate=None, finish=None, widens=False):
    """Makes a function that combines two states a reduction kernel.

    Args:
        identity: the state of no values: a number, or a tuple for several state
            variables. An infinity stands for the bounds of an integer type.
        prepare: from a value to its state, by default itself. A parameter named
            ``index`` receives its position along the reduced axes, one named ``scalar``
            the kernel's extra float64 argument.
        accumulate: from a state and a value to the next state, where that is cheaper
            than combining with a prepared value; may take the same parameters.
        finish: from a state to the outputs, by default the state; may take ``scalar``.
        widens: whether float32 values are to be computed in float64.

    Several state variables are passed and returned as a tuple.

        @reduction(identity=0)
        def sum(left, right):
            return left + right
    """

    def decorate(function):
        kernel = Reduction(function, identity, prepare, accumulate, finish)
        kernel.widens = widens
        return kernel

    return decorate


class Reduction(Front):
    """A reduction kernel; see `specialize`.

    The native code takes the data pointers of outputs, the input and, where the
    description asks for it, a float64 scalar; the integers are sizes and input strides
    of three reduced loops, then sizes, input strides and output strides of three kept
    ones. It handles a range of the flattened kept index.

    Attributes:
        widens: whether float32 values are to be computed in float64.
    """

    widens = False

    def __init__(self, function, identity, prepare, accumulate, finish):
        super().__init__(function)
        self.identity, self.combine = identity, function
        self.prepare = prepare or (lambda x: x)
        self.accumulate, self.finish = accumulate, finish

    @functools.cached_property
    def digest(self) -> str:
        """A digest of all its parts: one combination may be finished in several ways."""
        parts = self.identity, self.prepare, self.accumulate, self.finish
        return fingerprint(self.function, *parts)

    def specialize(self, in_dtype, out_dtypes, compute):
        """The native kernel for these dtypes.

        Args:
            in_dtype: name of the input's dtype.
            out_dtypes: names of the outputs' dtypes; results are cast to them.
            compute: the dtype that values are cast to before they are prepared.

        Raises:
            NotImplementedError: the type is stored only, and not computed with.
        """
        refuse_stored_only(self.name, (compute,))
        return self.native(in_dtype, tuple(out_dtypes), compute)

    def kernel_name(self, in_dtype, out_dtypes, compute):
        return symbol("reduce", self.name, in_dtype, out_dtypes, compute)

    def trace(self, in_dtype, out_dtypes, compute):
        """The description as text, and the loops."""
        monoid = Monoid(self, in_dtype, out_dtypes, compute)
        body = segments(monoid, along, across)
        return self.describe(monoid), ir.kernel(
            self.kernel_name(in_dtype, out_dtypes, compute), body
        )

    def describe(self, monoid):
        """The description traced on one value, as readable text."""
        x = monoid.symbol("x")
        index, scalar = Var("index", i64), Var("scalar", ir.f64)
        state = monoid.states("state")
        other = monoid.states("other")
        first = ", ".join(repr(value) for value in monoid.empty(1))
        return "\n".join(
            [
                f"identity({first})",
                _listing("prepare", monoid.prepared(x, index, scalar)),
                _listing("combine", monoid.combined(state, other)),
                _listing("finish", monoid.finished(state, scalar)),
            ]
        )


def _listing(name, values):
    lets, trees = name_shared(values)
    steps = "".join(f"    {let}\n" for let in lets)
    return f"{name}:\n{steps}    return {', '.join(map(repr, trees))}"


class Monoid:
    """A reduction for given dtypes: its states as flat lists of real expressions."""

    def __init__(self, front, in_dtype, out_dtypes, compute):
        self.front = front
        self.complex = compute in COMPLEX_PARTS
        self.source = Type(COMPLEX_PARTS.get(in_dtype, in_dtype))
        self.source_parts = 2 if in_dtype in COMPLEX_PARTS else 1
        self.itemsize = self.source.itemsize * self.source_parts
        self.compute = Type(
            COMPLEX_PARTS.get(compute) or COMPUTED_IN.get(compute, compute)
        )
        self.outputs = [
            (Type(COMPLEX_PARTS.get(d, d)), d in COMPLEX_PARTS) for d in out_dtypes
        ]
        sample = self.front_prepare(
            self.symbol("x"), Var("index", i64), Var("scalar", ir.f64)
        )
        self.several = isinstance(sample, tuple)
        self.shapes = [isinstance(v, Complex) for v in self._tuple(sample)]
        self.types = [leaf.type for leaf in self._flat(sample, self.compute)]
        widest = max(t.itemsize for t in [*self.types, self.compute])
        self.lanes = 1 if self.complex or self.source_parts > 1 else 64 // widest
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
                Var(f"{name}_real", self.compute), Var(f"{name}_imag", self.compute)
            )
        return Var(name, self.compute)

    def states(self, name):
        """Symbolic state variables."""
        return [Var(f"{name}{k}", type) for k, type in enumerate(self.types)]

    def empty(self, lanes):
        """The identity's state variables."""
        values = list(self._tuple(self.front.identity))
        flat = []
        for value, is_complex in zip(values, self.shapes, strict=True):
            flat += [value, 0] if is_complex else [value]
        return [
            Const(t.vector(lanes), _bounded(v, t))
            for v, t in zip(flat, self.types, strict=True)
        ]

    def load(self, pointer, index, lanes, mask=None):
        """Values of the input in the type computed in."""
        if self.source_parts == 2:
            first = index * 2
            whole = Complex(ir.load(pointer, first), ir.load(pointer, first + 1))
            return Complex.of(whole, self.compute) if self.complex else whole.real
        value = ir.cast(self.compute, ir.load(pointer, index, lanes, mask=mask))
        return Complex.of(value, self.compute) if self.complex else value

    def front_prepare(self, x, index, scalar):
        return _call(self.front.prepare, (x,), index, scalar)

    def prepared(self, x, index, scalar):
        """The state of one value."""
        return self._flat(self.front_prepare(x, index, scalar), _type_of(x))

    def combined(self, left, right):
        """The state of two states."""
        result = self.front.combine(self._nested(left), self._nested(right))
        return self._flat(result, left[0].type)

    def accumulated(self, state, x, index, scalar, mask=None):
        """The state after one more value, or vector of values."""
        if self.front.accumulate is None:
            value = self.prepared(x, index, scalar)
            if mask is not None:
                value = [
                    ir.select(mask, v, e)
                    for v, e in zip(value, self.empty(mask.type.lanes), strict=True)
                ]
            return self.combined(state, value)
        result = self._flat(
            _call(self.front.accumulate, (self._nested(state), x), index, scalar),
            state[0].type,
        )
        if mask is None:
            return result
        return [
            ir.select(mask, new, old) for new, old in zip(result, state, strict=True)
        ]

    def finished(self, state, scalar):
        """The outputs, cast to their dtypes, as flat parts."""
        result = self._nested(state)
        if self.front.finish is not None:
            result = _call(self.front.finish, (result,), None, scalar)
        flat = []
        for value, (type, is_complex) in zip(
            self._tuple(result), self.outputs, strict=True
        ):
            if is_complex:
                value = Complex.of(value, type)
                flat += [value.real, value.imag]
            else:
                real = value.real if isinstance(value, Complex) else value
                flat.append(ir.cast(type, real))
        return flat

    def _tuple(self, value):
        return value if isinstance(value, tuple) else (value,)

    def _flat(self, value, type):
        leaves = []
        for item in self._tuple(value):
            if isinstance(item, Complex):
                leaves += [item.real, item.imag]
            else:
                leaves.append(ir.as_expr(item, type))
        return leaves

    def _nested(self, flat):
        rest = iter(flat)
        values = tuple(
            Complex(next(rest), next(rest)) if is_complex else next(rest)
            for is_complex in self.shapes
        )
        return values if self.several else values[0]


def _type_of(x):
    return x.real.type if isinstance(x, Complex) else x.type


def _call(function, args, index, scalar):
    """Calls a piece of the description with the extras that its parameters name."""
    wanted = inspect.signature(function).parameters
    extras = {"index": index, "scalar": scalar}
    return function(*args, **{k: v for k, v in extras.items() if k in wanted})


def _bounded(value, type):
    """An identity in a type: infinities become the bounds of integers and bool."""
    if type.is_float or not isinstance(value, float) or not math.isinf(value):
        return value
    if type.is_bool:
        return value > 0
    low = -(1 << type.bits - 1) if type.is_signed else 0
    return low + (1 << type.bits) - 1 if value > 0 else low
