"""The size of a dimension whose length differs from part to part."""

from rushlight.ir.symbolic import SymInt
from rushlight.utils.weak import WeakTensorKeyDictionary

__all__ = ["NestedInt", "nested_int_of"]

# Operators and the records of autograd see a ragged size as a number that no dimension
# has: sizes are compared, broadcast and handed on as if it were one.
FIRST = 1 << 40
_numbers = WeakTensorKeyDictionary()  # offsets, or lengths -> the number of their size


class NestedInt(SymInt):
    """A ragged size: equal to itself and its multiples of one factor, to no integer.

    Args:
        number: which size it is.
        coeff: its factor.

    >>> j = NestedInt(1)
    >>> j, 3 * j, j == 5, j >= 2
    (j1, 3*j1, False, True)
    """

    __slots__ = ("coeff", "number")

    def __init__(self, number, coeff=1):
        self.number, self.coeff = number, coeff

    @property
    def node(self):
        """Itself."""
        return self

    def is_nested_int(self):
        """That it is one."""
        return True

    def nested_int(self):
        """Which size it is."""
        return self.number

    def nested_int_coeff(self):
        """Its factor."""
        return self.coeff

    def _as_argument(self):
        return (FIRST + self.number) * self.coeff

    def __index__(self):
        raise RuntimeError("Trying to extract a concrete int out of a symbolic int")

    __int__ = __index__

    def __float__(self):
        raise RuntimeError("Trying to extract a concrete int out of a symbolic int")

    def __bool__(self):
        return True

    def __repr__(self):
        name = f"j{self.number}"
        return name if self.coeff == 1 else f"{self.coeff}*{name}"

    __str__ = __repr__

    def __hash__(self):
        raise TypeError("unhashable type: non-nested SymInt")

    def __mul__(self, other):
        if isinstance(other, NestedInt) or not isinstance(other, int):
            return NotImplemented
        return NestedInt(self.number, self.coeff * other)

    __rmul__ = __mul__

    def __eq__(self, other):
        if not isinstance(other, NestedInt):
            return False
        return self.number == other.number and self.coeff == other.coeff

    def __ne__(self, other):
        return not self == other

    def __ge__(self, other):
        if isinstance(other, NestedInt) and self.number == other.number:
            return self.coeff >= other.coeff
        if isinstance(other, int) and other <= 2:
            return True
        raise ValueError("ge: relation is indeterminate")

    def __le__(self, other):
        if isinstance(other, NestedInt):
            return other >= self
        if isinstance(other, int) and other < 2:
            return False
        raise ValueError("ge: relation is indeterminate")

    def __gt__(self, other):
        return not self <= other

    def __lt__(self, other):
        return not self >= other


def nested_int_of(source):
    """The ragged size that offsets, or lengths, stand for: the same for the same tensor.

    Args:
        source: the tensor; equal ones of other memory are other sizes.
    """
    number = _numbers.get(source)
    if number is None:
        number = nested_int_of.made
        nested_int_of.made += 1
        _numbers[source] = number
    return NestedInt(number)


nested_int_of.made = 1  # PyTorch's first is that of a tensor of its own
