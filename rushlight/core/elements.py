"""Single elements: between bytes in memory and Python numbers."""

from __future__ import annotations

import cython
from cython.cimports.cpython.long import (
    PyLong_AsLongLongAndOverflow,
    PyLong_AsUnsignedLongLong,
)
from cython.cimports.cpython.number import PyNumber_Index
from cython.cimports.libc.float import FLT_MAX
from cython.cimports.libc.math import INFINITY, NAN, fabs, frexp, ldexp, rint
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
from cython.cimports.rushlight.core.dtype import (
    CODE_BFLOAT16,
    CODE_BOOL,
    CODE_COMPLEX32,
    CODE_COMPLEX64,
    CODE_COMPLEX128,
    CODE_FLOAT8_E4M3FN,
    CODE_FLOAT8_E4M3FNUZ,
    CODE_FLOAT8_E5M2,
    CODE_FLOAT8_E5M2FNUZ,
    CODE_FLOAT8_E8M0FNU,
    CODE_FLOAT16,
    CODE_FLOAT32,
    CODE_FLOAT64,
    CODE_INT8,
    CODE_INT16,
    CODE_INT32,
    CODE_INT64,
    CODE_UINT8,
    CODE_UINT16,
    CODE_UINT32,
    CODE_UINT64,
)

from rushlight.core.state import is_grad_enabled
from rushlight.core.warning import warn_once


def refuse_kind(kernel, code):
    """Refuses a type whose elements are no numbers of Python's.

    Raises:
        NotImplementedError: always.
    """
    from rushlight.core.dtype import TYPE_NAMES, by_code

    raise NotImplementedError(
        f"\"{kernel}\" not implemented for '{TYPE_NAMES[by_code(code).name]}'"
    )


def converted(tensor, kind):
    """The one element of a tensor as a number of a type of Python's that holds it.

    Raises:
        ValueError: the tensor has more elements, or none.
        RuntimeError: it has an imaginary part, and the type has none.
    """
    if tensor.numel() != 1:
        raise ValueError(
            "only one element tensors can be converted to Python scalars, not one of "
            f"sizes {list(tensor.shape)}"
        )
    if kind is not int and tensor.requires_grad and is_grad_enabled():
        warn_once(
            "Converting a tensor with requires_grad=True to a scalar may lead to "
            "unexpected behavior.\nConsider using tensor.detach() first."
        )
    value = tensor.item()
    if kind is not complex and isinstance(value, complex):
        if value.imag:
            to = "double" if kind is float else "int64_t"
            raise RuntimeError(
                f"value cannot be converted to type {to} without overflow: {value}"
            )
        value = value.real
    return kind(value)


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
@cython.exceptval(check=False)
def float8_format(code: cython.int, fraction: cython.pointer(cython.int)) -> cython.int:
    """The exponent's bias of a format with a sign; how many bits the fraction has."""
    fraction[0] = 3 if code == CODE_FLOAT8_E4M3FN or code == CODE_FLOAT8_E4M3FNUZ else 2
    if code == CODE_FLOAT8_E5M2:
        return 15
    if code == CODE_FLOAT8_E4M3FN:
        return 7
    return 16 if code == CODE_FLOAT8_E5M2FNUZ else 8


@cython.cfunc
@cython.exceptval(check=False)
def float8_to_double(code: cython.int, bits: cython.int) -> cython.double:
    """What eight bits stand for, in one of the formats of that width."""
    fraction: cython.int = 0
    bias: cython.int
    magnitude: cython.int = bits & 127
    value: cython.double
    if code == CODE_FLOAT8_E8M0FNU:
        return NAN if bits == 255 else ldexp(1.0, bits - 127)
    bias = float8_format(code, cython.address(fraction))
    if (
        code == CODE_FLOAT8_E4M3FN
        and magnitude == 127
        or code == CODE_FLOAT8_E5M2
        and magnitude > 124
    ):
        return NAN
    if code == CODE_FLOAT8_E5M2 and magnitude == 124:
        return -INFINITY if bits > 127 else INFINITY
    if (code == CODE_FLOAT8_E5M2FNUZ or code == CODE_FLOAT8_E4M3FNUZ) and bits == 128:
        return NAN
    if magnitude >> fraction == 0:
        value = ldexp(magnitude, 1 - bias - fraction)
    else:
        value = ldexp(
            (magnitude & ((1 << fraction) - 1)) + (1 << fraction),
            (magnitude >> fraction) - bias - fraction,
        )
    return -value if bits > 127 else value


@cython.cfunc
@cython.exceptval(check=False)
def float_to_float8(code: cython.int, value: cython.float) -> cython.int:
    """The nearest number's bits, ties to even, by the rules of each format."""
    fraction: cython.int = 0
    bias: cython.int
    exponent: cython.int
    result: cython.int
    most: cython.int
    sign: cython.int
    wide: uint32_t
    magnitude: cython.double = fabs(value)
    memcpy(cython.address(wide), cython.address(value), 4)
    if code == CODE_FLOAT8_E8M0FNU:
        return float_to_power(wide & 0x7FFFFFFF)
    sign = 128 if wide >> 31 else 0
    bias = float8_format(code, cython.address(fraction))
    most = (
        126 if code == CODE_FLOAT8_E4M3FN else 124 if code == CODE_FLOAT8_E5M2 else 128
    )
    if value != value:
        return sign | 127 if most < 128 else 128
    if magnitude >= ldexp(1.0, 17):
        return sign | most if most < 128 else 128
    exponent = 1 - bias
    if magnitude >= ldexp(1.0, exponent):
        frexp(magnitude, cython.address(exponent))
        exponent -= 1
    # in steps of the last bit: a carry out of the fraction counts the exponent up
    result = cython.cast(cython.int, rint(ldexp(magnitude, fraction - exponent)))
    result += (exponent + bias - 1) << fraction
    if result >= most:
        return sign | most if most < 128 else 128
    return 0 if result == 0 and most == 128 else sign | result


@cython.cfunc
@cython.exceptval(check=False)
def float_to_power(magnitude: uint32_t) -> cython.int:
    """The exponent of the nearest power of two; for a half the larger one."""
    exponent: cython.int = magnitude >> 23
    rest: uint32_t = magnitude & 0x7FFFFF
    if exponent == 255:
        return 255
    if rest > 0x400000 or rest == 0x400000 and exponent > 0:
        return exponent + 1
    return exponent


@cython.cfunc
def read_element(
    code: cython.int, data: cython.pointer(cython.const[cython.char])
) -> object:
    if code == CODE_FLOAT32:
        return cython.cast(cython.pointer(cython.float), data)[0]
    if code == CODE_INT64:
        return cython.cast(cython.pointer(int64_t), data)[0]
    if code == CODE_FLOAT64:
        return cython.cast(cython.pointer(cython.double), data)[0]
    if code == CODE_BOOL:
        return data[0] != 0
    if code == CODE_INT32:
        return cython.cast(cython.pointer(int32_t), data)[0]
    if code == CODE_UINT8:
        return cython.cast(cython.pointer(uint8_t), data)[0]
    if code == CODE_INT8:
        return cython.cast(cython.pointer(int8_t), data)[0]
    if code == CODE_INT16:
        return cython.cast(cython.pointer(int16_t), data)[0]
    return read_rare(code, data)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_float8(code: cython.int) -> cython.bint:
    """Whether eight bits are a floating-point number."""
    signed: cython.bint = CODE_FLOAT8_E5M2 <= code <= CODE_FLOAT8_E4M3FNUZ
    return signed or code == CODE_FLOAT8_E8M0FNU


@cython.cfunc
def read_rare(
    code: cython.int, data: cython.pointer(cython.const[cython.char])
) -> object:
    if code == CODE_FLOAT16:
        return half_to_float(cython.cast(cython.pointer(uint16_t), data)[0])
    if code == CODE_BFLOAT16:
        return bfloat16_to_float(cython.cast(cython.pointer(uint16_t), data)[0])
    if code == CODE_COMPLEX64:
        return complex(
            cython.cast(cython.pointer(cython.float), data)[0],
            cython.cast(cython.pointer(cython.float), data)[1],
        )
    if code == CODE_COMPLEX128:
        return complex(
            cython.cast(cython.pointer(cython.double), data)[0],
            cython.cast(cython.pointer(cython.double), data)[1],
        )
    if code == CODE_COMPLEX32:
        return complex(
            half_to_float(cython.cast(cython.pointer(uint16_t), data)[0]),
            half_to_float(cython.cast(cython.pointer(uint16_t), data)[1]),
        )
    if code == CODE_UINT16:
        return cython.cast(cython.pointer(uint16_t), data)[0]
    if code == CODE_UINT32:
        return cython.cast(cython.pointer(uint32_t), data)[0]
    if code == CODE_UINT64:
        return cython.cast(cython.pointer(uint64_t), data)[0]
    if is_float8(code):
        return float8_to_double(code, cython.cast(cython.pointer(uint8_t), data)[0])
    refuse_kind("_local_scalar_dense_cpu", code)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def integer_width(code: cython.int) -> cython.int:
    """Bytes of an integer type; 0 for the other types."""
    if code <= CODE_INT8:
        return 1
    if code <= CODE_INT64:
        return 1 << (code - 1)
    return 2 << (code - CODE_UINT16) if CODE_UINT16 <= code <= CODE_UINT64 else 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def store_bits(width: cython.int, data: cython.p_char, bits: uint64_t) -> cython.void:
    """The low bytes of ``bits``, as the processor orders them."""
    if width == 8:
        cython.cast(cython.pointer(uint64_t), data)[0] = bits
    elif width == 4:
        cython.cast(cython.pointer(uint32_t), data)[0] = cython.cast(uint32_t, bits)
    elif width == 2:
        cython.cast(cython.pointer(uint16_t), data)[0] = cython.cast(uint16_t, bits)
    else:
        cython.cast(cython.pointer(uint8_t), data)[0] = cython.cast(uint8_t, bits)


LARGE = cython.declare(object, 2**63)


@cython.cfunc
@cython.exceptval(-1, check=True)
def read_integer(
    value: object, signed: cython.pointer(int64_t), large: cython.pointer(uint64_t)
) -> cython.int:
    """A Python integer of 64 bits; 1 where it is beyond int64 and so in ``large``.

    Raises:
        OverflowError: it has neither an int64 nor a uint64 value.
    """
    overflow: cython.int = 0
    signed[0] = PyLong_AsLongLongAndOverflow(value, cython.address(overflow))
    if overflow == 0:
        return 0
    if overflow < 0:
        raise OverflowError(
            f"can't convert negative int to unsigned: {value} needs more than 64 bits"
        )
    large[0] = PyLong_AsUnsignedLongLong(value)
    return 1


# How C++ names the types in the words of its overflow errors.
_C_NAMES = cython.declare(
    dict,
    {
        0: "uint8_t",
        1: "int8_t",
        2: "int16_t",
        3: "int",
        4: "int64_t",
        5: "c10::Half",
        6: "float",
        7: "double",
        8: "c10::complex<c10::Half>",
        9: "c10::complex<float>",
        10: "c10::complex<double>",
        11: "bool",
        15: "c10::BFloat16",
        23: "c10::Float8_e5m2",
        24: "c10::Float8_e4m3fn",
        25: "c10::Float8_e5m2fnuz",
        26: "c10::Float8_e4m3fnuz",
        27: "uint16_t",
        28: "uint32_t",
        29: "uint64_t",
        44: "c10::Float8_e8m0fnu",
    },
)


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_number(code: cython.int, value: object) -> cython.int:
    raise RuntimeError(
        f"value cannot be converted to type {_C_NAMES.get(code, code)} without "
        f"overflow: {value}"
    )


@cython.cfunc
@cython.exceptval(-1, check=False)
def write_integer(code: cython.int, data: cython.p_char, value: object) -> cython.int:
    """A number into an integer type that must hold it.

    Negative integers wrap in unsigned types down to minus their largest number;
    fractions are cut off.
    """
    width: cython.int = integer_width(code)
    unsigned: cython.bint = code == CODE_UINT8 or code >= CODE_UINT16
    number: int64_t = 0
    large: uint64_t = 0
    one: uint64_t = 1
    most: uint64_t = ~cython.cast(uint64_t, 0) >> (64 - 8 * width)
    least: int64_t
    real: cython.double
    if isinstance(value, int):
        if read_integer(value, cython.address(number), cython.address(large)):
            if code != CODE_UINT64:
                refuse_number(code, value)
            store_bits(8, data, large)
            return 0
        if width < 8:
            if not unsigned:
                most >>= 1
            least = -cython.cast(int64_t, most) - (0 if unsigned else 1)
            if number > cython.cast(int64_t, most) or number < least:
                refuse_number(code, value)
        store_bits(width, data, cython.cast(uint64_t, number))
        return 0
    if isinstance(value, complex):
        if value.imag != 0:
            refuse_number(code, value)
        value = value.real
    elif not isinstance(value, float):
        return write_integer(
            code, data, int(value) if hasattr(value, "__index__") else float(value)
        )
    real = value
    if unsigned:
        if not 0.0 <= real <= ldexp(1.0, 8 * width) - (1.0 if width < 8 else 0.0):
            refuse_number(code, value)
        # 2 ** 64 itself passes, as it is the double nearest to the largest number
        large = 0 if real >= ldexp(1.0, 64) else cython.cast(uint64_t, real)
        store_bits(width, data, large)
        return 0
    if (
        not -ldexp(1.0, 8 * width - 1)
        <= real
        <= ldexp(1.0, 8 * width - 1) - (1.0 if width < 8 else 0.0)
    ):
        refuse_number(code, value)
    large = one << 63
    if real < ldexp(1.0, 63):
        large = cython.cast(uint64_t, cython.cast(int64_t, real))
    store_bits(width, data, large)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def write_floating(code: cython.int, data: cython.p_char, value: object) -> cython.int:
    """A number into a floating or complex type; what is too large becomes infinite."""
    number: cython.double = 0.0
    imaginary: cython.double = 0.0
    signed: int64_t = 0
    large: uint64_t = 0
    if type(value) is float:
        number = value
    elif isinstance(value, int):
        if read_integer(value, cython.address(signed), cython.address(large)):
            number = cython.cast(cython.double, large)
        else:
            number = cython.cast(cython.double, signed)
    elif isinstance(value, complex):
        number = value.real
        imaginary = value.imag
        if not CODE_COMPLEX32 <= code <= CODE_COMPLEX128 and imaginary != 0:
            refuse_number(code, value)
    elif CODE_COMPLEX32 <= code <= CODE_COMPLEX128:
        return write_floating(code, data, complex(value))
    else:
        number = float(value)
    if code == CODE_FLOAT32:
        cython.cast(cython.pointer(cython.float), data)[0] = cython.cast(
            cython.float, number
        )
    elif code == CODE_FLOAT64:
        cython.cast(cython.pointer(cython.double), data)[0] = number
    elif code == CODE_FLOAT16:
        cython.cast(cython.pointer(uint16_t), data)[0] = float_to_half(
            cython.cast(cython.float, number)
        )
    elif code == CODE_BFLOAT16:
        cython.cast(cython.pointer(uint16_t), data)[0] = float_to_bfloat16(
            cython.cast(cython.float, number)
        )
    elif code == CODE_COMPLEX64:
        cython.cast(cython.pointer(cython.float), data)[0] = cython.cast(
            cython.float, number
        )
        cython.cast(cython.pointer(cython.float), data)[1] = cython.cast(
            cython.float, imaginary
        )
    elif code == CODE_COMPLEX128:
        cython.cast(cython.pointer(cython.double), data)[0] = number
        cython.cast(cython.pointer(cython.double), data)[1] = imaginary
    elif code == CODE_COMPLEX32:
        cython.cast(cython.pointer(uint16_t), data)[0] = float_to_half(
            cython.cast(cython.float, number)
        )
        cython.cast(cython.pointer(uint16_t), data)[1] = float_to_half(
            cython.cast(cython.float, imaginary)
        )
    elif is_float8(code):
        cython.cast(cython.pointer(uint8_t), data)[0] = float_to_float8(
            code, cython.cast(cython.float, number)
        )
    else:
        refuse_kind("fill_cpu", code)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def largest(code: cython.int) -> cython.double:
    """The largest number of a floating or complex type narrower than a double."""
    if code == CODE_FLOAT32 or code == CODE_COMPLEX64:
        return FLT_MAX
    if code == CODE_FLOAT16 or code == CODE_COMPLEX32:
        return 65504.0
    if code == CODE_FLOAT8_E4M3FN:
        return 448.0
    if code == CODE_FLOAT8_E4M3FNUZ:
        return 240.0
    if code == CODE_FLOAT8_E5M2 or code == CODE_FLOAT8_E5M2FNUZ:
        return 57344.0
    if code == CODE_FLOAT8_E8M0FNU:
        return ldexp(1.0, 127)
    return 255 * ldexp(1.0, 120) if code == CODE_BFLOAT16 else 0.0


@cython.cfunc
@cython.exceptval(check=False)
def lacks_infinity(code: cython.int) -> cython.bint:
    """Whether a floating type has finite numbers and NaN, but no infinities."""
    without: cython.bint = CODE_FLOAT8_E4M3FN <= code <= CODE_FLOAT8_E4M3FNUZ
    return without or code == CODE_FLOAT8_E8M0FNU


@cython.cfunc
@cython.exceptval(-1, check=False)
def write_element(code: cython.int, data: cython.p_char, value: object) -> cython.int:
    """Store a number that the type must hold.

    Raises:
        RuntimeError: the number is beyond the type's range.
        OverflowError: it is an integer of more than 64 bits.
    """
    real: cython.double
    number: int64_t = 0
    large: uint64_t = 0
    most: cython.double = largest(code)
    if type(value) is int:
        read_integer(value, cython.address(number), cython.address(large))
    if most > 0 and (type(value) is not int or most < 1e19):
        if isinstance(value, complex):
            real = max(abs(value.real), abs(value.imag))
        else:
            real = abs(float(value))
        if real > most and (real - real == 0 or lacks_infinity(code)):
            refuse_number(code, value)
        if code == CODE_FLOAT8_E8M0FNU and (
            isinstance(value, complex)
            or (type(value) is float and value < ldexp(1.0, -127))
        ):
            refuse_number(code, value)
    if code == CODE_BOOL:
        data[0] = 1 if value else 0
    elif integer_width(code):
        write_integer(code, data, value)
    else:
        write_floating(code, data, value)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def write_wrapped(code: cython.int, data: cython.p_char, value: object) -> cython.int:
    """Store an operator's number as a cast would: integers wrap, floats overflow.

    Raises:
        OverflowError: it is an integer of more than 64 bits.
    """
    number: int64_t = 0
    large: uint64_t = 0
    width: cython.int = integer_width(code)
    if code == CODE_BOOL:
        if type(value) is int:
            read_integer(value, cython.address(number), cython.address(large))
        data[0] = 1 if value else 0
    elif width and isinstance(value, int):
        if not read_integer(value, cython.address(number), cython.address(large)):
            large = cython.cast(uint64_t, number)
        store_bits(width, data, large)
    elif width:
        write_integer(code, data, value)
    else:
        write_floating(code, data, value)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def write_item(code: cython.int, data: cython.p_char, value: object) -> cython.int:
    """Store an item of a sequence that is made a tensor, if it says to be a number.

    Raises:
        RuntimeError: the number is beyond the type's range.
        TypeError: it is none, or no real one or integer where the type wants that.
        ValueError: it is an integer of more bits than the type can have.
    """
    number: cython.doublecomplex
    if code == CODE_BOOL:
        if not isinstance(value, (int, float, complex)):
            # NumPy's logical values are no integers
            one = getattr(value, "dtype", None)
            if getattr(one, "name", None) != "bool" or hasattr(value, "__len__"):
                value = PyNumber_Index(value)
        data[0] = 1 if value else 0
        return 0
    if integer_width(code):
        if code == CODE_UINT64 and isinstance(value, float):
            raise TypeError(f"an integer is required, not {value}")
        if not isinstance(value, (int, float)):
            value = PyNumber_Index(value)
        if code == CODE_UINT64:
            if value < 0:
                raise OverflowError(f"can't convert negative int to unsigned: {value}")
        elif isinstance(value, int) and not -LARGE <= value < LARGE:
            raise ValueError(f"Overflow when unpacking long long: {value}")
        return write_element(code, data, value)
    if CODE_COMPLEX32 <= code <= CODE_COMPLEX128 and not isinstance(
        value, (int, float)
    ):
        if not isinstance(value, complex):
            number = value
            value = complex(number.real, number.imag)
        return write_wrapped(code, data, value)
    return write_wrapped(code, data, cython.cast(cython.double, value))
