"""Reductions: a monoid over one to three axes becomes loops with fixed trees.

Values are combined in an order that depends on the sizes alone: several vectors of
partial results, folded together at the end, so that sums are accurate and the same bits
come out for any number of threads. Long runs are cut into chunks whose results are
combined in turn, which bounds the error of floating-point sums.
"""

import functools

from rushlight.codegen.fingerprint import fingerprint
from rushlight.codegen.frontend.complexes import PARTS as COMPLEX_PARTS
from rushlight.codegen.frontend.complexes import Complex
from rushlight.codegen.frontend.front import Front, symbol
from rushlight.codegen.frontend.layouts import Operand, Reduced
from rushlight.codegen.frontend.monoids import Described, call, flat
from rushlight.codegen.frontend.nest_loops import Results, kernel
from rushlight.codegen.frontend.storage import computed
from rushlight.codegen.frontend.type_support import TypeSupport, refuse_stored_only
from rushlight.codegen.passes.name_shared import name_shared
from rushlight.ir import expr as ir
from rushlight.ir.expr import Along, Var, i64


def reduction(
    identity, prepare=None, accumulate=None, finish=None, widens=(), **support
):
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
        widens: the types whose values hosts are to compute in float64.
        support: the types that it takes beside the usual ones; see `TypeSupport`.

    Several state variables are passed and returned as a tuple.

        @reduction(identity=0)
        def sum(left, right):
            return left + right
    """

    def decorate(function):
        kernel = Reduction(function, identity, prepare, accumulate, finish)
        kernel.widens = widens
        kernel.support = TypeSupport(**support)
        return kernel

    return decorate


class Reduction(Front):
    """A reduction kernel; see `specialize`.

    The native code takes the data pointers of outputs, the input and, where the
    description asks for it, a float64 scalar; the integers are sizes and input strides
    of three reduced loops, then sizes, input strides and output strides of three kept
    ones. It handles a range of the flattened kept index.

    Attributes:
        widens: the types whose values hosts are to compute in float64.
        of_complex: ``of_complex(x, dim, correction, keepdim)`` reduces complex numbers in
            place of a kernel; None where there is no such function.
    """

    widens = ()
    of_complex = None
    has_rows = True

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

    def specialize(self, in_dtype, out_dtypes, compute, mode=None):
        """The native kernel for these dtypes.

        Args:
            in_dtype: name of the input's dtype.
            out_dtypes: names of the outputs' dtypes; results are cast to them.
            compute: the dtype that values are cast to before they are prepared.
            mode: the only way that rows are worked on (see `nest_loops.ways`), or None.

        Raises:
            NotImplementedError: the type is stored only, and not computed with.
        """
        refuse_stored_only(self, (compute,))
        kinds = in_dtype, tuple(out_dtypes), compute
        return self.native(*kinds, *([] if mode is None else [mode]))

    def ways(self, in_dtype, out_dtypes, compute):
        """What decides how rows are worked on; see `nest_loops.ways`.

        Raises:
            NotImplementedError: as `specialize` does.
        """
        refuse_stored_only(self, (compute,))
        return super().ways(in_dtype, out_dtypes, compute)

    def kernel_name(self, in_dtype, out_dtypes, compute, mode=""):
        return symbol("reduce", self.name, in_dtype, out_dtypes, compute, mode)

    def trace(self, in_dtype, out_dtypes, compute, *mode):
        """The description as text, and the loops."""
        name = self.kernel_name(in_dtype, out_dtypes, compute, *mode)
        function = kernel(name, *self.program(in_dtype, out_dtypes, compute, *mode))
        return self.describe(monoid_of(self, compute)), function

    def program(self, in_dtype, out_dtypes, compute, mode=None):
        """The results, and what reads the kernel's integers."""
        monoid = monoid_of(self, compute)
        part = monoid.type
        types = [part, part] if monoid.complex and in_dtype in COMPLEX_PARTS else [part]
        if in_dtype in COMPLEX_PARTS:
            parts = [Var("x_real", part), Var("x_imag", part)][: len(types)]
        else:
            parts = [Var("x", part)]
        x = parts[0] if len(parts) == 1 else Complex(*parts)
        scalar = Var("scalar", ir.f64) if monoid.needs_scalar else None
        values = monoid.values(Complex.of(x, part) if monoid.complex else x, scalar)
        leaves = [Along(monoid, leaf, *values) for leaf in range(len(monoid.types))]
        names = ["out"] if len(out_dtypes) == 1 else [f"out{k}" for k in range(9)]
        operands = [Operand(name, d) for name, d in zip(names, out_dtypes)]
        finished = monoid.finished(leaves, scalar)
        outputs = [
            operand.storage.split(value)
            for value, operand in zip(finished, operands, strict=True)
        ]
        operands.append(Operand("input", in_dtype, types))
        inputs = [parts]
        if scalar is not None:
            operands.append(Operand("scalar", "float64", [ir.f64], varies=False))
            inputs.append([scalar])
        return Results(operands, outputs, inputs), functools.partial(Reduced, mode=mode)

    def describe(self, monoid):
        """The description traced on one value, as readable text."""
        x, scalar = monoid.symbol("x"), Var("scalar", ir.f64)
        extras = {"index": Var("index", i64), "scalar": scalar}
        prepared = flat(call(self.prepare, (x,), extras), monoid.type)
        state, other = (
            [Var(f"{name}{k}", type) for k, type in enumerate(monoid.types)]
            for name in ("state", "other")
        )
        first = ", ".join(repr(value) for value in monoid.empty(1))
        finished = flat(monoid.finished(state, scalar), monoid.type)
        return "\n".join(
            [
                f"identity({first})",
                _listing("prepare", prepared),
                _listing("combine", monoid.combined(state, other)),
                _listing("finish", finished),
            ]
        )


def monoid_of(front, compute) -> Described:
    """The monoid of a description whose values are computed in a dtype."""
    return Described(front, computed(compute), compute in COMPLEX_PARTS)


def _listing(name, values):
    lets, trees = name_shared(values)
    steps = "".join(f"    {let}\n" for let in lets)
    return f"{name}:\n{steps}    return {', '.join(map(repr, trees))}"
