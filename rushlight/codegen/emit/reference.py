"""What the names in rendered Python mean: NumPy scalars, vectors and raw memory."""

from __future__ import annotations

import ctypes
import math

import numpy as np

from rushlight.codegen.emit import reference_tiles
from rushlight.ir.expr import FAULTS, FLOAT8, SHORT_NAMES

EXTRA = ("bfloat16", *FLOAT8)  # NumPy itself does not have them


class Element:
    """A scalar type: calling it converts, ``bits`` reinterprets."""

    def __init__(self, name):
        if name in EXTRA:
            import ml_dtypes

            name = getattr(ml_dtypes, name)
        self.dtype = np.dtype(name)

    def __call__(self, value):
        array = np.asarray(value)
        if self.dtype.kind == "b":
            return _scalar(array != 0)
        return _scalar(array.astype(self.dtype))

    def bits(self, value):
        return _scalar(np.asarray(value).view(self.dtype))


def _scalar(array):
    return array[()] if array.ndim == 0 else array


class Memory:
    """Elements of one type at an address of this process."""

    def __init__(self, address, dtype):
        self.address, self.dtype = int(address), dtype

    def view(self, index, count=1):
        start = self.address + int(index) * self.dtype.itemsize
        size = count * self.dtype.itemsize
        return np.frombuffer((ctypes.c_char * size).from_address(start), self.dtype)

    def __getitem__(self, index):
        if np.ndim(index):
            return np.array([self[i] for i in index], self.dtype)
        return self.view(index)[0]

    def __setitem__(self, index, value):
        if np.ndim(index):
            for place, item in zip(index, np.broadcast_to(value, index.shape)):
                self[place] = item
        else:
            self.view(index)[0] = value

    def join(self, op, index, value):
        """Joins a value with an element; see `expr.Atomic`."""
        place = self.view(index)
        if op == "max":
            place[0] = max(place[0], value)
        elif op == "or":
            place[0] |= value
        else:
            place[0] = place[0] | value if self.dtype.kind == "b" else place[0] + value

    def lanes(self, index, count, mask=None):
        """Several elements; those that a mask leaves out are zero and not read."""
        if np.ndim(index) == 0:
            index = int(index) + np.arange(count)
        mask = np.ones(count, bool) if mask is None else mask
        zero = self.dtype.type(0)
        return np.array(
            [self[i] if on else zero for i, on in zip(index, mask)], self.dtype
        )

    def put(self, index, value, mask=None):
        """Writes several elements, or those that a mask picks."""
        if np.ndim(index) == 0:
            index = int(index) + np.arange(len(value))
        mask = np.ones(len(value), bool) if mask is None else mask
        for i, on, item in zip(index, mask, value):
            if on:
                self[i] = item

    def offset(self, count):
        return Memory(self.address + int(count), self.dtype)


_ADDRESS = np.dtype(np.uint64)
_locals: list = []


def pointer(value, element):
    if isinstance(value, Memory):
        value = value.address
    return Memory(value, getattr(element, "dtype", _ADDRESS))


def local(element, size):
    storage = np.zeros(size, element.dtype)
    _locals.append(storage)
    return Memory(storage.ctypes.data, element.dtype)


def count(start, stop, step=1):
    """``range`` over 64-bit integers."""
    return (np.int64(i) for i in range(int(start), int(stop), int(step)))


def select(condition, yes, no):
    if isinstance(yes, Memory):
        return yes if condition else no
    yes, no = _match(yes, no)
    return _scalar(np.where(condition, yes, no))


def _match(left, right):
    """Both values with the type of the one that is not a bare literal."""
    if _is_bare(left) and _is_bare(right):
        return np.asarray(left)[()], np.asarray(right)[()]
    if _is_bare(left):
        left = right.dtype.type(left)
    if _is_bare(right):
        right = left.dtype.type(right)
    return left, right


def trunc_div(left, right):
    left, right = _match(left, right)
    quotient = abs(left) // abs(right)
    return select((left < 0) != (right < 0), -quotient, quotient)


def fma(a, b, c):
    """Exact for float32 up to one double rounding; float64 rounds twice."""
    wide = np.longdouble if np.asarray(a).dtype == np.float64 else np.float64
    result = np.asarray(a, wide) * np.asarray(b, wide) + np.asarray(c, wide)
    return _scalar(np.asarray(result).astype(_dtype_of(a, b, c)))


def _dtype_of(*values):
    return next(v.dtype for v in values if not _is_bare(v))


def _is_bare(value):
    """Whether a value is a literal: NumPy's float64 is a Python float, but typed."""
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


def _in_double(function):
    """A function computed in float64 and rounded once to the argument's type."""

    def call(*args):
        dtype = _dtype_of(*args)
        wide = [np.asarray(a, np.float64) for a in args]
        return _scalar(np.asarray(function(*wide)).astype(dtype))

    return call


def _each(function, *, default=math.nan):
    def one(*args):
        try:
            return function(*args)
        except (ValueError, OverflowError):
            return default

    return _in_double(np.vectorize(one, otypes=[np.float64]))


def _lgamma(x):
    return (
        math.inf if math.isinf(x) or x <= 0 and x == math.floor(x) else (math.lgamma(x))
    )


def _digamma(x):
    if x == 0:
        return math.copysign(math.inf, -x)
    if x < 0:
        if x == math.floor(x):
            return math.nan
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    total = 0.0
    while x < 10:
        total -= 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    return total + math.log(x) - 0.5 / x - series


def _erfinv(y):
    """Newton's method on ``erf(x) = y`` (on ``erfc`` near one)."""
    if abs(y) >= 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    guess = math.log1p(-y * y)
    a = 2 / (math.pi * 0.147) + guess / 2
    x = math.copysign(math.sqrt(max(0.0, math.sqrt(a * a - guess / 0.147) - a)), y)
    for _ in range(4):
        slope = 2 / math.sqrt(math.pi) * math.exp(-x * x)
        gap = math.erfc(abs(x)) - (1 - abs(y))
        x += math.copysign(gap / slope, y) if slope else 0.0
    return x


NUMPY = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "copysign": np.copysign,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
PYTHON = {
    "erf": math.erf,
    "erfc": math.erfc,
    "normal_cdf": lambda x: math.erfc(-x * math.sqrt(0.5)) / 2,
    "lgamma": _lgamma,
    "digamma": _digamma,
    "erfinv": _erfinv,
}
REDUCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def lookup(index, element, table):
    """The constants at the places that an index's low bits name."""
    return element(np.asarray(table)[np.asarray(index) & len(table) - 1])


def _tree(function):
    """Halves the lanes each time, as the compiled reduction does."""

    def reduce(vector):
        while len(vector) > 1:
            half = len(vector) // 2
            vector = function(vector[:half], vector[half:])
        return vector[0]

    return reduce


def _matched(function):
    return lambda left, right: _scalar(np.asarray(function(*_match(left, right))))


NAMESPACE = {
    "tiles": reference_tiles.Tiles(),
    **{
        short: Element(name) for name, short in SHORT_NAMES.items() if name not in EXTRA
    },
    **{name: _in_double(f) for name, f in NUMPY.items()},
    **{name: _each(f) for name, f in PYTHON.items()},
    **{f"reduce_{name}": _tree(f) for name, f in REDUCTIONS.items()},
    **{
        name: _matched(getattr(np, name))
        for name in ("minimum", "maximum", "fmin", "fmax", "fmod")
    },
    "address": None,
    "pointer": pointer,
    "local": local,
    "select": select,
    "trunc_div": trunc_div,
    "fma": fma,
    "lookup": lookup,
    "isnan": np.isnan,
    "popcount": lambda x: np.asarray(np.bitwise_count(x)).astype(_dtype_of(x))[()],
    "any_lane": np.any,
    "rarely": select,
    **dict.fromkeys(FAULTS, lambda value, condition: value),
    "nan": math.nan,
    "inf": math.inf,
    "range": count,
    "vectorized": count,
    "unrolled": count,
    "rolled": count,
    "parallel": count,
    "prefetch": lambda pointer, index: None,
    "broadcast": lambda value, lanes: np.full(lanes, value),
    "ramp": lambda base, step, lanes: (base + step * np.arange(lanes)).astype(
        np.asarray(base).dtype
    ),
    "shuffle": lambda left, right, lanes: np.concatenate([left, right])[lanes],
}


def execute(source, name, pointers, ints, begin, end) -> int:
    """Runs a rendered kernel over raw addresses; returns its faults."""
    scope = dict(NAMESPACE)
    for dtype in EXTRA:
        if SHORT_NAMES[dtype] in source:
            scope[SHORT_NAMES[dtype]] = Element(dtype)
    exec(compile(source, f"<{name}>", "exec"), scope)
    addresses = np.array(pointers, np.uint64)
    integers = np.array(ints, np.int64)
    with np.errstate(all="ignore"):
        faults = scope[name](
            Memory(addresses.ctypes.data, _ADDRESS),
            Memory(integers.ctypes.data, integers.dtype),
            np.int64(begin),
            np.int64(end),
        )
    return int(faults or 0)
