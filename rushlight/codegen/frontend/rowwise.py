"""Kernels over rows: softmax, normalisation, losses, in whole-tensor form.

    @rowwise
    def softmax(x, dim):
        mass = exp(x - largest(x, over=dim))
        return mass / total(mass, over=dim)

Reductions over the row cut the program into passes; what one pass has computed at some
cost and a later one needs is kept in the output. A result that is the same along the
row is written once for each row.
"""

import inspect
from functools import cached_property, partial

from rushlight.codegen.fingerprint import fingerprint
from rushlight.codegen.frontend.front import Front, symbol
from rushlight.codegen.frontend.layouts import Operand, Rows
from rushlight.codegen.frontend.nest import ROW, along, length
from rushlight.codegen.frontend.nest_loops import Results, kernel
from rushlight.codegen.frontend.storage import computed
from rushlight.codegen.frontend.type_support import TypeSupport, refuse_stored_only
from rushlight.codegen.passes.name_shared import name_shared
from rushlight.ir import expr as ir
from rushlight.ir.expr import At, Position, Type, Var, i64


def _along(name, op, x, over):
    if over is not ROW:
        raise TypeError(
            f"{name}(..., over=dim) needs the dim parameter of a rowwise "
            f"kernel, not {over!r}"
        )
    return along(op, x)


def largest(x, over):
    """The largest value of each row; NaN where there is one."""
    return _along("largest", "max", x, over)


def smallest(x, over):
    """The smallest value of each row; NaN where there is one."""
    return _along("smallest", "min", x, over)


def total(x, over):
    """The sum of each row."""
    return _along("total", "add", x, over)


def mean(x, over):
    """The sum of each row over its length."""
    return total(x, over) / ir.cast(x.type, length(over))


def element(x, index, over):
    """The value of ``x`` at one position of each row, an int64; unchecked."""
    if over is not ROW:
        raise TypeError("element(..., over=dim) needs the dim of a rowwise kernel")
    return At(x, ir.as_expr(index, i64))


def position(over):
    """The position along the row of each value, as an int64."""
    if over is not ROW:
        raise TypeError("position(over=dim) needs the dim of a rowwise kernel")
    return Position()


def rowwise(function=None, *, scalars=(), **support):
    """Makes a function over rows a kernel.

    Args:
        scalars: names of the parameters that have one value for each row.
        support: the types that it takes beside the usual ones; see `TypeSupport`.

    A parameter named ``dim`` stands for the row's axis and is no operand. Parameters
    after it are float64 numbers of the launch, in the type that is computed in.
    """
    if function is None:
        return lambda one: rowwise(one, scalars=scalars, **support)
    kernel = Rowwise(function, scalars)
    kernel.support = TypeSupport(**support)
    return kernel


class Rowwise(Front):
    """A kernel over rows; see `specialize`.

    The native code takes the data pointers of outputs, then inputs, then the float64
    numbers that the parameters after ``dim`` are, and the integers
    ``n`` (the row's length), ``inner`` (rows in the inner of two row loops), then for
    every operand its byte stride in the outer row loop, then those in the inner row
    loop, then those along the row. It handles a range of rows.
    """

    has_rows = True

    def __init__(self, function, scalars):
        super().__init__(function)
        names = list(inspect.signature(function).parameters)
        unknown = [name for name in scalars if name not in names]
        if unknown:
            raise TypeError(f"{self.name}: no parameters named {unknown}")
        at = names.index("dim") if "dim" in names else len(names)
        self.names, self.numbers = names[:at], names[at + 1 :]
        self.scalars = tuple(scalars)

    @cached_property
    def digest(self) -> str:
        """A digest of all that describes this kernel; see `fingerprint`."""
        return fingerprint(self.function, self.scalars)

    def specialize(self, in_dtypes, out_dtypes, compute, mode=None):
        """The native kernel for these dtypes.

        Args:
            in_dtypes: names of the inputs' dtypes.
            out_dtypes: names of the outputs' dtypes.
            compute: the dtype that inputs are cast to, or a tuple of one for each. One
                name leaves integer scalars (labels) as they are.
            mode: the only way that rows are worked on (see `nest_loops.ways`), or None.

        Raises:
            NotImplementedError: the type is stored only, and not computed with.
        """
        refuse_stored_only(self, (compute,) if isinstance(compute, str) else compute)
        kinds = tuple(in_dtypes), tuple(out_dtypes), compute
        return self.native(*kinds, *([] if mode is None else [mode]))

    def ways(self, in_dtypes, out_dtypes, compute):
        """What decides how rows are worked on; see `nest_loops.ways`.

        Raises:
            NotImplementedError: as `specialize` does.
        """
        refuse_stored_only(self, (compute,) if isinstance(compute, str) else compute)
        return super().ways(in_dtypes, out_dtypes, compute)

    def kernel_name(self, in_dtypes, out_dtypes, compute, mode=""):
        return symbol("rows", self.name, in_dtypes, out_dtypes, compute, mode)

    def program(self, in_dtypes, out_dtypes, compute, mode=None):
        """The results, and what reads the kernel's integers."""
        results = self.traced(in_dtypes, out_dtypes, compute)[2]
        return results, partial(Rows, mode=mode)

    def traced(self, in_dtypes, out_dtypes, compute):
        """Inputs, outputs, and both as a kernel's results."""
        inputs = [
            Var(name, self.input_type(name, dtype, k, compute))
            for k, (name, dtype) in enumerate(zip(self.names, in_dtypes, strict=True))
        ]
        numbers = [Var(name, ir.f64) for name in self.numbers]
        type = computed(compute if isinstance(compute, str) else compute[0])
        result = self.function(*inputs, ROW, *(ir.cast(type, n) for n in numbers))
        outputs = result if isinstance(result, tuple) else (result,)
        operands = [
            Operand(f"out{k}" if len(outputs) > 1 else "out", dtype)
            for k, dtype in enumerate(out_dtypes)
        ]
        operands += [
            Operand(value.name, dtype, [value.type], value.name not in self.scalars)
            for value, dtype in zip(inputs, in_dtypes, strict=True)
        ]
        operands += [
            Operand(value.name, "float64", [value.type], varies=False)
            for value in numbers
        ]
        inputs += numbers
        parts = [
            operand.storage.split(e)
            for e, operand in zip(outputs, operands, strict=False)
        ]
        return inputs, outputs, Results(operands, parts, [[v] for v in inputs])

    def trace(self, in_dtypes, out_dtypes, compute, *mode):
        """The expression as text, and the loops."""
        inputs, outputs, results = self.traced(in_dtypes, out_dtypes, compute)
        name = self.kernel_name(in_dtypes, out_dtypes, compute, *mode)
        layout = partial(Rows, mode=mode[0] if mode else None)
        return self.describe(inputs, outputs), kernel(name, results, layout)

    def input_type(self, name, dtype, position, compute):
        """The type that one input is computed in."""
        if not isinstance(compute, str):
            return computed(compute[position])
        if name in self.scalars and Type(dtype).is_int:
            return Type(dtype)
        return computed(compute)

    def describe(self, inputs, outputs):
        """The traced function as readable text."""
        lets, trees = name_shared(outputs)
        names = ", ".join(f"{value.name}: {value.type}" for value in inputs)
        lines = [f"def {self.name}({names}):"]
        lines += [f"    {let}" for let in lets]
        return "\n".join([*lines, f"    return {', '.join(map(repr, trees))}"])
