"""Tensors made from sizes, numbers and ranges."""

import math
import struct

from rushlight.codegen.language import fma
from rushlight.codegen.loops import A, I, T, loops, loops_inline, stored
from rushlight.core.dtype import BOOLEAN, INTEGER, DType, get_default_dtype
from rushlight.core.dtypes import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    int64,
)
from rushlight.core.roles import host
from rushlight.core.tensor import Tensor
from rushlight.core.warning import warn
from rushlight.dispatch.trace import unplanned
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import name_of, require, run, scalar_name
from rushlight.operators.shape.copying import check_number
from rushlight.operators.type_groups import COMPLEX, REAL, STORED, USUAL

_SINGLE = struct.Struct("f")


@loops
def count_up(out: "T*", start: "I*", step: "I*", begin: int, end: int):
    """``out[i] = start + i * step``, rounded to the type of the elements."""
    for i in range(begin, end):
        out[i] = T(start[0] + I(i) * step[0])


@loops
def count_steps(
    out: "T*",
    start: "A*",
    step: "A*",
    first: int,
    others: int,
    full: int,
    fused: int,
    begin: int,
    end: int,
):
    """``start + (first + i) * step``, up to ``full`` in groups.

    The first of a group is stored before its ``others`` are counted from it, as PyTorch
    does in vectors: to the last digit the same numbers.
    """
    for i in range(begin, end):
        lane = i & others if i < full else 0
        base = fma(A(first + i - lane), step[0], start[0])
        begun = stored("T", base)
        if fused > 0:
            out[i] = T(fma(A(lane), step[0], begun) if lane > 0 else base)
        else:
            out[i] = T(A(lane) * step[0] + begun if lane > 0 else base)


@loops
def count_whole(out: "T*", start: int, step: int, begin: int, end: int):
    """``out[i] = start + i * step``, for integers."""
    for i in range(begin, end):
        out[i] = T(start + i * step)


@loops
def count_between(
    out: "T*",
    start: "I*",
    end_value: "I*",
    step: "I*",
    half: int,
    last: int,
    fused: int,
    begin: int,
    end: int,
):
    """Steps up from the start in the first half, down from the end in the second."""
    for i in range(begin, end):
        rising = i < half
        count = stored("I", A(i if rising else i - last))
        near = A(start[0] if rising else end_value[0])
        if fused > 0:
            out[i] = T(fma(count, A(step[0]), near))
        else:  # the product is rounded, too
            out[i] = T(near + stored("I", count * A(step[0])))


@loops_inline
def count_below(rows, columns, offset):
    """How many elements of some rows are on a diagonal or below it; as `_below`."""
    first = min(max(-offset, 0), rows)
    whole = min(max(columns - 1 - offset, first), rows)
    part = whole - first
    slope = part * (first + 1 + offset) + part * (part - 1) // 2
    return slope + (rows - whole) * columns


@loops
def triangle_indices(
    out: "T*", columns: int, offset: int, count: int, upper: int, begin: int, end: int
):
    """The row, and the column, of each element on one side of a diagonal."""
    place = count_below(begin, columns, offset - 1 if upper else offset)
    place = begin * columns - place if upper else place
    for i in range(begin, end):
        first = min(max(i + offset, 0), columns) if upper else 0
        last = columns if upper else min(max(i + offset + 1, 0), columns)
        for j in range(first, last):
            out[place] = T(i)
            out[count + place] = T(j)
            place = place + 1


def full(size, fill_value, dtype, layout, device, pin_memory):
    """One value; its kind decides the dtype where none is given."""
    if dtype is None:
        dtype = number_type(fill_value)
    return ops.fill_(
        ops.empty(size, dtype=dtype, layout=layout, device=device), fill_value
    )


def number_type(number):
    """The dtype that a Python number gets by default."""
    dtype = getattr(number, "dtype", None)  # of a tensor; NumPy's floats have their own
    if isinstance(dtype, DType):
        return dtype
    if isinstance(number, bool):
        return bool_
    if isinstance(number, int):
        return int64
    default = get_default_dtype()
    return default.to_complex() if isinstance(number, complex) else default


def full_like(self, fill_value, dtype, layout, device, pin_memory, memory_format):
    """One value, like another tensor."""
    how = {"layout": layout, "device": device, "memory_format": memory_format}
    return ops.fill_(ops.empty_like(self, dtype=dtype, **how), fill_value)


def new_empty(self, size, dtype, layout, device, pin_memory):
    """Undefined contents, with this tensor's dtype and device."""
    return ops.empty(
        size,
        dtype=self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
    )


def new_empty_strided(self, size, stride, dtype, layout, device, pin_memory):
    """Undefined contents and given strides, with this tensor's dtype and device."""
    return ops.empty_strided(
        size,
        stride,
        dtype=self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
    )


def new_zeros(self, size, dtype, layout, device, pin_memory):
    """Zeros with this tensor's dtype and device."""
    return ops.zero_(new_empty(self, size, dtype, layout, device, pin_memory))


def new_ones(self, size, dtype, layout, device, pin_memory):
    """Ones with this tensor's dtype and device."""
    return ops.fill_(new_empty(self, size, dtype, layout, device, pin_memory), 1)


def new_full(self, size, fill_value, dtype, layout, device, pin_memory):
    """One value with this tensor's dtype and device."""
    empty = new_empty(self, size, dtype, layout, device, pin_memory)
    return ops.fill_(empty, fill_value)


def empty_permuted(size, physical_layout, dtype, layout, device, pin_memory):
    """Dense strides, with ``physical_layout`` from the slowest dimension to the fastest.

    Raises:
        RuntimeError: the layout isn't a permutation of the dimensions.
    """
    if len(size) != len(physical_layout):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the "
            f"physical_layout; i.e. len(size) = {len(size)} is not equal to "
            f"len(physical_layout) = {len(physical_layout)}"
        )
    for place, dim in enumerate(physical_layout):
        if not 0 <= dim < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, "
                f"but got {dim} at index {place})."
            )
    if len(set(physical_layout)) < len(size):
        raise RuntimeError("Duplicate dim not allowed")
    strides, step = [0] * len(size), 1
    for dim in reversed(physical_layout):
        strides[dim] = step
        step *= max(size[dim], 1)
    return ops.empty_strided(size, strides, dtype=dtype, device=device)


def scalar_tensor(s, dtype, layout, device, pin_memory):
    """No dimensions, one number, the default dtype unless told otherwise."""
    return ops.fill_(ops.empty((), dtype=dtype, device=device), s)


def arange(end, dtype, layout, device, pin_memory):
    """From zero, by one."""
    return arange_step(0, end, 1, dtype, layout, device, pin_memory)


def arange_start(start, end, dtype, layout, device, pin_memory):
    """By one."""
    return arange_step(start, end, 1, dtype, layout, device, pin_memory)


def arange_step(start, end, step, dtype, layout, device, pin_memory):
    """``start, start + step, ...``: all that lie before ``end``.

    Raises:
        RuntimeError: the step is zero, or leads away from the end.
    """
    start, end, step = _number(start), _number(end), _number(step)
    if dtype is None:
        whole = all(isinstance(value, int) for value in (start, end, step))
        dtype = int64 if whole else get_default_dtype()
    require("arange_cpu", dtype, REAL)
    for value in (start, end, step):
        if isinstance(value, complex):
            raise RuntimeError(
                f"value cannot be converted to type double without overflow: {value}"
            )
        if dtype.category == INTEGER:
            check_number(int64, value)
        elif dtype.itemsize == 2:
            check_number(float32, value)
    if dtype is int64 and math.isfinite(start) and math.isfinite(end):
        if step and not int(step):
            raise ValueError("step must be nonzero")
        start, end, step = int(start), int(end), int(step)
    _check_range(start, end, step)
    if dtype is int64:
        length = -((start - end) // step)
    else:
        length = math.ceil((float(end) - float(start)) / float(step))
    if dtype.category == INTEGER:
        start, step = int(start), int(step)
        return _counted(start, step, _length(length), dtype, device)
    return _stepped(start, step, _length(length), dtype, device)


# How many elements one thread counts at the least, and the bytes of PyTorch's vectors.
_CHUNK, _VECTOR = 32768, 32


def _stepped(start, step, length, dtype, device):
    """``length`` numbers, counted in the type that PyTorch's CPU adds the dtype up in."""
    out = ops.empty((length,), dtype=dtype, device=device)
    wide = float64 if dtype.itemsize >= 4 else float32
    pair = [scalar_tensor(v, wide, None, device, None) for v in (start, step)]
    lanes, fused = _VECTOR // dtype.itemsize, int(dtype is not bfloat16)
    if length > _CHUNK:
        unplanned()  # as there may be other threads the next time
    parts = min(host.pool.get_num_threads(), -(-length // _CHUNK)) or 1
    chunk = -(-length // parts) or 1
    for first in range(0, length, chunk):  # each thread's vectors begin where it does
        count = min(chunk, length - first)
        part = out if count == length else out[first : first + count]
        ints = [first, lanes - 1, count // (2 * lanes) * 2 * lanes]
        types = {"T": name_of(dtype), "A": name_of(wide), "fused": fused}
        run(count_steps, [part, *pair], ints, count, **types)
    return out


def _length(length):
    """A number of elements that 64 bits can count.

    Raises:
        RuntimeError: it has more.
    """
    if length >= 2**63:
        raise RuntimeError(f"invalid size, possible overflow? {length} elements")
    return max(length, 0)


def range_step(start, end, step, dtype, layout, device, pin_memory):
    """``arange`` with the end included."""
    warn(
        "torch.range is deprecated and will be removed in a future release because its "
        "behavior is inconsistent with Python's range builtin. Instead, use torch.arange, "
        "which produces values in [start, end)."
    )
    start, end, step = _number(start), _number(end), _number(step)
    if dtype is None:
        dtype = get_default_dtype()
    require("range_cpu", dtype, REAL)
    _check_range(start, end, step)
    length = math.floor((end - start) / step) + 1
    if dtype.category == INTEGER:
        start, step = int(start), int(step)
    return _counted(start, step, _length(length), dtype, device)


def _number(value):
    return value.item() if hasattr(value, "dtype") else value


def _check_range(start, end, step):
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {float(start)} -> {float(end)}")
    if (step > 0) != (end >= start) and start != end:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def _counted(start, step, length, dtype, device):
    """``length`` numbers, counted in int64 or double precision and rounded once."""
    out = ops.empty((length,), dtype=dtype, device=device)
    name = name_of(dtype)
    if dtype.category == INTEGER:
        run(count_whole, [out], [start, step], length, T=name)
        return out
    wide = float64
    pair = [scalar_tensor(v, wide, None, device, None) for v in (start, step)]
    run(count_up, [out, *pair], [], length, T=name, I="float64")
    return out


def _end(value, name, operator):
    """A number, which a tensor without dimensions may hold."""
    if hasattr(value, "dtype") and getattr(value, "ndim", 0):
        raise RuntimeError(
            f"{operator} only supports 0-dimensional start and end tensors, but got"
            f" {name} with {value.ndim} dimension(s)."
        )
    return _number(value)


def _ends(start, end, steps, dtype, operator):
    """Both ends as the dtype holds them, and the dtype.

    Raises:
        RuntimeError: an end has dimensions or is too large, or there are too few steps.
    """
    start, end = _end(start, "start", operator), _end(end, "end", operator)
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    if dtype is None:
        dtype = get_default_dtype()
        dtype = dtype.to_complex() if is_complex else dtype
    elif is_complex and not dtype.is_complex:
        raise RuntimeError(
            f"torch.{operator}(): inferred dtype {complex64} can't be safely"
            f" cast to passed dtype {dtype}"
        )
    if steps > 1:
        require(f"{operator}_cpu", dtype, REAL | COMPLEX)
        check_number(dtype, start)
        check_number(dtype, end)
        start, end = _held(start, dtype), _held(end, dtype)
    return start, end, dtype


def _held(value, dtype):
    """A number as a dtype holds it."""
    if isinstance(value, (int, float)):
        if dtype is float64:
            return float(value)
        if dtype is float32 and abs(value) < 1e38:
            return _SINGLE.unpack(_SINGLE.pack(value))[0]
    return scalar_tensor(value, dtype, None, "cpu", None).item()


def linspace(start, end, steps, dtype, layout, device, pin_memory):
    """``steps`` numbers; counted up to the middle and down from the end after it.

    Raises:
        RuntimeError: the number of steps is negative.
    """
    start, end, dtype = _ends(start, end, steps, dtype, "linspace")
    if steps == 0:
        return ops.empty((0,), dtype=dtype, device=device)
    if steps == 1:
        return full((1,), start, dtype, layout, device, pin_memory)
    if dtype.is_complex:
        a, b, real = complex(start), complex(end), dtype.to_real()
        parts = [
            _between(x, y, steps, real, device)
            for x, y in ((a.real, b.real), (a.imag, b.imag))
        ]
        return ops.complex(*parts)
    return _between(start, end, steps, dtype, device)


def _between(start, end, steps, dtype, device, fused=True):
    """Real numbers; each operation rounds to the type, integers count in doubles.

    Products are rounded where they are not ``fused`` with the sum, and in half precision.
    """
    compute = float64 if dtype.category == INTEGER else dtype
    out = ops.empty((steps,), dtype=dtype, device=device)
    ends = [scalar_tensor(v, compute, None, out.device, None) for v in (start, end)]
    if compute.itemsize >= 4 and steps > 1 and abs(end - start) < 1e38:
        # a quotient of two singles is rounded alike on the way through doubles
        gap = _held(_held(end - start, compute) / (steps - 1), compute)
        values = [*ends, scalar_tensor(gap, compute, None, out.device, None)]
    else:
        first, last = ends
        count = scalar_tensor(max(steps - 1, 1), compute, None, out.device, None)
        values = [*ends, (last - first) / count if steps > 1 else first * 0]
    half = steps // 2 if steps > 1 else 1
    run(
        count_between, [out, *values], [half, steps - 1], steps,
        T=name_of(dtype), I=name_of(compute), fused=int(fused and compute.itemsize >= 4),
        A="float64" if compute.itemsize == 8 else "float32",
    )  # fmt: skip
    return out


def linspace_meta(start, end, steps, dtype, layout, device, pin_memory):
    """So many numbers between ends that nobody can read."""
    if dtype is None:
        dtype = get_default_dtype()
        if any(
            isinstance(end, complex) or isinstance(end, Tensor) and end.dtype.is_complex
            for end in (start, end)
        ):
            dtype = dtype.to_complex()
    return ops.empty((steps,), dtype=dtype, device=device or "meta")


def logspace_meta(start, end, steps, base, *options):
    """So many powers between ends that nobody can read."""
    return linspace_meta(start, end, steps, *options)


def logspace(start, end, steps, base, dtype, layout, device, pin_memory):
    """Powers of the base, computed in double precision from the ends as the dtype's."""
    start, end, dtype = _ends(start, end, steps, dtype, "logspace")
    if steps == 0:
        return ops.empty((0,), dtype=dtype, device=device)
    if steps == 1:
        try:
            only = float(base) ** start
        except OverflowError:
            only = math.inf
        return full((1,), only, dtype, layout, device, pin_memory)
    wide = complex128 if dtype.is_complex else float64
    if not dtype.is_complex:
        exponents = _between(start, end, steps, wide, device, fused=False)
        return ops.pow(float(base), exponents).to(dtype)
    exponents = linspace(start, end, steps, wide, None, device, None)
    if base > 0:
        size = ops.pow(float(base), exponents.real)
        rotation = exponents.imag * math.log(base)
        return ops.complex(size * ops.cos(rotation), size * ops.sin(rotation)).to(dtype)
    return ops.pow(float(base), exponents).to(dtype)


def eye(n, dtype, layout, device, pin_memory):
    """As many columns as rows."""
    return eye_m(n, n, dtype, layout, device, pin_memory)


def eye_m(n, m, dtype, layout, device, pin_memory):
    """Zeros with a diagonal of ones.

    Raises:
        RuntimeError: a size is negative.
    """
    for name, size in (("n", n), ("m", m)):
        if size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    if dtype is not None:
        require("eye", dtype, USUAL | STORED)
    result = ops.zeros((n, m), dtype=dtype, device=device)
    ops.fill_(ops.diagonal(result), 1)
    return result


def tril_indices(row, col, offset, dtype, layout, device, pin_memory):
    """Row by row."""
    offset = _within(row, col, offset)
    count = _below(row, col, offset)
    return _triangle("tril", row, col, offset, count, dtype, device)


def triu_indices(row, col, offset, dtype, layout, device, pin_memory):
    """Row by row."""
    offset = _within(row, col, offset)
    count = row * col - _below(row, col, offset - 1)
    return _triangle("triu", row, col, offset, count, dtype, device)


def _within(rows, columns, offset):
    """The offset; what is beyond all diagonals, as the first that has no element."""
    return max(-max(rows, 0) - 1, min(offset, max(columns, 0) + 1))


def _below(rows, columns, offset):
    """How many elements of a matrix are on a diagonal or below it.

    >>> _below(3, 4, 0), _below(3, 2, 1)
    (6, 6)
    """
    first = min(max(-offset, 0), rows)
    whole = min(max(columns - 1 - offset, first), rows)
    part = whole - first
    slope = part * (first + 1 + offset) + part * (part - 1) // 2
    return slope + (rows - whole) * columns


def _triangle(half, row, col, offset, count, dtype, device):
    dtype = int64 if dtype is None else dtype
    for name, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{name} must be non-negative, got{size}")
    require(f"{half}_indices", dtype, (3, 4))
    out = ops.empty((2, count), dtype=dtype, device=device)
    ints = [col, offset, count, int(half == "triu")]
    run(triangle_indices, [out], ints, row, max(col, 1), T=name_of(dtype))
    return out


def _window(name, length, periodic, dtype, device, shape):
    """``shape`` of so many positions, the last of which a periodic window leaves out.

    Each step rounds to the window's type, as in PyTorch.

    Raises:
        RuntimeError: the length is negative, or the type isn't floating.
    """
    if dtype is None:
        dtype = get_default_dtype()
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    if length <= 1:
        return ops.ones((length,), dtype=dtype, device=device)
    positions = ops.arange(length + bool(periodic), dtype=dtype, device=device)
    return shape(positions, length - 1 + bool(periodic)).narrow(0, 0, length)


def bartlett_window(window_length, periodic, dtype, layout, device, pin_memory):
    """Up to one in the middle, and down."""

    def shape(x, last):
        x = x.mul_(2 / last)
        rising = (last >> 1) + 1
        x.narrow(0, rising, last + 1 - rising).mul_(-1).add_(2)
        return x

    return _window("bartlett_window", window_length, periodic, dtype, device, shape)


def hann_window(window_length, periodic, dtype, layout, device, pin_memory):
    """Half a raised cosine."""
    return _raised_cosine(
        "hann_window", window_length, periodic, 0.5, 0.5, dtype, device
    )


def hamming_window(
    window_length, periodic, alpha, beta, dtype, layout, device, pin_memory
):
    """A raised cosine with given weights."""
    return _raised_cosine(
        "hamming_window", window_length, periodic, alpha, beta, dtype, device
    )


def _raised_cosine(name, length, periodic, alpha, beta, dtype, device):
    def shape(x, last):
        return x.mul_(2 * math.pi / last).cos_().mul_(-beta).add_(alpha)

    return _window(name, length, periodic, dtype, device, shape)


def blackman_window(window_length, periodic, dtype, layout, device, pin_memory):
    """Two cosines."""

    def shape(x, last):
        x = x.mul_(math.pi / last)
        fast, slow = ops.cos(x * 4).mul_(0.08), ops.cos(x * 2).mul_(0.5)
        return fast.sub_(slow).add_(0.42)

    return _window("blackman_window", window_length, periodic, dtype, device, shape)


def kaiser_window(window_length, periodic, beta, dtype, layout, device, pin_memory):
    """A ratio of modified Bessel functions, by their power series."""

    def shape(x, last):
        x = 2 * x.to(float64) / last - 1
        inner = beta * ops.sqrt(ops.clamp(1 - x * x, min=0))
        return (_bessel(inner) / _bessel(ops.full_like(inner, beta))).to(kind)

    kind = dtype or get_default_dtype()
    return _window("kaiser_window", window_length, periodic, dtype, device, shape)


def _bessel(x):
    """The series of I0, long enough for the arguments that windows use."""
    quarter, term, total = x * x / 4, ops.ones_like(x), ops.ones_like(x)
    for k in range(1, 60):
        term = term * quarter / (k * k)
        total = total + term
    return total


def vander(x, columns, increasing):
    """Powers of every element, the highest first unless told otherwise.

    Raises:
        RuntimeError: the input has not exactly one dimension.
    """
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    powers = _powers(x, len(x) if columns is None else columns)
    return powers if increasing else powers.flip(-1)


def linalg_vander(x, columns):
    """Increasing powers of every element.

    Raises:
        RuntimeError: the input is of truth values or of 16 bits, or fewer than two
            powers are wanted.
    """
    if x.dtype.category == BOOLEAN or (x.is_floating_point() and x.dtype.itemsize < 4):
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but "
            f"got {scalar_name(x.dtype)}"
        )
    x = ops.unsqueeze(x, -1) if x.ndim == 0 else x
    columns = x.shape[-1] if columns is None else columns
    if columns < 2:
        raise RuntimeError("N must be greater than 1.")
    powers = x.unsqueeze(-1).expand(*x.shape, columns - 1).cumprod(-1)
    return ops.cat([powers.new_ones((*x.shape, 1)), powers], -1)


def _powers(x, columns):
    x = ops.atleast_1d(x)
    columns = x.shape[-1] if columns is None else columns
    if x.is_complex():  # zero to the power of zero is one, as a product of no factors
        factors = ops.unsqueeze(x, -1).expand(*x.shape, max(columns - 1, 0))
        ones = x.new_ones((*x.shape, min(columns, 1)))
        return ops.cat([ones, ops.cumprod(factors, -1)], -1)
    exponents = ops.arange(columns, device=x.device)
    if x.is_floating_point():
        exponents = exponents.to(x.dtype)
    return ops.pow(ops.unsqueeze(x, -1), exponents)
