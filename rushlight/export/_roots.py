"""Which argument a program's named size is read from, alone or in ``2*n + 1``."""

from rushlight.core.tensor import Tensor
from rushlight.ir.formulas import line_of
from rushlight.ir.symbolic import SymInt


class Place:
    """A size of an argument, or an argument that is an integer.

    Args:
        at: the argument's number, from 0.
        dim: the dimension; None for an integer.
        name: how the caller writes the argument.
    """

    def __init__(self, at, dim, name=""):
        self.at, self.dim = at, dim
        self.text = name if dim is None else f"{name}.size()[{dim}]"

    def of(self, args):
        """What it is in a call; None where the call has something else there."""
        given = args[self.at]
        if self.dim is None:
            return given if type(given) is int else None
        return given.shape[self.dim] if isinstance(given, Tensor) else None

    def same(self, other):
        """Whether the other is this size of this argument."""
        return (self.at, self.dim) == (other.at, other.dim)


class Root:
    """A named size ``n``, as the place whose size is ``factor * n + rest`` tells it.

    Args:
        place: that size.
        factor: what ``n`` is multiplied by.
        rest: what is added.
    """

    def __init__(self, place, factor, rest):
        self.place, self.factor, self.rest = place, factor, rest

    def size(self, number):
        """The place's size where ``n`` is a number."""
        return self.factor * number + self.rest

    def solved(self, args):
        """``n`` in a call; None where the call has something else there."""
        found = self.place.of(args)
        return None if found is None else (found - self.rest) // self.factor

    def text(self):
        """``n`` in terms of the place's size."""
        known = self.place.text
        if self.rest:
            known = f"({known}{_signed(-self.rest)})"
        return known if self.factor == 1 else f"({known} // {self.factor})"

    def divides(self):
        """The condition that there is an ``n``: its text, and a function of the call."""
        left = (
            f"({self.place.text}{_signed(-self.rest)})"
            if self.rest
            else (self.place.text)
        )

        def holds(args):
            return (self.place.of(args) - self.rest) % self.factor == 0

        return f"{left} % {self.factor} == 0", holds

    def equal(self, place, size):
        """The condition that another place has the size that follows from ``n``."""
        factor, rest = _line(size)

        def holds(args):
            return place.of(args) == factor * self.solved(args) + rest

        return f"{place.text} == {self._in_terms_of_place(factor, rest)}", holds

    def _in_terms_of_place(self, factor, rest):
        """``factor * n + rest`` in terms of the place's size."""
        if self.factor == 1:
            rest -= factor * self.rest
            known = self.place.text
        else:
            known = f"(({self.place.text}{_signed(-self.rest)}) // {self.factor})"
        return (f"{factor} * {known}" if factor != 1 else known) + _signed(rest)


def _signed(number):
    return f" {'+' if number > 0 else '-'} {abs(number)}" if number else ""


def _line(size):
    """The factor and the rest of a size ``factor * n + rest``."""
    return line_of(size.expr)[1:]


def root_name(size):
    """The name that a size is on a line of; None where it is not one alone."""
    line = line_of(size.expr) if isinstance(size, SymInt) else None
    return None if line is None else line[0].name


def roots_of(values, names=None):
    """Where each named size is read: from a size that it is, or else one it is in.

    Args:
        values: what the recording knows of the arguments, in order.
        names: how the caller writes them.
    """
    found: dict[str, Root] = {}
    for at, value in enumerate(values):
        sizes = [(None, value)]
        if isinstance(value, Tensor):
            sizes = list(enumerate(value.shape))
        for dim, size in sizes:
            name = root_name(size)
            if name is None:
                continue
            factor, rest = _line(size)
            plain = factor == 1 and rest == 0
            known = found.get(name)
            if known is None or (plain and (known.factor, known.rest) != (1, 0)):
                place = Place(at, dim, names[at] if names else "")
                found[name] = Root(place, factor, rest)
    return found
