"""The error function, its complement and their inverses."""

from __future__ import annotations

import math

from rushlight.codegen import expr as ir
from rushlight.codegen.expr import Const, select
from rushlight.codegen.mathematics import exponential
from rushlight.codegen.mathematics.formats import (
    copysign,
    fma,
    in_double,
    in_double_or_short,
    polynomial,
    root,
    short_quotient,
)
from rushlight.codegen.mathematics.pairs import (
    fine_polynomial,
    over,
    product_of_two,
    sum_of_sorted,
    sum_of_two,
    times,
)

INF, NAN = math.inf, math.nan
HALF_ROOT_PI = math.sqrt(math.pi) / 2
# erf(x) / x - 1 in x^2, on |x| < 1; with what rounding takes, on |x| < 0.52 and 1.26.
ERF = (
    0.12837916706154343,
    -0.3761263846802871,
    0.11283782495236845,
    -0.026865430727670243,
    0.005221031807858023,
    -0.0008484080405535107,
    0.00011265959025606609,
    -9.667044571486996e-06,
)
ERF_NEAR = (
    (0.1283791670955126, -1.2420117505217519e-17),
    -0.37612638903183754,
    0.11283791670955126,
    -0.02686617064513123,
    0.005223977625441488,
    -0.0008548327023303128,
    0.0001205533296202085,
    -1.4925648615623984e-05,
    1.6462011747297795e-06,
    -1.6361844944563347e-07,
    1.4707893817832903e-08,
    -1.0858836294075625e-09,
)
ERF_MIDDLE = (
    (0.1283791670955126, -1.3505547562243988e-17),
    (-0.37612638903183726, 3.914403338510184e-18),
    0.11283791670954027,
    -0.026866170644953603,
    0.005223977623942012,
    -0.0008548326947463774,
    0.00012055330484103955,
    -1.4925594507746763e-05,
    1.6461241273086952e-06,
    -1.6356183479205487e-07,
    1.4731589265629865e-08,
    -1.1878638656475505e-09,
    7.914474045345738e-11,
    -3.238698511238311e-12,
)
# log(erfc(a)) on 0.95 < a < 4.1.
LOG_ERFC = (
    0.00018348457720337109,
    -1.1295569733371225,
    -0.63326244389431483,
    -0.1083725136050036,
    0.025178882612076569,
    -0.0041935339048016432,
    0.00043908041747947882,
    -2.1492935772936045e-5,
)
# (1 + 2 x) exp(x^2) erfc(x) in (x - 4) / (x + 4), for every x >= 0.
SCALED_ERFC = (
    (1.2329951186255526, -4.6253150592485926e-17),
    (-0.1396211168405625, -7.920295762714695e-18),
    (0.015379652102620043, 6.4364383942886495e-19),
    (0.06809705425469156, -4.747020235607462e-18),
    (-0.10103906603632537, 3.699512620428033e-18),
    0.09373283499839584,
    -0.06633036581163648,
    0.037167515536647974,
    -0.01619773406615478,
    0.0050319699857911335,
    -0.0007577732176142052,
    -0.00019925673458236713,
    0.00015062129605999415,
    -2.439910833468714e-05,
    -1.1220708546043924e-05,
    5.7096544390313675e-06,
    2.907848733187481e-07,
    -8.257804110500615e-07,
    7.916369346046848e-08,
    1.1126050755484608e-07,
    -2.2220122206286085e-08,
    -1.580646665088583e-08,
    4.2561156654757476e-09,
    2.4940689040274898e-09,
    -7.153308961616151e-10,
    -4.3059406134376354e-10,
    1.0615184480128002e-10,
    7.360684069654692e-11,
    -1.2408813845227347e-11,
    -1.0240482290319963e-11,
    8.282508455753682e-13,
    7.99250022733669e-13,
)
# The same on 1.24 < x < 6.
SCALED_ERFC_MIDDLE = (
    1.2329951186255526,
    -0.13962111684056222,
    0.015379652102623279,
    0.06809705425458329,
    -0.10103906603716167,
    0.09373283500930495,
    -0.06633036572428792,
    0.03716751517523489,
    -0.016197738176111646,
    0.0050319695069445825,
    -0.0007576920956481076,
    -0.0001990396344046326,
    0.00015029590883012433,
    -2.6997943086512112e-05,
    -1.6292651570754056e-05,
    1.7553529962777139e-06,
)
# x sqrt(pi) exp(x^2) erfc(x) in 1 / x^2 far out, less one.
SCALED_ERFC_TAIL = (-0.5, 0.75, -1.875, 6.5625)
SCALED_ERFC_SHORT = (
    1.2329951174258005,
    -0.13962111641494576,
    0.015379769732623958,
    0.06809701247965522,
    -0.10104095256639911,
    0.09373350870431707,
    -0.06631899370148828,
    0.037163409208387656,
    -0.016230489245366696,
    0.005044031828360171,
    -0.0007090462731066143,
    -0.0002178550546184224,
    0.0001141793191486699,
    -9.407571980720195e-06,
)
# The inverse of erf over its argument a, in -log(1 - a^2) up to five.
ERFINV_NEAR = (
    0.8862269259834256,
    0.2320136360489977,
    0.011549628771727806,
    -0.002336144427612425,
    -0.0001261178285939345,
    4.456915706736076e-05,
    3.331105346921971e-06,
    -1.5175960280333922e-06,
    6.466321027721052e-08,
    2.072803054987327e-08,
    -2.9612460261028082e-09,
    1.2346577114502573e-10,
)
# The inverse beyond, in sqrt(-log(1 - a^2)) less the middle of its range up to 6.1.
OUTER_MIDDLE = 4.168033988749895
ERFINV_OUTER = (
    4.009444611268787,
    1.0098491613786023,
    0.0008692789330166235,
    -0.0006774666514488051,
    0.00023300659819260066,
    -6.546412117001419e-05,
    1.602632484180193e-05,
    -3.559112258087262e-06,
    9.746278493615061e-07,
    -1.404650281524429e-07,
    -1.6880363873560716e-07,
    8.479978482412156e-08,
    -1.5053680767778597e-09,
    -3.463186995314341e-09,
)
# And over that root, in one over it less this middle: up to where erfc vanishes.
FAR_MIDDLE = 0.24185497293246072
ERFINV_FAR = (
    0.9615652537728127,
    -0.19939106047853686,
    0.0663050287896331,
    0.5828763082669103,
    -0.9019513363989511,
    1.0125590923666248,
    -4.261560936994817,
    1.1137857930158097,
    21.77836988522453,
    42.40332735762627,
    -588.915409250849,
    1381.5656959785053,
)


def erf(x):
    """An odd polynomial near zero, ``1 - erfc(x)`` above."""
    a = abs(x)
    if x.type.name == "float64":
        far = a > 1.25
        near = select(far, 0.0, a)
        square = product_of_two(near, near)
        high, low = fine_polynomial(square, ERF_MIDDLE)
        product, lost = product_of_two(near, high)
        total, rest = sum_of_sorted(near, product)
        small = total + (rest + fma(near, low, lost))
        large = ir.Call("far_erf", x.type, a)
        return copysign(ir.Call("rarely", x.type, far, large, small), x)
    small = fma(polynomial(x * x, ERF), x, x)
    limited = select(a > 4.1, 4.1, a)
    slope = polynomial(limited, LOG_ERFC[1:])
    product, lost = product_of_two(limited, slope)
    high, low = sum_of_sorted(product, Const(x.type, LOG_ERFC[0]))
    large = 1.0 - exponential.exp_in_range(high, low + lost)
    return select(a < 1.0, small, copysign(large, x))


def far_erf(a):
    """``1 - erfc(a)`` for a float64 from 1.25 on."""
    limited = select(a < 6.0, a, 6.0)
    square, lost = product_of_two(limited, limited)
    gauss = exponential.plain_exp(-square)
    gauss = fma(-lost, gauss, gauss)
    line, side = fma(limited, 2.0, 1.0), limited + 4.0
    inverse = 1.0 / (line * side)
    slow = polynomial((limited - 4.0) * line * inverse, SCALED_ERFC_MIDDLE)
    return select(a != a, a, fma(-slow * side * inverse, gauss, 1.0))


def _erf_over_x(x):
    """``erf(x) / x - 1`` near zero, as a sum of two."""
    return fine_polynomial((x * x, None), ERF_NEAR)


def _slow_part(x):
    """``exp(x^2) erfc(x)`` for ``x`` from zero on, as a sum of two.

    A polynomial in a variable that folds the half line. What the variable's rounding
    takes is multiplied by the slope, which follows from the function itself.
    """
    top, top_low = sum_of_two(x, Const(x.type, -4.0))
    bottom, bottom_low = sum_of_two(x, Const(x.type, 4.0))
    t, lost = over((top, top_low), (bottom, bottom_low))
    high, low = fine_polynomial((t, None), SCALED_ERFC)
    line, line_low = sum_of_two(x + x, Const(x.type, 1.0))
    inverse = 1.0 / line
    part = high * inverse
    slope = fma(part, 2.0, line * fma(x + x, part, -2 / math.sqrt(math.pi)))
    low = low + slope * (lost * bottom * bottom * 0.125)
    rest = fma(-part, line, high) + fma(-part, line_low, low)
    return sum_of_sorted(part, rest * inverse)


def _gauss(x):
    """``exp(-x^2)`` as a sum of two over a power of two."""
    square, lost = product_of_two(x, x)
    return exponential.exp_in_two_parts(-square, -lost)


def _erfc_parts(x):
    """`erfc` for ``x`` from zero to 27.3 as a sum of two over a power of two."""
    high, low, k = _gauss(x)
    high, low = times((high, low), _slow_part(x))
    return high, low, k


@in_double_or_short
def erfc(x, short):
    """``exp(-x^2)`` times a polynomial in a variable that folds the half line."""
    a = abs(x)
    if short:
        near = select(a > 11.0, 11.0, a)
        line, side = fma(near, 2.0, 1.0), near + 4.0
        inverse = short_quotient(Const(x.type, 1.0), line * side)
        slow = polynomial((near - 4.0) * line * inverse, SCALED_ERFC_SHORT)
        value = slow * side * inverse * exponential.short_exp(-(near * near))
        return select(x < 0, 2.0 - value, value)
    near = select(a < 27.3, a, 27.3)
    high, low, k = _erfc_parts(near)
    right = exponential.scaled(high + low, k)
    one, lost = sum_of_sorted(Const(x.type, 2.0), -right)
    value = select(x < 0, one + lost, right)
    value = select(a < 27.3, value, select(x < 0, Const(x.type, 2.0), 0.0))
    value = select(x != x, x, value)
    close = select(a < 0.5, x, 0.0)
    one, lost = sum_of_sorted(Const(x.type, 1.0), -close)
    erf_high, erf_low = _erf_over_x(close)
    small = one + fma(-close, erf_high, fma(-close, erf_low, lost))
    return select(a < 0.5, small, value)


@in_double
def scaled_erfc(x):
    """``exp(x^2) erfc(x)`` for ``x`` from zero on."""
    far = x > 64.0
    high, low = _slow_part(select(far, 1.0, x))
    inverse = 1.0 / x
    square = inverse * inverse
    tail = polynomial(square, SCALED_ERFC_TAIL) * square
    factor = 1 / math.sqrt(math.pi)
    return select(far, (fma(tail, factor, factor)) / x, high + low)


def _guess(inside, outer, short):
    """The inverse to nine digits, of ``erf = inside`` where ``erfc = outer``."""
    log = exponential.short_log if short else exponential.log
    w = -log(outer * (inside + 1.0))
    if short:
        near = inside * polynomial(w, ERFINV_NEAR)
        far = ir.Call("far_erfinv", w.type, w)
        return ir.Call("rarely", w.type, w > 5.0, far, near)
    s = root(select(w > 5.0, w, 5.0))
    far = s * polynomial(1.0 / s - FAR_MIDDLE, ERFINV_FAR)
    near = inside * polynomial(select(w > 5.0, 5.0, w), ERFINV_NEAR)
    return select(w > 5.0, far, near)


def far_erfinv(w):
    """The inverse to float32's accuracy where ``w``, ``-log(1 - erf^2)``, is above 5."""
    return polynomial(root(w) - OUTER_MIDDLE, ERFINV_OUTER)


def _inverse(inside, outer):
    """One step of Halley's method on a guess, which triples its digits."""
    y = _guess(inside, outer, False)
    high, low, k = _gauss(y)
    near = select(inside < 0.5, y, 0.0)
    first, second = _erf_over_x(near)
    near_step = fma(near, first, near - inside) + near * second
    quotient, rest = over((exponential.scaled(outer, -k), 0.0), (high, low))
    part, more = _slow_part(y)
    far_step = (quotient - part) + (rest - more)
    step = select(inside < 0.5, near_step / high, far_step) * HALF_ROOT_PI
    return y - step / fma(y, step, 1.0)  # Halley's: erf'' = -2 y erf'


@in_double_or_short
def erfinv(x, short):
    """A polynomial in ``log(1 - x^2)``, and a step of Halley's method."""
    a = abs(x)
    inside = select(a < 1.0, a, 0.0)
    outer = 1.0 - inside
    y = _guess(inside, outer, True) if short else _inverse(inside, outer)
    y = select(a == 1.0, INF, select(a < 1.0, y, NAN))
    return copysign(y, x)


@in_double
def erfcinv(x):
    """As `erfinv` of ``1 - x``, however small ``x`` is."""
    outer = select(x > 1.0, 2.0 - x, x)
    outer = select(outer > 0.0, outer, 1.0)
    y = _inverse(1.0 - outer, outer)
    y = select(x > 1.0, -y, y)
    edge = select(
        x == 0.0, Const(x.type, INF), select(x == 2.0, Const(x.type, -INF), NAN)
    )
    return select((x > 0.0) & (x < 2.0), y, edge)


FUNCTIONS = (erf, far_erf, far_erfinv, erfc, scaled_erfc, erfinv, erfcinv)
