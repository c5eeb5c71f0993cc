"""Error functions and the gamma function's logarithm and derivative."""

from __future__ import annotations

import math

from rushlight.codegen import expr as ir
from rushlight.codegen.expr import Const, select
from rushlight.codegen.mathematics import exponential, trigonometric
from rushlight.codegen.mathematics.formats import (
    copysign,
    fma,
    in_double,
    polynomial,
    root,
)

INF, NAN = math.inf, math.nan
# erf(x) / x - 1 in x^2, on |x| < 1.
ERF = (
    0.12837916706286426,
    -0.37612638481317834,
    0.11283782711574333,
    -0.026865443868135247,
    0.0052210696939682995,
    -0.0008484639897410568,
    0.00011270049574924146,
    -9.678779572306895e-06,
)
ERF_DOUBLE = (
    0.1283791670955126,
    -0.37612638903183547,
    0.11283791670945253,
    -0.026866170643276218,
    0.0052239776074234678,
    -0.0008548325989696758,
    0.00012055295320494294,
    -1.492474466333549e-5,
    1.6447517677871874e-6,
    -1.6209175911748696e-7,
    1.3722976265924503e-8,
    -7.8011888740977516e-10,
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
    1.2329951186255525,
    -0.13962111684056251,
    0.015379652102620027,
    0.068097054254691455,
    -0.10103906603632424,
    0.093732834998399974,
    -0.066330365811665918,
    0.037167515536570719,
    -0.016197734065754382,
    0.0050319699866125306,
    -0.00075777322087737058,
    -0.00019925674009135068,
    0.000150621313300119,
    -2.4399083533847458e-5,
    -1.1220770459056104e-5,
    5.7095765904124496e-6,
    2.9094021358364326e-7,
    -8.2560625961153583e-7,
    7.8887962968761582e-8,
    1.1098028556613205e-7,
    -2.1874216872214673e-8,
    -1.5482991997840192e-8,
    3.95432718243544e-9,
    2.2304688736383993e-9,
    -5.3891596677891541e-10,
    -2.8415172710960611e-10,
    4.1993701152715014e-11,
    2.1727795854812945e-11,
)
LOG_ROOT_TAU = 0.9189385332046727  # log(sqrt(2 pi))
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
SHIFT = 10  # the series are used from here on; the recurrence leads there


def erf(x):
    """An odd polynomial below one, ``1 - exp(log erfc)`` above."""
    a = abs(x)
    if x.type.name == "float64":
        z = x * x
        small = fma(x, polynomial(ir.select(a < 1.0, z, 0.0), ERF_DOUBLE), x)
        large = copysign(1.0 - erfc(a), x)
        return select(a < 1.0, small, large)
    wide = ir.cast(ir.f64, x)
    small = ir.cast(ir.f32, fma(wide, polynomial(wide * wide, ERF), wide))
    limited = select(a > 4.1, 4.1, a)
    large = 1.0 - exponential.exp(polynomial(limited, LOG_ERFC))
    return select(a < 1.0, small, copysign(large, x))


@in_double
def erfc(x):
    """``exp(-x^2)`` times a polynomial in a variable that folds the half line."""
    a = abs(x)
    near = select(a < 27.5, a, 27.5)
    square = near * near
    lost = fma(near, near, -square)
    gauss = exponential.exp(-square)
    gauss = fma(-lost, gauss, gauss)
    t = (near - 4.0) / (near + 4.0)
    value = gauss * (polynomial(t, SCALED_ERFC) / fma(near, 2.0, 1.0))
    value = select(a < 27.5, value, 0.0)
    value = select(x != x, x, value)
    small = 1.0 - fma(x, polynomial(x * x, ERF_DOUBLE), x)
    return select(a < 0.5, small, select(x < 0, 2.0 - value, value))


@in_double
def scaled_erfc(x):
    """``exp(x^2) erfc(x)`` for ``x`` from zero on."""
    far = x > 2.0**500
    near = select(far, 1.0, x)
    t = (near - 4.0) / (near + 4.0)
    value = polynomial(t, SCALED_ERFC) / fma(near, 2.0, 1.0)
    return select(far, (1 / math.sqrt(math.pi)) / x, value)


@in_double
def erfinv(x):
    """Newton's method on ``log erfc`` from a rational guess.

    Relative error up to about 1e-14 in float64 near the ends.
    """
    a = abs(x)
    inside = select(a < 1.0, a, 0.0)
    guess_log = exponential.log((1.0 - inside) * (1.0 + inside))
    b = fma(guess_log, 0.5, 2 / (math.pi * 0.147))
    inner = fma(b, b, guess_log * (-1 / 0.147))
    y = root(select(root(inner) > b, root(inner) - b, 0.0))
    outer = 1.0 - inside
    for _ in range(3):
        gap = select(inside < 0.5, erf(y) - inside, outer - erfc(y))
        slope = exponential.exp(-(y * y)) * (2 / math.sqrt(math.pi))
        step = gap / slope
        y = y - step / fma(y, step, 1.0)  # Halley's step: erf'' = -2 y erf'
    y = select(a < 1e-8, a * (math.sqrt(math.pi) / 2), y)
    y = select(a == 1.0, INF, select(a < 1.0, y, NAN))
    return copysign(y, x)


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


@in_double
def lgamma(x):
    """Recurrence and Stirling's series; the reflection formula below zero.

    Absolute error near the zeros is a few units of 1e-15.
    """
    a = abs(x)
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


@in_double
def digamma(x):
    """Recurrence and an asymptotic series; the reflection formula below zero.

    Absolute error near the zeros is a few units of 1e-15.
    """
    positive = select(x > 0, x, 1.0 - x)
    total = Const(x.type, 0.0)
    shifted = positive
    for _ in range(SHIFT):
        more = shifted < SHIFT
        total = select(more, total + 1.0 / shifted, total)
        shifted = select(more, shifted + 1.0, shifted)
    inverse = 1.0 / shifted
    z = inverse * inverse
    series = polynomial(z, DIGAMMA) * z
    value = exponential.log(shifted) - inverse * 0.5 - series - total
    value = select(shifted == INF, INF, value)
    turn = x - ir.Call("round", x.type, x)
    reflected = value - math.pi / trigonometric.tan(turn * math.pi)
    value = select(x > 0, value, select(turn == 0, NAN, reflected))
    return select(x == 0, copysign(Const(x.type, INF), -x), value)


FUNCTIONS = (erf, erfc, scaled_erfc, erfinv, lgamma, digamma)
