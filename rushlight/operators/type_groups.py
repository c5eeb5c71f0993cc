"""Groups of types, by their numbers: what `require` asks for."""

from rushlight.core.dtype import all_dtypes


def codes(names):
    """The numbers of types by name.

    >>> sorted(codes("float32 float64"))
    [6, 7]
    """
    return frozenset(all_dtypes()[name].code for name in names.split())


INTEGERS = codes("uint8 int8 int16 int32 int64")
WIDE_UNSIGNED = codes("uint16 uint32 uint64")  # sorted and compared, and little else
SINGLE_DOUBLE = codes("float32 float64")
FLOATS = SINGLE_DOUBLE | codes("float16 bfloat16")
COMPLEX = codes("complex64 complex128")
PRECISE = SINGLE_DOUBLE | COMPLEX
REAL = INTEGERS | FLOATS
USUAL = REAL | COMPLEX | codes("bool")
ORDERED = WIDE_UNSIGNED | REAL | codes("bool")
STORED = codes(
    "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz float8_e8m0fnu"
)
