"""Elementwise kernels: a function of scalars becomes loops over strided arrays.

One vectorised body serves every layout. Operands that lie contiguously are read in
place; others pass, a block at a time, through a small buffer that stays in the first
level of cache. An operand with stride zero has one value for a row, which is read ahead
of it.
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from functools import partial

from rushlight.codegen.frontend.complexes import PARTS as COMPLEX_PARTS
from rushlight.codegen.frontend.complexes import Complex
from rushlight.codegen.frontend.faults import Flags, take_faults
from rushlight.codegen.frontend.front import Front, symbol
from rushlight.codegen.frontend.storage import (
    COMPUTED_IN,
    Storage,
    computed,
    rounded_to,
)
from rushlight.codegen.frontend.type_support import (
    TypeSupport,
    as_bits,
    refusal,
    refuse_stored_only,
)
from rushlight.codegen.passes.name_shared import name_shared
from rushlight.core.dtype import TYPE_NAMES
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Const, Pointer, Type, Var, i64

BLOCK_BYTES = 4096  # of the widest operand, and of all of them: they are on the stack
ALL_BLOCKS = 12288
ZERO = Const(i64, 0)


_COMPUTING = ContextVar("computing", default="float32")
_WIDE = ContextVar(
    "wide", default=()
)  # operands that are not brought to half precision


def computing() -> str:
    """The dtype that the kernel which is being traced computes in."""
    return _COMPUTING.get()


def rounded(x):
    """``x`` as it is stored; only half precision is worked on in a wider type."""
    kind = computing()
    if kind not in COMPUTED_IN or isinstance(x, Complex) or not x.type.is_float:
        return x
    return rounded_to(kind, x)


def rounds_between(x) -> bool:
    """Whether an operand is one of half precision, not a wide number beside such ones."""
    return computing() in COMPUTED_IN and all(x is not wide for wide in _WIDE.get())


def pointwise(function=None, **support) -> Pointwise:
    """Makes a function of symbolic scalars an elementwise kernel.

    Args:
        function: what it computes of one element of each operand.
        support: the types that it takes beside the usual ones; see `TypeSupport`.
    """
    if function is None:
        return lambda one: pointwise(one, **support)
    kernel = Pointwise(function)
    kernel.support = TypeSupport(**support)
    return kernel


def without_halves(kernel):
    """Lets a kernel refuse half-precision types, as PyTorch's does."""
    kernel.halves = False
    return kernel


def integers_only(kernel):
    """Lets a kernel refuse what is no integer, as PyTorch's does."""
    kernel.integers = True
    return kernel


class Pointwise(Front):
    """An elementwise kernel; see `specialize`.

    The native code takes the data pointers of outputs, then inputs, and the integers
    ``n_inner``, the inner byte strides and the outer byte strides of every operand.
    """

    halves = True  # whether half-precision types are taken
    integers = False  # whether only integers are

    @property
    def arity(self) -> int:
        """How many parameters the function has, static ones included."""
        return len(inspect.signature(self.function).parameters)

    def specialize(self, in_dtypes, out_dtypes, compute, static=()):
        """The native kernel for these dtypes.

        Args:
            in_dtypes: names of the inputs' dtypes.
            out_dtypes: names of the outputs' dtypes; results are cast to them.
            compute: the dtype that inputs are cast to, or a tuple of one for each.
            static: values of the trailing arguments, known when compiling.

        Raises:
            NotImplementedError: the type is one of few bits that is not taken.
        """
        types = (compute,) if isinstance(compute, str) else compute
        if not self.halves:
            self.refuse_halves(types)
        if self.integers:
            self.refuse_others(types)
        refuse_stored_only(self, types)
        in_dtypes, out_dtypes, compute = as_bits(
            self, tuple(in_dtypes), tuple(out_dtypes), compute
        )
        return self.native(in_dtypes, out_dtypes, compute, tuple(static))

    def refuse_halves(self, types):
        """Refuses to compute in half precision.

        Raises:
            NotImplementedError: one of the types is of half precision.
        """
        for name in types:
            if name in ("float16", "bfloat16"):
                old = "Half" if name == "float16" else "BFloat16"
                raise refusal(self, old)

    def refuse_others(self, types):
        """Refuses to compute with truth values, floats and complex numbers.

        Raises:
            NotImplementedError: one of the types is none of integers.
        """
        for name in types:
            if not name.startswith(("int", "uint")):
                raise refusal(self, TYPE_NAMES.get(name, name))

    def equip(self, kernel, in_dtypes, out_dtypes, compute, static):
        """Tells a device's kernel how wide its operands' elements are."""
        kinds = (*out_dtypes, *in_dtypes)
        kernel.widths = tuple(Storage(kind).itemsize for kind in kinds)
        kernel.outputs = len(out_dtypes)

    def kernel_name(self, in_dtypes, out_dtypes, compute, static):
        return symbol(self.name, in_dtypes, out_dtypes, compute, static)

    def trace(self, in_dtypes, out_dtypes, compute, static=()):
        """The expression as text, and the loops."""
        outputs, inputs = self.expressions(in_dtypes, compute, static)
        if len(outputs) != len(out_dtypes):
            raise TypeError(
                f"{self.name} computes {len(outputs)} values for "
                f"{len(out_dtypes)} outputs"
            )
        plan = BlockedLoops(in_dtypes, out_dtypes)
        plan.round_inputs(compute)
        body = _body(plan, *without_faults(outputs), inputs)
        function = ir.kernel(
            self.kernel_name(in_dtypes, out_dtypes, compute, static), plan.loops(*body)
        )
        return self.describe(outputs, inputs), function

    def expressions(self, in_dtypes, compute, static):
        """The traced results, and the symbolic inputs that they depend on."""
        if isinstance(compute, str):
            compute = (compute,) * len(in_dtypes)
        names = list(inspect.signature(self.function).parameters)
        variadic = len(names) < len(in_dtypes)
        inputs = [
            _symbol(f"x{k}" if variadic else names[k], dtype)
            for k, dtype in enumerate(compute)
        ]
        half = [kind for kind in compute if kind in COMPUTED_IN]
        token = _COMPUTING.set((half or [*compute, "float32"])[0])
        wide = [x for x, kind in zip(inputs, compute) if kind not in COMPUTED_IN]
        token_of_wide = _WIDE.set(wide)
        try:
            result = self.function(*inputs, *static)
        finally:
            _COMPUTING.reset(token)
            _WIDE.reset(token_of_wide)
        results = result if isinstance(result, tuple) else (result,)
        default = inputs[0] if inputs else Const(ir.f32, 0)
        return [_as_result(value, default) for value in results], inputs

    def describe(self, outputs, inputs):
        """The traced function as readable text."""
        names = ", ".join(_label(value) for value in inputs)
        lines = [f"    {line}" for line in described(outputs)]
        return "\n".join([f"def {self.name}({names}):", *lines])


def described(outputs):
    """Lines that say what traced results are: names for what is used again, the results."""
    lets, trees = name_shared([part for value in outputs for part in _parts(value)])
    return [*map(str, lets), f"return {', '.join(map(repr, trees))}"]


def without_faults(outputs):
    """The results, and what they refuse; see `faults`."""
    parts, found = take_faults([part for value in outputs for part in _parts(value)])
    parts = iter(parts)
    values = [
        Complex(next(parts), next(parts)) if isinstance(value, Complex) else next(parts)
        for value in outputs
    ]
    return values, found


def _symbol(name, dtype):
    if dtype in COMPLEX_PARTS:
        part = computed(dtype)
        return Complex(Var(f"{name}_real", part), Var(f"{name}_imag", part))
    return Var(name, computed(dtype))


def _as_result(value, default):
    if isinstance(value, (ir.Expr, Complex)):
        return value
    like = default.real if isinstance(default, Complex) else default
    if isinstance(value, bool):
        return Const(ir.boolean, value)
    return ir.as_expr(value, like.type)


def _parts(value):
    return (value.real, value.imag) if isinstance(value, Complex) else (value,)


def _label(value):
    if isinstance(value, Complex):
        return f"{value.real.name} + {value.imag.name} i"
    return f"{value.name}: {value.type}"


class _Operand:
    """One array of the kernel: its types, and its variables in the loops."""

    def __init__(self, name, position, dtype, count):
        self.name, self.dtype = name, dtype
        self.storage = Storage(dtype)
        self.element, self.parts = self.storage.element, self.storage.parts
        self.itemsize, self.complex = self.storage.itemsize, self.parts == 2
        # A value is moved as bits: no conversion can disturb it.
        self.bits = Type(f"uint{8 * self.element.itemsize}")
        self.base = Var(f"{name}_base", Pointer(self.bits))
        self.row = Var(f"{name}_row", Pointer(self.bits))
        self.buffer = Var(f"{name}_buffer", Pointer(self.bits))
        self.pointer = Var(name, Pointer(self.element))
        self.stride = Var(f"{name}_stride", i64)
        self.outer = Var(f"{name}_outer", i64)
        self.direct = Var(f"{name}_direct", ir.boolean)
        self.lone = Var(f"{name}_lone", ir.boolean)
        self.first = [
            Var(f"{name}_first{k or ''}", self.element) for k in range(self.parts)
        ]
        self.rounded = (
            None  # a dtype of half precision that values are first brought to
        )
        self.position, self.count = position, count

    def declare(self, b):
        """Reads the base pointer and strides from the kernel's arguments."""
        b.add(ir.Let(self.base, ir.argument(self.position, self.bits)))
        b.add(ir.Let(self.stride, ir.integer(1 + self.position)))
        b.add(ir.Let(self.outer, ir.integer(1 + self.count + self.position)))
        b.add(ir.Let(self.direct, self.stride == self.itemsize))

    def read_first(self, b):
        """Reads the row's first element: all of them, where the stride is zero."""
        b.add(ir.Let(self.lone, self.stride == 0))
        row = ir.Reinterpret(Pointer(self.element), self.row)
        for part, var in enumerate(self.first):
            b.add(ir.Let(var, ir.load(row, part)))

    def at(self, index):
        """The element of this row at a scalar index, wherever it lies."""
        return ir.Offset(self.row, index * self.stride)

    def gather(self, b, start, first, length):
        """Copies a block's elements into the buffer, from the ``first`` one on."""
        self.copy(b, self.row_at(start), self.in_buffer, first, length)

    def spread(self, b, start, length):
        """Copies a block's elements from the buffer to where they belong."""
        self.copy(b, self.in_buffer, self.row_at(start), ZERO, length)

    def row_at(self, start):
        return lambda i: (self.at(start + i), ZERO)

    def copy(self, b, source, target, first, length):
        """Copies elements; the ends are functions from index to pointer and index."""
        with b.loop(f"{self.name}_at", first, length, kind="rolled") as i:
            for part in range(self.parts):
                pointer, index = source(i)
                value = ir.load(pointer, index + part if self.parts > 1 else index)
                pointer, index = target(i)
                b.add(
                    ir.Store(pointer, index + part if self.parts > 1 else index, value)
                )

    def in_buffer(self, i):
        return self.buffer, i * self.parts if self.parts > 1 else i

    def load(self, i, compute):
        """The value at ``i`` of the current block, in the type computed in."""
        if not self.complex:
            value = self.one(0, i)
            if self.rounded is not None:
                return rounded_to(self.rounded, ir.cast(compute.type, value))
            if isinstance(compute, Complex):
                return Complex.of(value, compute.real.type)
            return ir.cast(compute.type, value)
        value = Complex(self.one(0, i * 2), self.one(1, i * 2 + 1))
        if isinstance(compute, Complex):
            return Complex.of(value, compute.real.type)
        return value.cast(compute.type)

    def one(self, part, index):
        """A part of the value there; a lone one's buffer holds nothing."""
        return ir.select(self.lone, self.first[part], ir.load(self.pointer, index))

    def store(self, i, value):
        """The statements that write a result at ``i`` of the current block."""
        parts = list(map(self.storage.keep, self.storage.split(value)))
        if not self.complex:
            return [ir.Store(self.pointer, i, parts[0])]
        return [
            ir.Store(self.pointer, i * 2, parts[0]),
            ir.Store(self.pointer, i * 2 + 1, parts[1]),
        ]


class BlockedLoops:
    """The loops around an elementwise body."""

    def __init__(self, in_dtypes, out_dtypes):
        count = len(in_dtypes) + len(out_dtypes)
        self.outputs = [
            _Operand(f"out{k}" if len(out_dtypes) > 1 else "out", k, dtype, count)
            for k, dtype in enumerate(out_dtypes)
        ]
        self.inputs = [
            _Operand(f"in{k}", len(out_dtypes) + k, dtype, count)
            for k, dtype in enumerate(in_dtypes)
        ]
        self.operands = self.outputs + self.inputs
        widest = max(operand.itemsize for operand in self.operands)
        room = min(BLOCK_BYTES, ALL_BLOCKS // count // 64 * 64)
        self.block = room // max(4, widest)

    @property
    def names(self):
        """The names of the operands' variables."""
        values = (value for o in self.operands for value in vars(o).values())
        return {value.name for value in values if isinstance(value, Var)}

    def round_inputs(self, compute):
        """Lets inputs of other types lose what half precision can't hold."""
        if isinstance(compute, str):
            compute = (compute,) * len(self.inputs)
        for operand, kind in zip(self.inputs, compute, strict=True):
            if operand.complex or operand.dtype in (kind, "bool"):
                continue
            if kind in COMPUTED_IN:
                operand.rounded = kind

    def loops(self, body, found):
        """The whole program; ``body(b, flags, i, ...)`` writes the elementwise part."""
        b = Builder()
        flags = Flags(b, found)
        n = b.let("n", ir.integer(0))
        for operand in self.operands:
            operand.declare(b)
            b.add(ir.Array(operand.buffer, self.block * operand.parts))
        direct = [operand.direct for operand in self.operands]
        all_direct = direct[0]
        for flag in direct[1:]:
            all_direct = all_direct & flag
        block = b.let("block", ir.select(all_direct, n, self.block))
        with b.loop("row", ir.BEGIN, ir.END, kind="rolled") as row:
            for operand in self.operands:
                b.add(ir.Let(operand.row, ir.Offset(operand.base, row * operand.outer)))
            for operand in self.inputs:
                operand.read_first(b)
            with b.loop("start", 0, n, block, kind="rolled") as start:
                length = ir.binary("min", n - start, block)
                self.one_block(b, partial(body, b, flags), start, length)
        flags.write_fault()
        return b.statements

    def one_block(self, b, body, start, length):
        length = b.let("length", length)
        for operand in self.inputs:
            with b.when(~(operand.direct | operand.lone)):
                self.fill(b, operand, start, length)
        for operand in self.operands:
            row_at = ir.Offset(operand.row, start * operand.itemsize)
            b.add(
                ir.Let(
                    operand.pointer,
                    ir.Reinterpret(
                        operand.pointer.type,
                        ir.Select(operand.direct, row_at, operand.buffer),
                    ),
                )
            )
        with b.loop("i", ZERO, length, kind="vectorized") as i:
            body(i, self.inputs, self.outputs)
        for operand in self.outputs:
            with b.when(~operand.direct):
                operand.spread(b, start, length)

    def fill(self, b, operand, start, length):
        """Brings one block of an input into its buffer."""
        if operand.itemsize > 4 or operand.parts > 1:
            operand.gather(b, start, ZERO, length)
            return
        first = b.declare("gathered", ZERO)
        # Every second element: each lies in the lower half of a word twice as wide. The
        # last one's upper half may be nobody's.
        with b.when(operand.stride == 2 * operand.itemsize):
            b.assign(first, length - 1)
            wide = Type(f"uint{16 * operand.itemsize}")
            pairs = ir.Reinterpret(Pointer(wide), operand.at(start))
            with b.loop(f"{operand.name}_pair", ZERO, first, kind="vectorized") as i:
                pair = ir.load(pairs, i, alignment=operand.itemsize)
                b.add(ir.Store(operand.buffer, i, ir.cast(operand.bits, pair)))
        operand.gather(b, start, first, length)


def _body(plan, outputs, found, inputs):
    """What writes loads, named values and stores of one element; what is refused."""

    def write(b, flags, i, operands_in, operands_out):
        for operand, value in zip(operands_in, inputs, strict=True):
            loaded = operand.load(i, value)
            for var, part in zip(_parts(value), _parts(loaded), strict=True):
                b.add(ir.Let(var, part))
        stores = [
            store
            for operand, value in zip(operands_out, outputs, strict=True)
            for store in operand.store(i, value)
        ]
        conditions = [condition for _, condition in found]
        lets, values = name_shared([store.value for store in stores] + conditions)
        for let in lets:
            b.add(let)
        for store, value in zip(stores, values[: len(stores)], strict=True):
            b.add(ir.Store(store.pointer, store.index, value))
        flags.join(values[len(stores) :])

    return write, found
