"""Box and Muller's transform of many uniform numbers, in single precision."""

from __future__ import annotations

from rushlight.codegen.language import bits_of, float_of, fma, sqrt
from rushlight.codegen.loops import f32, i32, loops, loops_inline

MANY = 128  # from here on a kernel is worth its call


@loops_inline
def natural_log(u):
    """log of a positive normal number, by the coefficients of the Cephes library."""
    shifted = bits_of(u) - i32(0x3F3504F3)
    exponent = f32(shifted >> i32(23))
    mantissa = (shifted & i32(0x7FFFFF)) + i32(0x3F3504F3)
    m = float_of(mantissa) - f32(1)
    z = m * m
    p = fma(f32(7.0376836292e-2), m, f32(-1.1514610310e-1))
    p = fma(p, m, f32(1.1676998740e-1))
    p = fma(p, m, f32(-1.2420140846e-1))
    p = fma(p, m, f32(1.4249322787e-1))
    p = fma(p, m, f32(-1.6668057665e-1))
    p = fma(p, m, f32(2.0000714765e-1))
    p = fma(p, m, f32(-2.4999993993e-1))
    p = fma(p, m, f32(3.3333331174e-1))
    p = fma(p * m, z, exponent * f32(-2.12194440e-4))
    p = fma(f32(-0.5), z, p)
    return fma(exponent, f32(0.693359375), m + p)


@loops_inline
def cosine_and_sine(angle):
    """Cosine and sine of an angle from 0 to a turn, by one reduction to an octant."""
    octant = (i32(angle * f32(1.2732395447351628)) + i32(1)) & i32(-2)
    y = f32(octant)
    r = fma(y, f32(-0.78515625), angle)
    r = fma(y, f32(-2.4187564849853515625e-4), r)
    r = fma(y, f32(-3.77489497744594108e-8), r)
    z = r * r
    c = fma(f32(2.443315711809948e-5), z, f32(-1.388731625493765e-3))
    c = fma(c, z, f32(4.166664568298827e-2))
    c = fma(c * z, z, f32(-0.5) * z) + f32(1)
    s = fma(f32(-1.9515295891e-4), z, f32(8.3321608736e-3))
    s = fma(s, z, f32(-1.6666654611e-1))
    s = fma(s * z, r, r)
    across = (octant & i32(2)) != i32(0)
    cosine = s if across else c
    sine = c if across else s
    cosine = -cosine if ((octant + i32(2)) & i32(4)) != i32(0) else cosine
    sine = -sine if (octant & i32(4)) != i32(0) else sine
    return cosine, sine


@loops
def box_muller(x: "T*", scale: "T*", begin: int, end: int):
    """Blocks of 16: eight radii and eight turns become eight cosines, eight sines.

    The same steps, rounded at the same places, as for few numbers.
    """
    mean = scale[0]
    std = scale[1]
    for block in range(begin, end):
        base = block * 16
        for i in range(base, base + 8):
            radius = sqrt(f32(-2) * natural_log(f32(1) - x[i]))
            angle = x[i + 8] * f32(6.283185307179586)
            cosine, sine = cosine_and_sine(angle)
            x[i] = fma(radius * cosine, std, mean)
            x[i + 8] = fma(radius * sine, std, mean)
