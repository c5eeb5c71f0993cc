"""What the bits of numbers say: exponents, mantissas, parities."""

import math

from rushlight.codegen import language as L
from rushlight.codegen.language import pointwise
from rushlight.codegen.loops import i64, loops
from rushlight.core.dtypes import float64, int32, int64, uint64
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import fresh, require, run
from rushlight.operators.shared import wrap_dims
from rushlight.operators.type_groups import FLOATS, INTEGERS


def frexp(self):
    """Mantissa and exponent of each element; what is no number has the exponent 0.

    Raises:
        RuntimeError: the elements are no real floating-point numbers.
    """
    if not self.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    require("frexp_cpu", self.dtype, FLOATS, self)
    mantissa = ops._frexp_mantissa(self)
    return mantissa, ops._frexp_exponent(self).to(int32)


def exponent_of(exponent, grad):
    """The exponent as the gradient's type."""
    return exponent.to(grad.dtype)


def _parts(x):
    """Fraction bits, biased exponent, bias and shift; tiny numbers are scaled up."""
    double = x.type.bits == 64
    width, bias, lift = (52, 1022, 54) if double else (23, 126, 25)
    least = 2.2250738585072014e-308 if double else 1.1754943508222875e-38
    tiny = abs(x) < least
    bits = L.bits_of(L.select(tiny, x * 2.0**lift, x))
    field = L.constant((1 << (63 - width if double else 31 - width)) - 1, bits)
    biased = (bits >> L.constant(width, bits)) & field
    return bits, field, biased, bias, width, tiny, lift


def _plain(x):
    return (x == 0) | ~L.isfinite(x)


@pointwise
def frexp_mantissa(x):
    """The fraction's bits under the exponent of one half."""
    bits, field, _, bias, width, _, _ = _parts(x)
    field = field << L.constant(width, bits)
    half = L.constant(bias << width, bits)
    return L.select(_plain(x), x, L.float_of((bits & ~field) | half))


@pointwise
def frexp_exponent(x):
    """The exponent's field, less what it is biased by."""
    bits, _, biased, bias, _, tiny, lift = _parts(x)
    power = biased - L.constant(bias, bits)
    power = L.select(tiny, power - L.constant(lift, bits), power)
    return L.select(_plain(x), 0, L.cast(power, x.type))


@loops
def xor_rows(out: "i64*", x: "i64*", size: int, begin: int, end: int):
    """The exclusive or of each row."""
    for row in range(begin, end):
        bits = i64(0)
        for i in range(size):
            bits = bits ^ x[row * size + i]
        out[row] = bits


_HASHED = INTEGERS | FLOATS | {11}


def hash_tensor(self, dim, keepdim, mode):
    """Elements as doubles or as wide integers, whose bits are combined.

    Raises:
        RuntimeError: there is no such mode, or nothing to say what is reduced.
        IndexError: a dimension that is reduced is empty.
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    dims = wrap_dims(dim, self.ndim)
    if self.numel() == 0:
        if not len(dim):
            raise RuntimeError(
                "hash_tensor: Expected reduction dim to be specified for input.numel() "
                "== 0. Specify the reduction dim with the 'dim' argument."
            )
        for d in dims:
            if self.shape[d] == 0:
                raise IndexError(
                    f"hash_tensor: Expected reduction dim {d} to have non-zero size."
                )
    require("xor_sum_cpu", self.dtype, _HASHED, self)
    kept = [d for d in range(self.ndim) if d not in dims]
    wide = float64 if self.dtype.is_floating_point else int64
    bits = self.permute([*kept, *dims]).to(wide).contiguous().view(int64)
    shape = [self.shape[d] for d in kept]
    size = math.prod(self.shape[d] for d in dims)
    out = fresh(bits, [math.prod(shape)])
    run(xor_rows, [out, bits], [size], out.numel(), size)
    if keepdim:
        shape = [1 if d in dims else self.shape[d] for d in range(self.ndim)]
    return out.view(uint64).reshape(shape)
