"""What the lanes of a warp make together, in functions of a device's grid."""

from rushlight.ir import expr as ir
from rushlight.ir.expr import Exchange, Pointer, Var


def shared_array(b, name, type, size):
    """An array of a block's."""
    var = Var(b.fresh(name), Pointer(type))
    b.add(ir.Array(var, size, shared=True))
    return var


def sums_before(b, lane, value):
    """The sum of the lanes before each one, and that of all; both may be assigned."""
    zero = ir.Const(value.type, 0)
    ahead, total = b.declare("ahead", zero), b.declare("sum", value)
    for distance in (1, 2, 4, 8, 16):
        other = b.let("other", Exchange(distance, total))
        upper = lane // distance % 2 == 1
        b.assign(ahead, ahead + ir.select(upper, other, zero))
        b.assign(total, total + other)
    return ahead, total


def sum_of_lanes(b, value):
    """The sum of all lanes' values."""
    for distance in (1, 2, 4, 8, 16):
        value = b.let("sum", value + Exchange(distance, value))
    return value
