"""What values are kept as, computed in and added up in: one rule for all kernels.

Numbers of few bits are kept as they are, and computed in float32. Complex numbers are
pairs of a real type. Integers may stand for real numbers, by a scale and a zero point.

>>> half = Storage("bfloat16")
>>> x = ir.Var("x", half.element)
>>> half.read(x, half.computed) * 2.0
f32(x) * 2.0
>>> half.keep(half.read(x, half.computed))
bf16(f32(x))
>>> Storage("int8", scale=0.5, zero_point=3).read(ir.Var("x", Type("int8")), Type("float32"))
(f32(x) - 3.0) * 0.5
"""

from dataclasses import dataclass

from rushlight.codegen.frontend.complexes import PARTS, Complex
from rushlight.ir import expr as ir
from rushlight.ir.expr import Call, Const, Type

COMPUTED_IN = {
    "float16": "float32",
    "bfloat16": "float32",
    **dict.fromkeys(ir.FLOAT8, "float32"),
}
# Where kernels of loops add up what is of other types, they do so in int64.
ACCUMULATED_IN = {
    **COMPUTED_IN,
    **{kind: kind for kind in ("float32", "float64", "complex64", "complex128")},
}


def computed(dtype) -> Type:
    """The type that values of a dtype, or its parts, are worked on in.

    >>> computed("float16"), computed("complex64"), computed("int8")
    (Type(name='float32', lanes=1), Type(name='float32', lanes=1), Type(name='int8', lanes=1))
    """
    part = PARTS.get(dtype, dtype)
    return Type(COMPUTED_IN.get(part, part))


def accumulated(dtype) -> str:
    """The dtype that sums of a dtype's values are kept in while they grow."""
    return ACCUMULATED_IN.get(dtype, "int64")


def rounded_to(dtype, value):
    """A value as it would be read again after it was stored as a dtype.

    It stays in the type that it is in.
    """
    if isinstance(value, Complex):
        part = PARTS.get(dtype, dtype)
        return Complex(rounded_to(part, value.real), rounded_to(part, value.imag))
    return ir.cast(value.type, ir.cast(Type(dtype), value))


@dataclass(frozen=True)
class Storage:
    """How the elements of an array stand for values.

    Args:
        dtype: what elements are.
        scale: what an integer's distance from the zero point is multiplied by; None
            where elements are the values themselves.
        zero_point: the integer that stands for zero.
    """

    dtype: str
    scale: float | None = None
    zero_point: int = 0

    @property
    def element(self) -> Type:
        """The type in memory, of a part where numbers are complex."""
        return Type(PARTS.get(self.dtype, self.dtype))

    @property
    def parts(self) -> int:
        """2 where numbers are complex."""
        return 2 if self.dtype in PARTS else 1

    @property
    def itemsize(self) -> int:
        """Bytes of a whole number."""
        return self.element.itemsize * self.parts

    @property
    def computed(self) -> Type:
        """The type that a part is worked on in."""
        return Type("float32") if self.scale is not None else computed(self.dtype)

    def read(self, raw, type):
        """The value that a part in memory stands for, in a type of as many lanes."""
        if self.scale is None:
            return ir.cast(type, raw)
        value = ir.cast(Type("float32"), raw)
        if self.zero_point:
            value = value - float(self.zero_point)
        return ir.cast(type, value * self.scale)

    def keep(self, value):
        """What stands in memory for the value of a part; integers are clamped."""
        if self.scale is None:
            return ir.cast(self.element, value)
        value = ir.cast(Type("float32"), value) / self.scale
        value = Call("round", value.type, value) + float(self.zero_point)
        bits, signed = self.element.bits, self.element.is_signed
        low = -(1 << bits - 1) if signed else 0
        lanes = value.type
        for op, bound in (("max", low), ("min", low + (1 << bits) - 1)):
            value = ir.Binary(op, value, Const(lanes, float(bound)))
        return ir.cast(self.element, value)

    def split(self, value) -> list:
        """The parts of a number that there are to `keep`."""
        if self.parts == 2:
            value = Complex.of(value, self.element)
            return [value.real, value.imag]
        return [value.cast(self.element) if isinstance(value, Complex) else value]


def storage_of(dtype) -> Storage:
    """The storage of a dtype's name; a `Storage` is its own."""
    return dtype if isinstance(dtype, Storage) else Storage(dtype)
