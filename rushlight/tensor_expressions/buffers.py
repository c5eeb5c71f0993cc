"""The buffers that index expressions lead into."""

from dataclasses import dataclass, field

from rushlight.ir import expr as ir
from rushlight.ir.linear import linear


def exceeds(size, other):
    """Whether a size is not known to be at most another: both are numbers, or one."""
    if isinstance(size, int) and isinstance(other, int):
        return size > other
    return size is not other


def at_least_one(size):
    """A size to divide by, or of an array; an open one has no turns where it is none."""
    return max(1, size) if isinstance(size, int) else size


@dataclass
class Buffer:
    """Where a tensor lives while it is read: a pointer, sizes, and its first index.

    ``aligned`` has, of dimensions, pairs of factor and offset: how many elements apart
    neighbours lie leaves that offset when it is divided by the factor. ``given`` has how
    far apart they lie, where that does not follow from the sizes.
    """

    pointer: ir.Var
    shape: tuple
    origin: tuple
    aligned: dict = field(default_factory=dict)
    given: tuple | None = None

    @property
    def strides(self):
        """How many elements there are, and how many apart neighbours lie."""
        if self.given is not None:
            return (0, *self.given)
        found = [1]
        for d in reversed(range(len(self.shape))):
            if d in self.aligned:
                factor, offset = self.aligned[d]
                found[-1] += (offset - found[-1]) % factor
            found.append(found[-1] * at_least_one(self.shape[d]))
        return found[::-1]

    @property
    def size(self):
        """How many elements there is room for."""
        return self.strides[0]

    def index(self, indices):
        """The flat index of an element."""
        flat = ir.Const(ir.i64, 0)
        for at, stride, first in zip(indices, self.strides[1:], self.origin):
            flat = flat + (at - first) * stride
        form = linear(flat)
        return flat if form is None else form.expression()


@dataclass(frozen=True)
class View:
    """A block of a buffer, as an intrinsic sees it.

    It is ``of_units`` where runs of eight along a dimension begin at multiples of eight in
    a block's shared memory, so that units of a device can read them.
    """

    pointer: ir.Var
    base: ir.Expr
    strides: tuple
    of_units: bool = False

    def index(self, indices):
        """The flat index of an element of the block."""
        result = self.base
        for at, stride in zip(indices, self.strides):
            result = result + ir.as_expr(at, ir.i64) * stride
        return result

    def load(self, *indices, lanes=1):
        """The element at an index of the block, or ``lanes`` of them from there."""
        return ir.load(self.pointer, self.index(indices), lanes)

    def store(self, value, *indices):
        """The statement that writes a value or vector at an index of the block."""
        return ir.Store(self.pointer, self.index(indices), value)
