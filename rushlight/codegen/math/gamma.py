"""The gamma function's logarithm and its derivative."""

import math

from rushlight.codegen.math import exponential, series, trigonometric
from rushlight.codegen.math.angles import HALF_PI
from rushlight.codegen.math.formats import (
    bits,
    copysign,
    fma,
    in_double_or_short,
    pick,
    polynomial,
)
from rushlight.codegen.math.pairs import (
    fine_polynomial,
    product_of_two,
    sum_of_sorted,
    sum_of_two,
    times,
)
from rushlight.codegen.math.pieces import curve, finer_curve, lookup, pieces
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, select

INF, NAN = math.inf, math.nan
# log(sqrt(2 pi)) - 1/2, and what the nearest number lacks.
STIRLING_TERM = (0.4189385332046727, 1.6728209650585413e-17)
LOG_ROOT_TAU = 0.9189385332046727
# Stirling's series: log(gamma(x)) less its leading terms, times x, in 1 / x^2.
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
# log(x) - 1 / (2 x) - digamma(x), times x^2, in 1 / x^2.
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
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
# Pieces of `lgamma`, four for each power of two from one to 14, around places that a
# number's leading bits name. Its zeros at one and two are such places.
FIELD_OFFSETS = tuple(
    (2.0**k * (1 + j / 4), 2.0**k / 8)
    for k in (1, 2, 3, 0) for j in range(4)
)  # fmt: skip
LOW, HIGH = 15 / 16, 15.0  # below the first is the next one's piece, above a series
SHIFT = 10  # the series of `digamma` is used from here on; the recurrence leads there


def _total(*pairs):
    """The sum of sums of two, of any sizes."""
    (high, low), *others = pairs
    for more, rest in others:
        high, lost = sum_of_two(high, more)
        low = low + (lost + rest)
    return sum_of_sorted(high, low)


def _negated(pair):
    return -pair[0], -pair[1]


def _sine(a, phase):
    """``sin(pi a) / pi`` in size, as a sum of two; ``phase`` is what rounding takes."""
    square = product_of_two(phase, phase)
    high, rest = times(square, fine_polynomial(square, SINE))
    high, more = sum_of_sorted(Const(a.type, 1.0), high)
    return times((high, more + rest), (abs(phase), Const(a.type, 0.0)))


def _short_sine(phase):
    """As `_sine`, as one number."""
    square = phase * phase
    slope = polynomial(square, [c[0] if isinstance(c, tuple) else c for c in SINE])
    return fma(slope, square, 1.0) * abs(phase)


def _curve(a, low, short):
    """`lgamma` of ``a``, or where ``low`` of one more, by pieces; a sum of two if fine."""
    one = select(low, Const(a.type, 1.0), 0.0)
    index = (bits(a + one) + (1 << 49)) >> 50
    d = a - (lookup(index, a, [middle for middle, _ in FIELD_OFFSETS]) - one)
    if short:
        return curve(d, index, pieces(series.log_gamma, FIELD_OFFSETS, 12))
    return finer_curve(d, index, pieces(series.log_gamma, FIELD_OFFSETS, 15), 4)


def _stirling(a, log, scale):
    """Stirling's series from `HIGH` on, times ``scale``: a sum of two."""
    zero, one = Const(a.type, 0.0), Const(a.type, 1.0)
    inverse = 1.0 / a
    tail = polynomial(inverse * inverse, STIRLING) * inverse
    return _total(
        times(sum_of_two(a * scale, -0.5 * scale), _total((-one, zero), log)),
        (scale * STIRLING_TERM[0], scale * STIRLING_TERM[1]),
        (tail * scale, zero),
    )


def _short_lgamma(x):
    """As `_fine_lgamma`, in float64 for float32."""
    a = abs(x)
    low, far, mirrored = a < LOW, a >= HIGH, x < 0.0
    phase = a - ir.Call("round", x.type, a)
    sine = _short_sine(phase) * select(low, Const(x.type, 1.0), a)
    log = exponential.log_of_normal(select(mirrored, sine, a))
    near = _curve(a, low, True)
    near = select(mirrored, -near, near) - select(low | mirrored, log, 0.0)
    inverse = 1.0 / a
    tail = polynomial(inverse * inverse, STIRLING) * inverse
    series = fma(a - 0.5, log - 1.0, (LOG_ROOT_TAU - 0.5) + tail)
    value = select(far, series, near)
    return select((x <= 0.0) & (phase == 0.0), INF, value)


def _fine_lgamma(x):
    """By pieces and Stirling's series; the reflection formula below zero.

    All of it is in sums of two, because the function has many zeros. One logarithm is
    taken: of the argument, or of the sine.
    """
    zero = Const(x.type, 0.0)
    a = abs(x)
    low, far, mirrored = a < LOW, a >= HIGH, x < 0.0
    phase = a - ir.Call("round", x.type, a)
    sine = times(_sine(a, phase), (select(low, Const(x.type, 1.0), a), zero))
    log = exponential.fine_log_of_normal(
        (select(mirrored, sine[0], a), select(mirrored, sine[1], zero))
    )
    near = _curve(a, low, False)
    near = tuple(select(mirrored, -part, part) for part in near)
    used = tuple(select(low | mirrored, -part, zero) for part in log)
    near, stirling = _total(used, near), _stirling(a, log, Const(x.type, 1.0))
    value = select(far, stirling[0] + stirling[1], near[0] + near[1])
    return select((x <= 0.0) & (phase == 0.0), INF, value)


@in_double_or_short
def far_lgamma(x, short):
    """`lgamma` from `HIGH` on in size, on both sides; of tiny numbers, and of NaN."""
    zero, one = Const(x.type, 0.0), Const(x.type, 1.0)
    a = abs(x)
    huge = a > 2.0**400
    scale = select(huge, Const(x.type, 2.0**-600), one)
    value = _stirling(a, exponential.fine_log_of_normal((a, None)), scale)
    # log(pi / (a sin(pi a))) - lgamma(a)
    phase = a - ir.Call("round", x.type, a)
    sine = times(_sine(a, phase), (a, zero))
    log = exponential.fine_log_of_normal(sine)
    reflected = _total(_negated(log), _negated(value))
    result = select(x < 0.0, reflected[0] + reflected[1], value[0] + value[1])
    result = select(huge, result * 2.0**600, result)
    result = select(a < 1.0, -exponential.log(a), result)
    pole = (x <= 0.0) & (phase == 0.0)
    return select(x != x, x, select(pole | (a == INF), INF, result))


@in_double_or_short
def _usual_lgamma(x, short):
    return _short_lgamma(x) if short else _fine_lgamma(x)


def lgamma(x):
    """By pieces, and Stirling's series; the reflection formula below zero."""
    usual = (x > -HIGH) & (x < pick(x, INF, 2.0**400))
    if x.type.name == "float64":  # float32's are normal numbers there
        usual = usual & ((abs(x) > 2.0**-1000) | (x == 0.0))
    far = ir.Call("far_lgamma", x.type, x)
    return ir.Rarely(~usual, far, _usual_lgamma(x))


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
    high, rest = _total(
        exponential.fine_log_of_normal((shifted, low)),
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
    phase = x - ir.Call("round", x.type, x)
    angle, low = product_of_two(phase, Const(x.type, math.pi))
    slope = 1.0 / trigonometric.tan(angle)
    low = fma(phase, 2 * HALF_PI[1], low)
    mirror, lost = product_of_two(slope, Const(x.type, math.pi))
    lost = lost - low * fma(slope, slope, 1.0) * math.pi
    lost = select(abs(mirror) < 2.0**400, lost, 0.0)
    reflected = (value - mirror) + (rest - lost)
    value = select(x > 0, value + rest, select(phase == 0, NAN, reflected))
    return select(x == 0, copysign(Const(x.type, INF), -x), value)


FUNCTIONS = (lgamma, far_lgamma, digamma)
