"""Data types: what one element is, and which type a mixture of types computes in."""

from __future__ import annotations

import cython

from rushlight.core import naming

# (name, PyTorch's number, bytes, category, signed)
_ROWS = (
    ("uint8", 0, 1, INTEGER, False),
    ("int8", 1, 1, INTEGER, True),
    ("int16", 2, 2, INTEGER, True),
    ("int32", 3, 4, INTEGER, True),
    ("int64", 4, 8, INTEGER, True),
    ("float16", 5, 2, FLOATING, True),
    ("float32", 6, 4, FLOATING, True),
    ("float64", 7, 8, FLOATING, True),
    ("complex32", 8, 4, COMPLEX, True),
    ("complex64", 9, 8, COMPLEX, True),
    ("complex128", 10, 16, COMPLEX, True),
    ("bool", 11, 1, BOOLEAN, False),
    ("qint8", 12, 1, OPAQUE, True),
    ("quint8", 13, 1, OPAQUE, False),
    ("qint32", 14, 4, OPAQUE, True),
    ("bfloat16", 15, 2, FLOATING, True),
    ("quint4x2", 16, 1, OPAQUE, False),
    ("quint2x4", 17, 1, OPAQUE, False),
    ("bits1x8", 18, 1, OPAQUE, False),
    ("bits2x4", 19, 1, OPAQUE, False),
    ("bits4x2", 20, 1, OPAQUE, False),
    ("bits8", 21, 1, OPAQUE, False),
    ("bits16", 22, 2, OPAQUE, False),
    ("float8_e5m2", 23, 1, FLOATING, True),
    ("float8_e4m3fn", 24, 1, FLOATING, True),
    ("float8_e5m2fnuz", 25, 1, FLOATING, True),
    ("float8_e4m3fnuz", 26, 1, FLOATING, True),
    ("uint16", 27, 2, INTEGER, False),
    ("uint32", 28, 4, INTEGER, False),
    ("uint64", 29, 8, INTEGER, False),
    # integers of fewer bits than a byte, each in a byte of its own: stored, not computed with
    *((f"uint{bits}", 29 + bits, 1, OPAQUE, False) for bits in range(1, 8)),
    *((f"int{bits}", 36 + bits, 1, OPAQUE, True) for bits in range(1, 8)),
    ("float8_e8m0fnu", 44, 1, FLOATING, False),
    ("float4_e2m1fn_x2", 45, 1, FLOATING, True),
)
_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "chalf": "complex32",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "bit": "uint1",
}
# One pair of (larger, smaller) finite numbers, spacing and digits for each float type.
_FLOAT_LIMITS = {
    "float16": (65504.0, 2.0**-10, 2.0**-14, 2.0**-24, 16, 0.001),
    "bfloat16": (3.3895313892515355e38, 2.0**-7, 2.0**-126, 2.0**-133, 16, 0.01),
    "float32": (3.4028234663852886e38, 2.0**-23, 2.0**-126, 2.0**-149, 32, 1e-06),
    "float64": (1.7976931348623157e308, 2.0**-52, 2.0**-1022, 5e-324, 64, 1e-15),
    "float8_e5m2": (57344.0, 0.25, 2.0**-14, 2.0**-16, 8, 1.0),
    "float8_e4m3fn": (448.0, 0.125, 2.0**-6, 2.0**-9, 8, 1.0),
    "float8_e5m2fnuz": (57344.0, 0.125, 2.0**-15, 2.0**-17, 8, 1.0),
    "float8_e4m3fnuz": (240.0, 0.125, 2.0**-7, 2.0**-10, 8, 1.0),
    "float8_e8m0fnu": (2.0**127, 1.0, 2.0**-127, 2.0**-127, 8, 1.0),
}


@cython.cclass
class DType:
    """The type of a tensor's elements.

    >>> import rushlight as rl
    >>> rl.float32.itemsize, rl.float32.is_floating_point
    (4, True)
    """

    def __init__(self):
        raise TypeError(f"cannot create '{naming.package}.dtype' instances")

    @property
    def is_floating_point(self):
        """Whether elements are real floating-point numbers."""
        return self.category == FLOATING

    @property
    def is_complex(self):
        """Whether elements are complex numbers."""
        return self.category == COMPLEX

    def to_real(self):
        """The real type with the same precision."""
        return _REAL.get(self.name, self)

    def to_complex(self):
        """The complex type with the same precision.

        Raises:
            RuntimeError: there is none.
        """
        if self.name in _REAL:
            return self
        if self.name not in _COMPLEX:
            name = TYPE_NAMES.get(self.name, self.name)
            raise RuntimeError(f"Unknown Complex ScalarType for {name}")
        return _COMPLEX[self.name]

    def __repr__(self):
        return f"{naming.package}.{self.name}"

    def __reduce__(self):
        return (_by_name, (self.name,))

    def __hash__(self):
        return self.code

    def __eq__(self, other):
        return self is other


_TABLE = cython.declare(list, [None] * 64)
_NAMES = cython.declare(dict, {})


def _make_all():
    for name, code, size, category, signed in _ROWS:
        t: DType = DType.__new__(DType)
        t.name = name
        t.code = code
        t.itemsize = size
        t.category = category
        t.is_signed = signed
        _TABLE[code] = t
        _NAMES[name] = t


_make_all()
_REAL = {
    "complex32": _NAMES["float16"],
    "complex64": _NAMES["float32"],
    "complex128": _NAMES["float64"],
}
_COMPLEX = {
    "float16": _NAMES["complex32"],
    "float32": _NAMES["complex64"],
    "float64": _NAMES["complex128"],
    "bfloat16": _NAMES["complex64"],
}


def _by_name(name):
    return _NAMES[name]


def all_dtypes():
    """Every data type by its canonical name and by its aliases."""
    named = dict(_NAMES)
    named.update((alias, _NAMES[name]) for alias, name in _ALIASES.items())
    return named


_PYTHON = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}


def by_python_type(kind):
    """A data type itself, or the one that a Python type of numbers stands for."""
    return kind if isinstance(kind, DType) else _NAMES[_PYTHON[kind]]


def by_code(code):
    """The data type with PyTorch's number ``code``."""
    return dtype_of(code)


@cython.cfunc
def dtype_of(code: cython.int) -> DType:
    return cython.cast(DType, _TABLE[code])


_DEFAULT = cython.declare(DType, cython.cast(DType, _NAMES["float32"]))


@cython.cfunc
def default_dtype() -> DType:
    return _DEFAULT


def get_default_dtype():
    """The type that Python floats and integer divisions become."""
    return _DEFAULT


def set_default_dtype(d, /):
    """Choose the floating-point type that Python floats become.

    Args:
        d: the type.

    Raises:
        TypeError: ``d`` is not a floating-point type.

    >>> import rushlight as rl
    >>> rl.set_default_dtype(rl.float64)
    >>> rl.tensor([1.0]).dtype
    rushlight.float64
    >>> rl.set_default_dtype(rl.float32)
    """
    global _DEFAULT
    if not isinstance(d, DType) or cython.cast(DType, d).category != FLOATING:
        raise TypeError(
            "only floating-point types are supported as the default type, "
            f"but got {d!r}"
        )
    _DEFAULT = d


# How messages spell types.
TYPE_NAMES = {
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "float32": "Float",
    "float64": "Double",
    "bool": "Bool",
    "bfloat16": "BFloat16",
    "complex32": "ComplexHalf",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
}
for _name in _NAMES:
    _word = _name[1:] if _name[0] == "q" else _name
    _word = _word.capitalize().replace("Uint", "UInt")
    TYPE_NAMES.setdefault(_name, f"Q{_word}" if _name[0] == "q" else _word)

_PROMOTED = cython.declare(cython.int[4096])
_WIDE_UNSIGNED = cython.declare(frozenset, frozenset(("uint16", "uint32", "uint64")))


def _promote_rule(a, b):
    """The common type of two arrays' types, or None where there is none."""
    if a is b:
        return a
    if a.category < b.category:
        a, b = b, a
    if b.category == OPAQUE or a.category == OPAQUE:
        return None
    if "float8" in a.name or "float8" in b.name:
        return None
    if b.name in _WIDE_UNSIGNED or a.name in _WIDE_UNSIGNED:
        return a if a.category == FLOATING else None
    if a.category == COMPLEX:
        if b.category == FLOATING:
            widest = _promote_rule(a.to_real(), b)
            return None if widest is None else widest.to_complex()
        if b.category == COMPLEX:
            return a if a.itemsize >= b.itemsize else b
        return a
    if a.category == FLOATING:
        if b.category != FLOATING:
            return a
        if a.itemsize == 1 or b.itemsize == 1:
            return None
        if a.itemsize == b.itemsize:
            return _NAMES["float32"]  # float16 with bfloat16
        return a if a.itemsize > b.itemsize else b
    if b.category == BOOLEAN:
        return a
    return _promote_integers(a, b)


def _promote_integers(a, b):
    if a.is_signed != b.is_signed:  # uint8 and a signed type
        signed = a if a.is_signed else b
        return _NAMES["int16"] if signed.itemsize == 1 else signed
    return a if a.itemsize > b.itemsize else b


def _fill_promotions():
    for i in range(4096):
        _PROMOTED[i] = -1
    kinds = list(_NAMES.values())
    for a in kinds:
        for b in kinds:
            common = _promote_rule(a, b)
            _PROMOTED[a.code * 64 + b.code] = -1 if common is None else common.code


_fill_promotions()


@cython.cfunc
@cython.exceptval(-1, check=False)
def promote_codes(a: cython.int, b: cython.int) -> cython.int:
    common: cython.int = _PROMOTED[a * 64 + b]
    if common < 0:
        raise RuntimeError(_promotion_error(dtype_of(a).name, dtype_of(b).name))
    return common


def _promotion_error(a, b):
    kinds = "these"
    if "float8" in a or "float8" in b:
        kinds = "Float8"
    elif a in _WIDE_UNSIGNED or b in _WIDE_UNSIGNED:
        kinds = "uint16, uint32, uint64"
    kinds += " Types" if kinds == "Float8" else " types"
    first, second = [TYPE_NAMES.get(name, name.capitalize()) for name in (a, b)]
    return (
        f"Promotion for {kinds} is not supported, attempted to promote {first} and "
        f"{second}\n  remedy: convert one of them with .to(...)"
    )


def promote_types(type1, type2):
    """The smallest type that holds values of both.

    >>> import rushlight as rl
    >>> rl.promote_types(rl.uint8, rl.int8)
    rushlight.int16
    """
    return dtype_of(promote_codes(type1.code, type2.code))


def can_cast(from_, to):
    """Whether values may be converted without changing category downwards."""
    if from_.category == COMPLEX and to.category != COMPLEX:
        return False
    if from_.category == FLOATING and to.category < FLOATING:
        return False
    return not (from_.category == INTEGER and to.category == BOOLEAN)


_DEFAULT_NOW = object()  # the type that is the default when the limits are asked for


def _limited(name, type):
    """A type whose limits are asked for; ``TypeError`` for what is none."""
    if not isinstance(type, DType):
        raise TypeError(
            f"{name}(): argument 'type' (position 1) must be {naming.package}.dtype, not "
            f"{type.__class__.__name__}"
        )
    return type


class finfo:
    """Limits of a floating-point type: ``bits eps max min tiny smallest_normal``.

    >>> import rushlight as rl
    >>> rl.finfo(rl.float32).bits
    32
    """

    def __init__(self, type=_DEFAULT_NOW):
        type = _limited("finfo", _DEFAULT if type is _DEFAULT_NOW else type).to_real()
        if type.name not in _FLOAT_LIMITS:
            raise TypeError(
                f"{naming.package}.finfo() requires a floating point input type. {type!r} is "
                f"not one: use {naming.package}.iinfo for integers"
            )
        limits = _FLOAT_LIMITS[type.name]
        self.dtype = type.name
        self.max, self.eps, self.tiny, self.smallest_subnormal = limits[:4]
        self.bits, self.resolution = limits[4:]
        self.min = self.tiny if self.dtype == "float8_e8m0fnu" else -self.max
        self.smallest_normal = self.tiny

    def __repr__(self):
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.tiny:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other):
        return isinstance(other, finfo) and self.dtype == other.dtype

    __hash__ = None  # as in PyTorch


class iinfo:
    """Limits of an integer type: ``bits max min``.

    >>> import rushlight as rl
    >>> rl.iinfo(rl.int8).min
    -128
    """

    def __init__(self, type):
        type = _limited("iinfo", type)
        quantized = type.name.startswith(("qint", "quint"))
        if type.category != INTEGER and not quantized:
            raise TypeError(
                f"{naming.package}.iinfo() requires an integer input type. {type!r} is not one: "
                f"use {naming.package}.finfo for floating point"
            )
        self.dtype = type.name
        self.bits = 8 * type.itemsize
        self.max = (1 << (self.bits - type.is_signed)) - 1
        self.min = -(1 << (self.bits - 1)) if type.is_signed else 0

    def __repr__(self):
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    __hash__ = None  # as in PyTorch
