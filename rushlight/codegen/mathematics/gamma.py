"""The gamma function's logarithm and its derivative."""

from __future__ import annotations

import math

from rushlight.codegen import expr as ir
from rushlight.codegen.expr import Const, select
from rushlight.codegen.mathematics import exponential, trigonometric
from rushlight.codegen.mathematics.angles import HALF_PI
from rushlight.codegen.mathematics.formats import (
    copysign,
    fma,
    in_double_or_short,
    polynomial,
)
from rushlight.codegen.mathematics.pairs import (
    fine_polynomial,
    product_of_two,
    sum_of_sorted,
    sum_of_two,
    times,
)

INF, NAN = math.inf, math.nan
# log(sqrt(2 pi)) - 1/2, and what the nearest number lacks.
STIRLING_TERM = (0.4189385332046727, 1.6728209650585413e-17)
LOG_ROOT_TAU = 0.9189385332046727
# Stirling's series: log(gamma(x)) less its leading terms, times x, in 1 / x^2.
STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)
# log(x) - 1 / (2 x) - digamma(x), times x^2, in 1 / x^2.
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
# log(gamma(1 + t)) / t and log(gamma(2 + t)) / t on |t| < 1/2.
NEAR_ONE = (
    -0.5772156649015329,
    0.822467033424113,
    -0.4006856343865412,
    0.270580808427885,
    -0.2073855510261625,
    0.1695571769818327,
    -0.14404989702281162,
    0.12550967065218918,
    -0.11133425249791769,
    0.10009941126299961,
    -0.09095443771615838,
    0.08335503252554874,
    -0.07692397811201407,
    0.0714124432440184,
    -0.06678578121474814,
    0.06274485904552804,
    -0.05771299592826457,
    0.05351215825268677,
    -0.059983664015772785,
    0.06210191079320867,
    -0.014012807309127183,
    -0.004560726258128471,
    -0.1461694518175483,
    0.1809168579126642,
    0.15453097516046632,
    -0.20304008990514966,
    -0.22573537535987553,
    0.2499427301757452,
)
NEAR_TWO = (
    0.42278433509846713,
    0.32246703342411326,
    -0.06735230105319817,
    0.020580808427780328,
    -0.007385551028664179,
    0.0028905103310369485,
    -0.001192753912165322,
    0.0005096695153479144,
    -0.0002231547473506115,
    9.945767437036818e-05,
    -4.492639045510659e-05,
    2.0505584812025806e-05,
    -9.438190929937718e-06,
    4.3847293684727125e-06,
    -2.045981751266781e-06,
    9.199968517791575e-07,
    -4.2808702638922967e-07,
    2.787926180029062e-07,
    -1.3614813482381706e-07,
)
# The same with what rounding takes from the leading coefficients.
NEAR_ONE_FINE = (
    (-0.5772156649015329, 4.941123448344572e-18),
    (0.8224670334241132, 1.520510940113109e-17),
    (-0.40068563438653143, 6.39146116748183e-18),
    (0.27058080842778454, 7.832381069747724e-18),
    (-0.20738555102867556, -8.779176865529393e-18),
    0.16955717699740974,
    -0.14404989676860586,
    0.12550966952450868,
    -0.11133426588867873,
    0.1000994575314256,
    -0.09095401622525567,
    0.08335383964819197,
    -0.07693254557562455,
    0.07143297474152972,
    -0.06666806548882225,
    0.06250033052532199,
    -0.058834059559289595,
    0.05556559997194289,
    -0.052515504589331234,
    0.049886740050704835,
    -0.048609976667952366,
    0.04642097810634039,
    -0.03721166612264176,
    0.035555150776338175,
    -0.06914425583325459,
    0.0668830910250865,
    0.06053829280727552,
    -0.05943475314357171,
    -0.25988758070622014,
    0.25311095467368927,
    0.2976261981244909,
    -0.29034622334895066,
    -0.2784550761092625,
    0.27124892379814153,
)
NEAR_TWO_FINE = (
    (0.42278433509846713, 4.998234382459033e-18),
    (0.3224670334241132, 1.5176930390577985e-17),
    (-0.06735230105319814, 4.2673097680518815e-18),
    (0.02058080842778457, -1.6841694890072465e-18),
    -0.0073855510286681535,
    0.002890510330738737,
    -0.0011927539120010226,
    0.0005096695248853096,
    -0.00022315475074520367,
    9.945750909889392e-05,
    -4.4926351103833334e-05,
    2.050726741605779e-05,
    -9.438458716242811e-06,
    4.374374916915131e-06,
    -2.0449201467015115e-06,
    9.578663334114758e-07,
    -4.303558760359961e-07,
    2.0304806751615227e-07,
    -1.3412819758517287e-07,
    6.379047507619774e-08,
)
# (sin(pi t) / (pi t) - 1) / t^2 in t^2, on |t| < 1/2.
SINE = (
    (-1.6449340668482264, -3.0406717537733365e-17),
    (0.8117424252833536, 3.5609067221862284e-17),
    (-0.19075182412208422, 5.049700526095685e-18),
    0.02614784781765477,
    -0.0023460810354549843,
    0.00014842879301853252,
    -6.975873547589108e-06,
    2.531210979108843e-07,
    -7.302523113707062e-09,
    1.675177856666065e-10,
)
SHIFT = 10  # the series are used from here on; the recurrence leads there


def _lgamma_of_positive(x):
    """Polynomials around 1 and 2, where it is zero; the recurrence leads there.

    From `SHIFT` on Stirling's series.
    """
    far = x > SHIFT
    product, near = Const(x.type, 1.0), x
    for _ in range(SHIFT - 2):
        more = near > 2.5
        near = select(more, near - 1.0, near)
        product = select(more, product * near, product)
    first = x < 1.5
    low = x < 0.5  # one step up, which is exact there but for the last bit
    t = select(low, x, select(first, x - 1.0, near - 2.0))
    one, two = polynomial(t, NEAR_ONE) * t, polynomial(t, NEAR_TWO) * t
    log = exponential.log(select(far | low, x, product))
    close = select(first, one, two) + select(first & ~low, 0.0, select(low, -log, log))
    inverse = 1.0 / x
    series = polynomial(inverse * inverse, STIRLING) * inverse
    value = fma(x - 0.5, log - 1.0, (LOG_ROOT_TAU - 0.5) + series)
    value = select(far, value, close)
    value = select(x == INF, INF, value)
    return select((x == 1.0) | (x == 2.0), 0.0, value)


def _fine_log(pair):
    """The logarithm of a positive sum of two as another."""
    high, low = exponential.log_in_two_parts(pair[0], False)
    return high, low + pair[1] / pair[0]


def _total(*pairs):
    """The sum of sums of two, of any sizes."""
    (high, low), *others = pairs
    for more, rest in others:
        high, lost = sum_of_two(high, more)
        low = low + (lost + rest)
    return sum_of_sorted(high, low)


def _fine_lgamma(x):
    """`lgamma` of a float64, with every step in sums of two."""
    a = abs(x)
    zero, one = Const(x.type, 0.0), Const(x.type, 1.0)
    low, far = a < 0.5, a > SHIFT
    product, lost, near = one, zero, a
    for _ in range(SHIFT - 2):
        more = near > 2.5
        near = select(more, near - 1.0, near)
        factor = select(more, near, one)
        product, rest = product_of_two(product, factor)
        lost = fma(lost, factor, rest)
    near = select(far, 2.0, near)
    # A logarithm for all: of the argument at both ends, of the factors between.
    whole = low | far
    log = _fine_log((select(whole, a, product), select(whole, zero, lost)))
    first = a < 1.5
    t = select(low, x, select(first, a - 1.0, near - 2.0))
    curves = zip(
        fine_polynomial((t, None), NEAR_ONE_FINE),
        fine_polynomial((t, None), NEAR_TWO_FINE),
        strict=True,
    )
    curve = times(tuple(select(first, p, q) for p, q in curves), (t, zero))
    used = select(low, Const(x.type, -1.0), select(first, zero, one))
    close = _total((log[0] * used, log[1] * used), curve)
    huge = a > 2.0**400
    scale = select(huge, Const(x.type, 2.0**-600), one)
    series = select(far, 1.0 / a, zero)
    series = polynomial(series * series, STIRLING) * series
    stirling = _total(
        times(sum_of_two(a * scale, -0.5 * scale), _total((-one, zero), log)),
        (Const(x.type, STIRLING_TERM[0]), Const(x.type, STIRLING_TERM[1])),
        (series, zero),
    )
    value = tuple(select(far, p, q) for p, q in zip(stirling, close, strict=True))
    # Below -1/2: log(pi / (a sin(pi a))) - lgamma(a).
    turn = a - ir.Call("round", x.type, a)
    square = product_of_two(turn, turn)
    high, rest = times(square, fine_polynomial(square, SINE))
    high, more = sum_of_sorted(one, high)
    sine = times((high, more + rest), product_of_two(a, abs(turn)))
    mirrored = (x < 0) & ~low
    log = _fine_log(tuple(select(mirrored, p, q) for p, q in zip(sine, (one, zero))))
    reflected = _total((-log[0], -log[1]), (-value[0], -value[1]))
    result = select(mirrored, reflected[0] + reflected[1], value[0] + value[1])
    result = select(huge, result * 2.0**600, result)
    pole = (x <= 0) & (turn == 0)
    return select(x != x, x, select(pole | (a == INF), INF, result))


@in_double_or_short
def lgamma(x, short):
    """Recurrence and Stirling's series; the reflection formula below zero.

    In float64 all of it is in sums of two, because the function has many zeros.
    """
    a = abs(x)
    if not short:
        return _fine_lgamma(x)
    value = _lgamma_of_positive(a)
    whole = ir.Call("floor", x.type, a)
    turn = a - whole
    sine = abs(trigonometric.sin(turn * math.pi)) * a
    reflected = exponential.log(math.pi / sine) - value
    tiny = a < 2.0**-60  # where the gamma function is one over its argument
    reflected = select(tiny, -exponential.log(a), reflected)
    pole = (x <= 0) & (turn == 0)
    value = select(x < 0, reflected, value)
    return select(pole | (a == INF), INF, value)


def _digamma_of_positive(x):
    """The recurrence, and an asymptotic series from `SHIFT` on."""
    total, shifted = Const(x.type, 0.0), x
    for _ in range(SHIFT):
        more = shifted < SHIFT
        total = select(more, total + 1.0 / shifted, total)
        shifted = select(more, shifted + 1.0, shifted)
    inverse = 1.0 / shifted
    z = inverse * inverse
    series = polynomial(z, DIGAMMA) * z
    value = exponential.log(shifted) - inverse * 0.5 - series - total
    return select(shifted == INF, INF, value)


def _fine_digamma_of_positive(x):
    """The same in sums of two: what is close to zero comes of sums that are not."""
    zero = Const(x.type, 0.0)
    total, lost, shifted, low = zero, zero, x, zero
    for _ in range(SHIFT):
        more = shifted < SHIFT
        inverse = 1.0 / shifted
        missed = (fma(-inverse, shifted, 1.0) - inverse * low) * inverse
        high, rest = sum_of_sorted(total, inverse)
        total = select(more, high, total)
        lost = select(more, lost + (rest + missed), lost)
        high, rest = sum_of_two(shifted, Const(x.type, 1.0))
        shifted = select(more, high, shifted)
        low = select(more, low + rest, low)
    inverse = 1.0 / shifted
    z = inverse * inverse
    series = polynomial(z, DIGAMMA) * z
    high, rest = exponential.log_in_two_parts(shifted, True)
    high, rest = _total(
        (high, fma(low, inverse, rest)),
        (-total, -lost),
        (inverse * -0.5, -series),
    )
    odd = (shifted == INF) | (x < 2.0**-1000)
    high = select(odd, select(shifted == INF, INF, -1.0 / x), high)
    return high, select(odd, 0.0, rest)


@in_double_or_short
def digamma(x, short):
    """Recurrence and an asymptotic series; the reflection formula below zero.

    Absolute error near the zeros is a few units of 1e-16.
    """
    positive = select(x > 0, x, 1.0 - x)
    if short:
        value, rest = _digamma_of_positive(positive), Const(x.type, 0.0)
    else:
        value, rest = _fine_digamma_of_positive(positive)
    turn = x - ir.Call("round", x.type, x)
    angle, low = product_of_two(turn, Const(x.type, math.pi))
    slope = 1.0 / trigonometric.tan(angle)
    low = fma(turn, 2 * HALF_PI[1], low)
    mirror, lost = product_of_two(slope, Const(x.type, math.pi))
    lost = lost - low * fma(slope, slope, 1.0) * math.pi
    lost = select(abs(mirror) < 2.0**400, lost, 0.0)
    reflected = (value - mirror) + (rest - lost)
    value = select(x > 0, value + rest, select(turn == 0, NAN, reflected))
    return select(x == 0, copysign(Const(x.type, INF), -x), value)


FUNCTIONS = (lgamma, digamma)
