"""Angles less a multiple of a quarter turn, exact for numbers of every size."""

import math

from rushlight.codegen.math.formats import bits, fma, format_of
from rushlight.codegen.math.pairs import product_of_two, sum_of_sorted, sum_of_two
from rushlight.ir import expr as ir
from rushlight.ir.expr import Call, Const, Reinterpret, select

HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
TWO_OVER_PI = 0.6366197723675814
FAR = 2.0**40  # up to here a product with the parts of pi / 2 is exact enough
# The bits of 2 / pi behind the binary point, 32 at a time.
TWO_OVER_PI_WORDS = (
    2734261102, 1313084713, 4230436817, 4113882560, 3680671129, 1011060801, 4266746795,
    3736847713, 3072618042, 1112396512, 105459434, 164729372, 4263373596, 2972297022,
    3900847605, 784024708, 3919343654, 3026157121, 965858873, 2203269620, 2625920907,
    3187222587, 536385535, 3724908559, 4012839307, 1510632735, 1832287951, 667617719,
    1330003814, 2657085997, 1965537991, 3957715323, 1023883767, 2320667370, 1811636145,
    529358088, 1443049542,
)  # fmt: skip


def single_angle(x):
    """A float32 as ``k`` quarter turns and a float64 rest: the rest, the bits of ``k``."""
    wide = ir.cast(ir.f64, x)
    far = Call("far_angle", wide.type, x)
    wide = ir.Rarely(abs(x) > FAR, far, wide)
    magic = format_of(wide).magic
    shifted = fma(wide, TWO_OVER_PI, magic)
    k = shifted - magic
    return fma(k, -HALF_PI[1], fma(k, -HALF_PI[0], wide)), bits(shifted)


# Up to here a float32's quarter turns are few: products with these parts are exact.
NEAR = 50.0
HALF_PI_NEAR = (1.570796251296997, 7.549533620476723e-08, 2.5633440682570896e-12)


# And up to here its eighths of a half turn.
NEAR_EIGHTHS = 800.0
EIGHTH_NEAR = (0.39269909262657166, -1.0928488336503506e-08, 6.408360170642724e-13)


def near_angle(x):
    """A float32 up to `NEAR` as quarter turns and a rest in two parts; the turns' bits.

    The second part may be close to the first where that is small. Zeros keep their sign,
    as the first two parts of half pi are both positive.
    """
    return _reduced_by(x, TWO_OVER_PI, HALF_PI_NEAR)


def near_eighths(x):
    """The same of one up to `NEAR_EIGHTHS`, in eighths of a half turn."""
    return _reduced_by(x, 4 * TWO_OVER_PI, EIGHTH_NEAR)


def _reduced_by(x, per_one, period):
    """A number less multiples of a sum of three, by exact products with the first two."""
    magic = format_of(x).magic
    shifted = fma(x, per_one, magic)
    k = shifted - magic
    first = fma(k, -period[0], x)
    r = fma(k, -period[1], first)
    low = fma(k, -period[1], first - r)
    return r, fma(k, -period[2], low), bits(shifted)


def single_half_angle(x, ahead):
    """A float32 less half turns: a float64 rest, and the bits of their number.

    With ``ahead``, less a quarter turn more.
    """
    wide = ir.cast(ir.f64, x)
    far = Call("far_angle", wide.type, x)
    wide = ir.Rarely(abs(x) > FAR, far, wide)
    magic = format_of(wide).magic
    if ahead:
        shifted = fma(wide, TWO_OVER_PI / 2, -0.5) + magic
        k = shifted - magic + 0.5
    else:
        shifted = fma(wide, TWO_OVER_PI / 2, magic)
        k = shifted - magic
    return fma(k, -2 * HALF_PI[1], fma(k, -2 * HALF_PI[0], wide)), bits(shifted)


def double_angle(x):
    """A float64 as ``k`` quarter turns and a rest in two parts; the bits of ``k``."""
    magic = format_of(x).magic
    far = abs(x) > FAR
    shifted = fma(x, TWO_OVER_PI, magic)
    k = shifted - magic
    first = fma(k, -HALF_PI[0], x)  # exact: a multiple of the last bit of pi / 2
    second, lost = product_of_two(k, Const(x.type, -HALF_PI[1]))
    high, low = sum_of_two(first, second)
    high, low = sum_of_sorted(high, low + fma(k, -HALF_PI[2], lost))
    high = ir.Rarely(far, Call("far_angle_high", x.type, x), high)
    low = ir.Rarely(far, Call("far_angle_low", x.type, x), low)
    return high, low, select(far, bits(low), bits(shifted))


def far_angle(x):
    """A float64 angle of at most one turn for a float32 beyond 2^17.

    In integers, after Payne and Hanek: of the product of ``x`` and 2 / pi only the bits
    around the binary point matter. They come from the 96 bits of 2 / pi that meet the
    24 of the fraction there.
    """
    u64 = ir.u64.like(x.type)
    pattern = ir.cast(u64, Reinterpret(ir.u32.like(x.type), x))
    fraction = (pattern & 0x7FFFFF) | 0x800000
    skipped = ((pattern >> 23) & 0xFF) - (127 + 23 + 2)
    window = _window(skipped & 127, TWO_OVER_PI_WORDS[:7], 3)
    phase = (
        ((fraction * window[0]) << 32)
        + fraction * window[1]
        + ((fraction * window[2]) >> 32)
    )
    quadrant = (phase + (1 << 61)) >> 62
    rest = Reinterpret(ir.i64.like(x.type), phase - (quadrant << 62))
    k = ir.cast(ir.f64, Reinterpret(ir.i64.like(x.type), quadrant))
    angle = fma(k, HALF_PI[0], ir.cast(ir.f64, rest) * (HALF_PI[0] * 2.0**-62))
    angle = fma(k, HALF_PI[1], angle)
    angle = select(abs(x) < math.inf, angle, math.nan)
    return select(x < 0, -angle, angle)


def _window(skipped, words, count):
    """``count`` words of 32 bits of a long number, from bit ``skipped`` on.

    Each bit of the word's number halves the words that may still be meant.
    """
    u64 = skipped.type
    first, shift = skipped >> 5, skipped & 31
    left = [Const(u64, word) for word in words]
    step = 1 << max(len(words) - count - 2, 0).bit_length() >> 1
    while step:
        chosen = (first & step) != 0
        kept = min(len(left) - step, count + step)
        left = [select(chosen, left[k + step], left[k]) for k in range(kept)]
        step >>= 1
    return [
        (((high << 32) | low) << shift >> 32)
        for high, low in zip(left, left[1 : count + 1], strict=False)
    ]


def _far_parts(x):
    """The rest in two parts and the quadrant of a float64 beyond 2^24.

    192 bits of 2 / pi meet the fraction: the closest that a float64 comes to a multiple
    of pi / 2 still leaves over a hundred that count.
    """
    u64, i64 = ir.u64.like(x.type), ir.i64.like(x.type)
    pattern = Reinterpret(u64, x)
    fraction = (pattern & ((1 << 52) - 1)) | (1 << 52)
    skipped = ((pattern >> 52) & 0x7FF) - (1023 + 52 + 2 - 32)
    window = _window(skipped & 1023, (0, *TWO_OVER_PI_WORDS), 6)
    low, high, mask = fraction & 0xFFFFFFFF, fraction >> 32, 0xFFFFFFFF
    digits, carry, above = [], Const(u64, 0), Const(u64, 0)
    for word in reversed(window):
        total = (low * word & mask) + (above & mask) + carry
        digits.append(total & mask)
        carry = (total >> 32) + (low * word >> 32) + (above >> 32)
        above = high * word
    top = (digits[5] << 32) | digits[4]
    quadrant = (top + (1 << 61)) >> 62
    rest = Reinterpret(i64, top - (quadrant << 62))
    parts = [rest >> 32, rest & mask, Reinterpret(i64, digits[3])]
    parts.append(Reinterpret(i64, digits[2]))
    a, b, c, d = (
        ir.cast(ir.f64, part) * 2.0 ** (-30 - 32 * k) for k, part in enumerate(parts)
    )
    a, b = sum_of_sorted(a, b)
    a, b = sum_of_sorted(a, b + c)
    return a, b + d, Reinterpret(i64, quadrant)


def far_angle_high(x):
    """The first part of the rest of a float64 far out; NaN for what has no angle."""
    a, _, _ = _far_parts(x)
    angle = a * HALF_PI[0]
    angle = select(abs(x) < math.inf, angle, math.nan)
    return select(x < 0, -angle, angle)


def far_angle_low(x):
    """The second part, with the number of quarter turns in its last two bits."""
    a, b, quadrant = _far_parts(x)
    _, low = product_of_two(a, Const(x.type, HALF_PI[0]))
    low = fma(a, HALF_PI[1], fma(b, HALF_PI[0], low))
    low = select(x < 0, -low, low)
    quadrant = select(x < 0, -quadrant, quadrant)
    return Reinterpret(x.type, (bits(low) & -4) | (quadrant & 3))


FUNCTIONS = (far_angle, far_angle_high, far_angle_low)
