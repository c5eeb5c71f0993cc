"""Arithmetic of numbers as PyTorch's interpreter has it, where Python's differs.

Floats divide by zero, integers wrap at 64 bits where products leave them, functions give
NaN or infinity where Python raises; a comparison with NaN picks the second operand.
"""

import math

LEAST, MOST, SIZE = -(2**63), 2**63 - 1, 2**64


def wrapped(value):
    """The integer of 64 bits that a product or shift leaves."""
    if LEAST <= value <= MOST:
        return value
    return (value - LEAST) % SIZE + LEAST


def divided(a, b):
    """``a / b`` of floats, infinite or NaN by zero."""
    a, b = float(a), float(b)
    if b:
        return a / b
    if not a or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def floor_divided(a, b):
    """``a // b``: of integers as Python's, of floats the quotient rounded down."""
    if type(a) is int and type(b) is int:
        if not b:
            raise RuntimeError("division by 0")
        return wrapped(a // b)
    quotient = divided(a, b)
    return float(math.floor(quotient)) if math.isfinite(quotient) else quotient


def c_remainder(a, b):
    """C's ``fmod``: NaN by zero and of infinity."""
    a, b = float(a), float(b)
    if not b or math.isinf(a) or a != a or b != b:
        return math.nan
    return math.fmod(a, b)


def remainder(a, b):
    """``a % b``; of floats by C's remainder twice, so that the sign is that of ``b``."""
    if type(a) is int and type(b) is int:
        return a % b
    return c_remainder(float(b) + c_remainder(a, b), b)


def quotient_and_rest(a, b):
    """``divmod``."""
    rest = remainder(a, b)
    if type(a) is int:
        return a // b, rest
    return divided(a - rest, b), rest


def shifted_left(a, b):
    """``a << b`` in 64 bits; the processor counts the low six bits of ``b``."""
    return wrapped(a << (b & 63))


def shifted_right(a, b):
    """``a >> b``; the processor counts the low six bits of ``b``."""
    return a >> (b & 63)


def least(a, b):
    """The smaller operand; the second where they do not compare."""
    return a if a < b else b


def greatest(a, b):
    """The greater operand; the second where they do not compare."""
    return a if a > b else b


def whole(value):
    """The integer part; of what does not fit the least integer, as processors give."""
    if isinstance(value, float) and not LEAST <= value < 2.0**63:
        return LEAST
    return int(value)


def rounded(function, value):
    """``math.floor`` or ``math.ceil`` of a number, as an integer of 64 bits."""
    if isinstance(value, float) and not LEAST <= value < 2.0**63:
        raise RuntimeError(f"Cannot convert float {value:f} to integer")
    return function(value)


def nearest(value):
    """The nearest integer as a float, halves to even."""
    value = float(value)
    if not math.isfinite(value):
        return value
    return math.copysign(float(round(value)), value)


def power(base, exponent):
    """A power of floats, as C computes it; zero has no negative ones."""
    base, exponent = float(base), float(exponent)
    if not base and exponent < 0:
        raise RuntimeError("0.0 cannot be raised to a negative power")
    try:
        return math.pow(base, exponent)
    except OverflowError:
        odd = exponent % 2 == 1
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        return math.nan


def whole_power(base, exponent):
    """``base ** exponent`` as an integer of 64 bits."""
    return wrapped(int(base**exponent)) if exponent >= 0 else int(power(base, exponent))


def natural(value):
    """The natural logarithm, infinite or NaN where there is none."""
    value = float(value)
    if value > 0:
        return math.log(value)
    return -math.inf if value == 0 else math.nan


def logarithm(value, base):
    """The logarithm to a base, as a quotient of natural ones."""
    return divided(natural(value), natural(base))
