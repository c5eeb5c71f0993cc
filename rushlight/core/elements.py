"""Single elements: between bytes in memory and Python numbers."""

from __future__ import annotations

import cython
from cython.cimports.libc.math import ldexp
from cython.cimports.libc.stdint import (
    int8_t,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint16_t,
    uint32_t,
    uint64_t,
)
from cython.cimports.libc.string import memcpy


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def bfloat16_to_float(bits: cython.ushort) -> cython.float:
    wide: uint32_t = cython.cast(uint32_t, bits) << 16
    value: cython.float
    memcpy(cython.address(value), cython.address(wide), 4)
    return value


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def float_to_bfloat16(value: cython.float) -> cython.ushort:
    """Round to nearest, ties to even; NaN stays NaN."""
    wide: uint32_t
    memcpy(cython.address(wide), cython.address(value), 4)
    if value != value:
        return 0x7FC0
    wide += 0x7FFF + ((wide >> 16) & 1)
    return cython.cast(cython.ushort, wide >> 16)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def half_to_float(bits: cython.ushort) -> cython.float:
    sign: cython.float = -1.0 if bits >> 15 else 1.0
    exponent: cython.int = (bits >> 10) & 31
    fraction: cython.int = bits & 1023
    wide: uint32_t
    value: cython.float
    if exponent == 31:
        wide = (cython.cast(uint32_t, bits >> 15) << 31) | 0x7F800000 | (fraction << 13)
        memcpy(cython.address(value), cython.address(wide), 4)
        return value
    if exponent == 0:
        return sign * cython.cast(cython.float, ldexp(fraction, -24))
    return sign * cython.cast(cython.float, ldexp(fraction + 1024, exponent - 25))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def float_to_half(value: cython.float) -> cython.ushort:
    """Round to nearest, ties to even; what is too large becomes infinite."""
    wide: uint32_t
    memcpy(cython.address(wide), cython.address(value), 4)
    sign: uint32_t = (wide >> 16) & 0x8000
    magnitude: uint32_t = wide & 0x7FFFFFFF
    shift: uint32_t
    rest: uint32_t
    half: uint32_t
    result: uint32_t
    if magnitude > 0x7F800000:
        return cython.cast(cython.ushort, sign | 0x7E00)
    if magnitude >= 0x477FF000:
        return cython.cast(cython.ushort, sign | 0x7C00)
    if magnitude >= 0x38800000:
        magnitude += 0xFFF + ((magnitude >> 13) & 1) - 0x38000000
        return cython.cast(cython.ushort, sign | (magnitude >> 13))
    if magnitude < 0x33000000:
        return cython.cast(cython.ushort, sign)
    shift = 126 - (magnitude >> 23)
    magnitude = (magnitude & 0x7FFFFF) | 0x800000
    half = cython.cast(uint32_t, 1) << (shift - 1)
    rest = magnitude & ((half << 1) - 1)
    result = magnitude >> shift
    if rest > half or (rest == half and result & 1):
        result += 1
    return cython.cast(cython.ushort, sign | result)


@cython.cfunc
def read_element(
    code: cython.int, data: cython.pointer(cython.const[cython.char])
) -> object:
    if code == 6:
        return cython.cast(cython.pointer(cython.float), data)[0]
    if code == 4:
        return cython.cast(cython.pointer(int64_t), data)[0]
    if code == 7:
        return cython.cast(cython.pointer(cython.double), data)[0]
    if code == 11:
        return data[0] != 0
    if code == 3:
        return cython.cast(cython.pointer(int32_t), data)[0]
    if code == 0:
        return cython.cast(cython.pointer(uint8_t), data)[0]
    if code == 1:
        return cython.cast(cython.pointer(int8_t), data)[0]
    if code == 2:
        return cython.cast(cython.pointer(int16_t), data)[0]
    return read_rare(code, data)


@cython.cfunc
def read_rare(
    code: cython.int, data: cython.pointer(cython.const[cython.char])
) -> object:
    if code == 5:
        return half_to_float(cython.cast(cython.pointer(uint16_t), data)[0])
    if code == 15:
        return bfloat16_to_float(cython.cast(cython.pointer(uint16_t), data)[0])
    if code == 9:
        return complex(
            cython.cast(cython.pointer(cython.float), data)[0],
            cython.cast(cython.pointer(cython.float), data)[1],
        )
    if code == 10:
        return complex(
            cython.cast(cython.pointer(cython.double), data)[0],
            cython.cast(cython.pointer(cython.double), data)[1],
        )
    if code == 8:
        return complex(
            half_to_float(cython.cast(cython.pointer(uint16_t), data)[0]),
            half_to_float(cython.cast(cython.pointer(uint16_t), data)[1]),
        )
    if code == 27:
        return cython.cast(cython.pointer(uint16_t), data)[0]
    if code == 28:
        return cython.cast(cython.pointer(uint32_t), data)[0]
    if code == 29:
        return cython.cast(cython.pointer(uint64_t), data)[0]
    raise NotImplementedError(f"elements of dtype number {code} have no Python value")


@cython.cfunc
def wrap_integer(value: object, bits: cython.int, signed: cython.bint) -> object:
    """An integer that a type of ``bits`` can hold, or an error that says it can't."""
    number = int(value)
    low = -(1 << (bits - 1)) if signed else 0
    high = (1 << (bits - signed)) - 1
    # as PyTorch: negative numbers wrap in unsigned types, larger ones do not
    if number > high or number < -(1 << (bits - 1 if signed else bits)):
        raise RuntimeError(
            f"value cannot be converted to type {'' if signed else 'u'}int{bits}_t "
            f"without overflow: {number} is not in [{low}, {high}]"
        )
    return number & ((1 << bits) - 1)


@cython.cfunc
@cython.exceptval(-1, check=False)
def write_element(code: cython.int, data: cython.p_char, value: object) -> cython.int:
    if code == 6:
        cython.cast(cython.pointer(cython.float), data)[0] = value
    elif code == 4:
        cython.cast(cython.pointer(int64_t), data)[0] = int(value)
    elif code == 7:
        cython.cast(cython.pointer(cython.double), data)[0] = value
    elif code == 11:
        data[0] = 1 if value else 0
    elif code == 3:
        cython.cast(cython.pointer(uint32_t), data)[0] = wrap_integer(value, 32, True)
    elif code == 0:
        cython.cast(cython.pointer(uint8_t), data)[0] = wrap_integer(value, 8, False)
    elif code == 1:
        cython.cast(cython.pointer(uint8_t), data)[0] = wrap_integer(value, 8, True)
    elif code == 2:
        cython.cast(cython.pointer(uint16_t), data)[0] = wrap_integer(value, 16, True)
    else:
        write_rare(code, data, value)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def write_rare(code: cython.int, data: cython.p_char, value: object) -> cython.int:
    if code == 5:
        cython.cast(cython.pointer(uint16_t), data)[0] = float_to_half(float(value))
    elif code == 15:
        cython.cast(cython.pointer(uint16_t), data)[0] = float_to_bfloat16(float(value))
    elif code == 9:
        number = complex(value)
        cython.cast(cython.pointer(cython.float), data)[0] = number.real
        cython.cast(cython.pointer(cython.float), data)[1] = number.imag
    elif code == 10:
        number = complex(value)
        cython.cast(cython.pointer(cython.double), data)[0] = number.real
        cython.cast(cython.pointer(cython.double), data)[1] = number.imag
    elif code == 8:
        number = complex(value)
        cython.cast(cython.pointer(uint16_t), data)[0] = float_to_half(number.real)
        cython.cast(cython.pointer(uint16_t), data)[1] = float_to_half(number.imag)
    elif code == 27:
        cython.cast(cython.pointer(uint16_t), data)[0] = wrap_integer(value, 16, False)
    elif code == 28:
        cython.cast(cython.pointer(uint32_t), data)[0] = wrap_integer(value, 32, False)
    elif code == 29:
        cython.cast(cython.pointer(uint64_t), data)[0] = wrap_integer(value, 64, False)
    else:
        raise NotImplementedError(
            f"elements of dtype number {code} have no Python value"
        )
    return 0
