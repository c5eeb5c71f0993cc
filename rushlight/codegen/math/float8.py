"""Numbers of few bits: what float32 each stands for, and which is nearest to one.

They are stored only; kernels work on them in float32. The formats differ in their split
between exponent and fraction, in the exponent's bias and in what there is beside finite
numbers. ``fn`` has NaN but no infinities, and large numbers become the largest; ``fnuz``
has one NaN, where the negative zero would be; ``e8m0fnu`` is a power of two.
"""

from rushlight.ir import expr as ir
from rushlight.ir.expr import Reinterpret, select

SIGN = 0x80
INFINITY = 0x7F800000  # float32's, as its bits; above are the NaNs


def _bits(x):
    return Reinterpret(ir.u32.like(x.type), x)


def _single(bits):
    return Reinterpret(ir.f32.like(bits.type), bits)


def _codes(x):
    """The eight bits of each stored value."""
    return ir.cast(ir.u32, Reinterpret(ir.u8.like(x.type), x))


def _zero(x):
    return ir.as_expr(0, ir.u32.like(x.type))


def _stored(name, codes):
    narrow = ir.cast(ir.u8, codes)
    return Reinterpret(ir.Type(name).like(codes.type), narrow)


def _split(x):
    """The sign where the codes have it, and the magnitude's bits."""
    bits = _bits(x)
    return (bits >> 24) & SIGN, bits & 0x7FFFFFFF


def _nearest(magnitude, fraction, bias):
    """The code of a finite magnitude, halves to even, where the format has one.

    Below the smallest normal number the codes are multiples of a smallest step: adding
    a power of two at which float32 has that spacing rounds to them.
    """
    shift = 23 - fraction
    step = (1 - bias - fraction + 23 + 127) << 23
    spaced = _single(magnitude) + _single(ir.as_expr(step, magnitude.type))
    half = (1 << shift - 1) - 1
    moved = (bias - 127 << 23) + half & 0xFFFFFFFF
    normal = (magnitude + moved + ((magnitude >> shift) & 1)) >> shift
    return select(magnitude < 128 - bias << 23, _bits(spaced) - step, normal)


def _value(magnitude, fraction, bias):
    """The float32 bits of a magnitude's code."""
    shift = 23 - fraction
    step = 2.0 ** (1 - bias - fraction)
    small = _bits(ir.cast(ir.f32, magnitude) * step)
    normal = (magnitude << shift) + (127 - bias << 23)
    return select(magnitude < 1 << fraction, small, normal)


def to_float8_e4m3fn(x):
    """The nearest number; infinities and all beyond become the largest."""
    sign, magnitude = _split(x)
    code = select(magnitude > 0x43E00000, 0x7E, _nearest(magnitude, 3, 7))
    return _stored("float8_e4m3fn", sign | select(magnitude > INFINITY, 0x7F, code))


def to_float8_e5m2(x):
    """The nearest number; what rounds beyond the largest becomes infinite."""
    sign, magnitude = _split(x)
    code = select(magnitude >= 0x47800000, 0x7C, _nearest(magnitude, 2, 15))
    return _stored("float8_e5m2", sign | select(magnitude > INFINITY, 0x7F, code))


def _to_unsigned_zero(name, x, fraction, bias, limit):
    sign, magnitude = _split(x)
    code = _nearest(magnitude, fraction, bias)
    code = select(code == 0, code, sign | code)
    return _stored(name, select(magnitude >= limit, SIGN, code))


def to_float8_e4m3fnuz(x):
    """The nearest number; what rounds beyond the largest becomes NaN."""
    return _to_unsigned_zero("float8_e4m3fnuz", x, 3, 8, 0x43800000)


def to_float8_e5m2fnuz(x):
    """The nearest number; what rounds beyond the largest becomes NaN."""
    return _to_unsigned_zero("float8_e5m2fnuz", x, 2, 16, 0x47800000)


def to_float8_e8m0fnu(x):
    """The nearest power of two by magnitude, halves up; the smallest for zero."""
    _, magnitude = _split(x)
    exponent, rest = magnitude >> 23, magnitude & 0x7FFFFF
    # below the normal numbers, the half itself goes down
    above = (rest > 0x400000) | ((rest == 0x400000) & (exponent > 0))
    code = select(above, exponent + 1, exponent)
    return _stored("float8_e8m0fnu", select(exponent == 0xFF, 0xFF, code))


def from_float8_e4m3fn(x):
    """The number that a code stands for."""
    codes = _codes(x)
    magnitude = codes & 0x7F
    bits = select(magnitude == 0x7F, 0x7FF00000, _value(magnitude, 3, 7))
    return _single(((codes & SIGN) << 24) | bits)


def from_float8_e5m2(x):
    """The number that a code stands for; every NaN is a quiet one."""
    codes = _codes(x)
    magnitude = codes & 0x7F
    special = INFINITY | (magnitude << 21) | select(magnitude > 0x7C, 1 << 22, _zero(x))
    bits = select(magnitude >= 0x7C, special, _value(magnitude, 2, 15))
    return _single(((codes & SIGN) << 24) | bits)


def _from_unsigned_zero(x, fraction, bias):
    codes = _codes(x)
    bits = ((codes & SIGN) << 24) | _value(codes & 0x7F, fraction, bias)
    return _single(select(codes == SIGN, INFINITY + 1, bits))


def from_float8_e4m3fnuz(x):
    """The number that a code stands for."""
    return _from_unsigned_zero(x, 3, 8)


def from_float8_e5m2fnuz(x):
    """The number that a code stands for."""
    return _from_unsigned_zero(x, 2, 16)


def from_float8_e8m0fnu(x):
    """The power of two that a code stands for."""
    codes = _codes(x)
    bits = select(codes == 0xFF, INFINITY + 1, codes << 23)
    return _single(select(codes == 0, 1 << 22, bits))


def to_float16(x):
    """The nearest half, for processors that have none; NaN keeps its upper digits."""
    bits = _bits(x)
    sign, magnitude = (bits >> 16) & 0x8000, bits & 0x7FFFFFFF
    code = select(magnitude >= 0x477FF000, 0x7C00, _nearest(magnitude, 10, 15))
    special = 0x7E00 | ((magnitude >> 13) & 0x3FF)
    narrow = ir.cast(ir.u16, sign | select(magnitude > INFINITY, special, code))
    return Reinterpret(ir.Type("float16").like(x.type), narrow)


def from_float16(x):
    """The number that a half is; every NaN is a quiet one."""
    codes = ir.cast(ir.u32, Reinterpret(ir.u16.like(x.type), x))
    magnitude = codes & 0x7FFF
    quiet = select(magnitude > 0x7C00, 1 << 22, _zero(x))
    special = INFINITY | (magnitude << 13) | quiet
    bits = select(magnitude >= 0x7C00, special, _value(magnitude, 10, 15))
    return _single(((codes & 0x8000) << 16) | bits)


FUNCTIONS = (
    to_float16,
    from_float16,
    to_float8_e4m3fn,
    to_float8_e5m2,
    to_float8_e4m3fnuz,
    to_float8_e5m2fnuz,
    to_float8_e8m0fnu,
    from_float8_e4m3fn,
    from_float8_e5m2,
    from_float8_e4m3fnuz,
    from_float8_e5m2fnuz,
    from_float8_e8m0fnu,
)
