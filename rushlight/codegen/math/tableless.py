"""Functions of float32 by arithmetic alone, for threads that share no vector registers.

A GPU's thread reads every number of a table from memory, each lane elsewhere. There a
polynomial near zero and an exponential beyond it are the quicker way, to two units in the
last place.
"""

import functools
from decimal import Decimal, localcontext

from rushlight.codegen.math import series
from rushlight.codegen.math.formats import fma, polynomial
from rushlight.codegen.math.pieces import shortened
from rushlight.codegen.math.series import DIGITS
from rushlight.ir.expr import Const, select

# Up to where a polynomial serves, from where on it is one, and how many terms there are.
TANH_NEAR, TANH_END, TANH_TERMS = 0.55, 9.5, 8
ERF_NEAR, ERF_END, ERF_TERMS = 1.0, 3.93, 9
LOG_TERMS = 10


@functools.cache
def over_argument(function, reach, count):
    """``function(x) / x`` in powers of ``x^2``, for an odd function's series, less one.

    The first term stays exact: where it is one, nothing is left of it.
    """
    with localcontext() as context:
        context.prec = DIGITS
        first, *odd = function(Decimal(0))[1::2]
        rest = shortened(odd, Decimal(reach) ** 2, count - 1)
        return tuple(map(float, (first - 1, *rest)))


@functools.cache
def log_of_complement(first, last, count):
    """The middle of a interval, and the logarithm of ``1 - erf`` in powers of what is left.

    ``(log f)' f = f'`` gives term after term.
    """
    with localcontext() as context:
        context.prec = DIGITS
        middle = (Decimal(first) + Decimal(last)) / 2
        height, *slopes = series.erf(middle)
        f = [1 - height, *(-slope for slope in slopes)]
        logs = [f[0].ln()]
        for n in range(1, len(f)):
            known = sum((k * logs[k] * f[n - k] for k in range(1, n)), Decimal(0))
            logs.append((f[n] - known / n) / f[0])
        reach = (Decimal(last) - Decimal(first)) / 2
        return float(middle), tuple(map(float, shortened(logs, reach, count)))


def tanh(a, exp):
    """Of what is not negative: one less ``2 / (exp(2 a) + 1)`` beyond a polynomial."""
    far = select(a > TANH_END, TANH_END, a)
    large = 1.0 - 2.0 / (exp(far + far) + 1.0)
    terms = over_argument(series.tanh, TANH_NEAR, TANH_TERMS)
    z = a * a
    small = fma(polynomial(z, terms[1:]) * z, a, a)
    return select(a < TANH_NEAR, small, large)


def erf(a, exp):
    """Of what is not negative: one less the exponential of a polynomial beyond another."""
    middle, logs = log_of_complement(ERF_NEAR, ERF_END, LOG_TERMS)
    far = select(a > ERF_END, ERF_END, a)
    far = select(far < ERF_NEAR, Const(a.type, ERF_NEAR), far)
    large = 1.0 - exp(polynomial(far - middle, logs))
    small = fma(polynomial(a * a, over_argument(series.erf, ERF_NEAR, ERF_TERMS)), a, a)
    return select(a < ERF_NEAR, small, large)
