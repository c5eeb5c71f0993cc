"""Modified Bessel functions of the first kind, and the same without their growth."""

from decimal import Decimal

from rushlight.codegen.math import exponential
from rushlight.codegen.math.formats import (
    fma,
    in_double_or_short,
    polynomial,
    root,
    short_inverse_root,
)
from rushlight.codegen.math.pairs import fine_polynomial, over, product_of_two, times
from rushlight.codegen.math.pieces import shortened
from rushlight.ir.expr import Call, Const, Rarely, select

# Terms that leave float32 less than a hundredth of its last unit.
SHORT_NEAR, SHORT_FAR = 17, 10
NEAR = 8.0  # the power series up to here, the asymptotic form beyond
# The power series of I0(a) and I1(a) / a in a^2 / 4; exp(-a) sqrt(a) I(a) in 16 / a - 1.
# The leading coefficients with what rounding takes.
I0_NEAR = (
    (1.0, 0.0),
    (1.0, 0.0),
    (0.25, 0.0),
    (0.027777777777777776, 1.5419764230904951e-18),
    (0.001736111111111111, 9.637352644315594e-20),
    (6.944444444444444e-05, 6.023345402697247e-23),
    (1.9290123456790124e-06, -4.5384234457823004e-23),
    (3.936759889140842e-08, -2.276707825756433e-24),
    6.151187326782565e-10,
    7.594058428126624e-12,
    7.594058428126623e-14,
    6.276081345559193e-16,
    4.358389823304995e-18,
    2.5789288895295828e-20,
    1.3157800456783586e-22,
    5.8479113141260385e-25,
    2.2843403570804838e-27,
    7.904291893012054e-30,
    2.4395962632753253e-32,
    6.757884385804225e-35,
    1.6894710964510564e-37,
    3.8310002187098785e-40,
    7.915289708078262e-43,
    1.4962740468957016e-45,
    2.5976979980828152e-48,
    4.156316796932504e-51,
)
I0_FAR = (
    (0.4021765094450081, -2.52114701236605e-17),
    (0.0033605519836678952, 1.0305480015642193e-19),
    0.00013621607439232331,
    1.1143033787275596e-05,
    1.483847543824492e-06,
    2.973599767639828e-07,
    8.872268159209354e-08,
    3.932406802805976e-08,
    2.1542842690546706e-08,
    7.569785257070744e-09,
    -6.7100093246245074e-09,
    -1.348907570380097e-08,
    -5.569090680737431e-09,
    7.83448429524067e-09,
    7.910872177098164e-09,
    -4.184523888729429e-09,
    -6.9145475501901456e-09,
    2.6547902915057677e-09,
    4.957147335316315e-09,
    -1.8880957563391057e-09,
    -2.8411410774923857e-09,
    1.19167453655378e-09,
    1.1879241078722262e-09,
    -5.517743440732131e-10,
    -3.1469409440481513e-10,
    1.588423350992965e-10,
    3.908387942826915e-11,
    -2.1026384897988802e-11,
)
I1_NEAR = (
    (0.5, 0.0),
    (0.25, 0.0),
    (0.041666666666666664, 2.3129646346357427e-18),
    (0.003472222222222222, 1.927470528863119e-19),
    (0.00017361111111111112, -6.625679942966971e-21),
    (5.787037037037037e-06, 2.8736377025368115e-22),
    (1.3778659611992944e-07, 1.1883857311125149e-23),
    (2.460474930713026e-09, -1.4229423910977707e-25),
    3.417326292656981e-11,
    3.7970292140633116e-13,
    3.451844740057556e-15,
    2.615033893982997e-17,
    1.676303778194229e-19,
    9.21046031974851e-22,
    4.385933485594529e-24,
    1.827472285664387e-26,
    6.718648109060246e-29,
    2.195636636947793e-31,
    6.419990166514014e-34,
    1.6894710964510563e-36,
    4.022550229645372e-39,
    8.706818678886087e-42,
    1.7207151539300568e-44,
    3.1172375976993783e-47,
    5.195395996165631e-50,
    7.992916917177893e-53,
)
I1_FAR = (
    (0.38939845902587233, -4.6927436050345685e-18),
    (-0.009749577193235768, 1.2752010319836096e-20),
    -0.00021923576383429784,
    -1.5038547197094254e-05,
    -1.834910109811299e-06,
    -3.483856882241426e-07,
    -1.000133866120353e-07,
    -4.312748698582641e-08,
    -2.336817047627452e-08,
    -8.442156608807226e-09,
    6.695302618992283e-09,
    1.4110780386208672e-08,
    6.145364848384102e-09,
    -7.912027539817697e-09,
    -8.388083994966264e-09,
    4.0764641389321665e-09,
    7.242384940925024e-09,
    -2.5283003516359996e-09,
    -5.166953168056089e-09,
    1.7966120145367928e-09,
    2.956252395402678e-09,
    -1.1425450294283331e-09,
    -1.2354940995166814e-09,
    5.328726890804043e-10,
    3.27305107356646e-10,
    -1.5422532292995627e-10,
    -4.0657742537925194e-11,
    2.049305687359829e-11,
)


def _near(x, coefficients, short):
    """``I(a) / a^order`` up to `NEAR`, as a sum of two unless float32's accuracy is enough."""
    a = abs(x)
    inner = select(a < NEAR, a, NEAR)
    if short:
        square = inner * inner * 0.25
        return inner, (polynomial(square, _leading(coefficients)[:SHORT_NEAR]), None)
    square, lost = product_of_two(inner, inner * 0.25)
    return inner, fine_polynomial((square, lost), coefficients)


def _far(x, coefficients, short):
    """``exp(-a) I(a)`` from `NEAR` on, likewise."""
    a = abs(x)
    outer = select(a > NEAR, a, NEAR)
    if short:
        terms = shortened(map(Decimal, _leading(coefficients)), Decimal(1), SHORT_FAR)
        inverse = short_inverse_root(outer)
        t = fma(inverse * 16.0, inverse, -1.0)
        return polynomial(t, list(map(float, terms))) * inverse, None
    t = 16.0 / outer - 1.0
    stem = root(outer)
    rest = fma(-stem, stem, outer) / (stem + stem)
    return over(fine_polynomial((t, None), coefficients), (stem, rest))


def _leading(coefficients):
    return [c[0] if isinstance(c, tuple) else c for c in coefficients]


def _grown_near(x, coefficients, order, short):
    """The function itself, up to `NEAR`."""
    a = abs(x)
    _, (close, low) = _near(x, coefficients, short)
    if short:
        return _with_sign(x, close * a if order else close, order)
    return _with_sign(x, fma(close, a, low * a) if order else close + low, order)


def _grown_far(x, coefficients, order, short):
    """The function itself, from `NEAR` on."""
    a = abs(x)
    high, rest = _far(x, coefficients, short)
    if short:
        return _with_sign(x, high * exponential.exp(a), order)
    limited = select(a > 720.0, 720.0, a)
    grown, more, k = exponential.exp_in_two_parts(limited, Const(x.type, 0.0))
    high, rest = times((grown, more), (high, rest))
    value = exponential.scaled(high + rest, k)
    beyond = select(a < float("inf"), a * float("inf"), value)  # NaN at infinity
    # not the limit's power over a root
    return _with_sign(x, select(a > 720.0, beyond, value), order)


def _scaled_near(x, coefficients, order, short):
    """``exp(-|x|)`` times the function, up to `NEAR`."""
    inner, close = _near(x, coefficients, short)
    if short:
        close = close[0] * exponential.short_exp(-inner)
        return _with_sign(x, close * inner if order else close, order)
    shrunk, more, k = exponential.exp_in_two_parts(-inner, Const(x.type, 0.0))
    close = times(close, (shrunk, more))
    scale = exponential.power_of_two(k, x)
    scale = scale * inner if order else scale
    return _with_sign(x, fma(close[0], scale, close[1] * scale), order)


def _scaled_far(x, coefficients, order, short):
    """``exp(-|x|)`` times the function, from `NEAR` on."""
    high, rest = _far(x, coefficients, short)
    value = high if short else high + rest
    return _with_sign(x, select(abs(x) == float("inf"), 0.0, value), order)


def _with_sign(x, value, order):
    """Odd where the order is; zero has no sign."""
    value = select(x < 0, -value, value) if order else value
    return select(x != x, x, value)


def i0(x):
    """The modified Bessel function of order zero."""
    return _by_halves(x, "far_i0", _grown_near, I0_NEAR, 0)


def i1(x):
    """The modified Bessel function of order one, which is odd."""
    return _by_halves(x, "far_i1", _grown_near, I1_NEAR, 1)


def scaled_i0(x):
    """``exp(-|x|)`` times `i0`."""
    return _by_halves(x, "far_scaled_i0", _scaled_near, I0_NEAR, 0)


def scaled_i1(x):
    """``exp(-|x|)`` times `i1`."""
    return _by_halves(x, "far_scaled_i1", _scaled_near, I1_NEAR, 1)


def _by_halves(x, far, near, coefficients, order):
    """A function up to `NEAR`; what is beyond only vectors with such a lane compute."""

    @in_double_or_short
    def inside(x, short):
        return near(x, coefficients, order, short)

    return Rarely(abs(x) > NEAR, Call(far, x.type, x), inside(x))


@in_double_or_short
def far_i0(x, short):
    """`i0` from `NEAR` on."""
    return _grown_far(x, I0_FAR, 0, short)


@in_double_or_short
def far_i1(x, short):
    """`i1` from `NEAR` on."""
    return _grown_far(x, I1_FAR, 1, short)


@in_double_or_short
def far_scaled_i0(x, short):
    """`scaled_i0` from `NEAR` on."""
    return _scaled_far(x, I0_FAR, 0, short)


@in_double_or_short
def far_scaled_i1(x, short):
    """`scaled_i1` from `NEAR` on."""
    return _scaled_far(x, I1_FAR, 1, short)


FUNCTIONS = (
    *(i0, i1, scaled_i0, scaled_i1),
    *(far_i0, far_i1, far_scaled_i0, far_scaled_i1),
)
