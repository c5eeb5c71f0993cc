"""What a kernel refuses once it sees the values: found while it runs, told at its end.

In an expression, ``Refused("refuse_zero_division", value, condition)`` is the value.
A kernel keeps one flag for each such name, joins every condition to it, and returns the
flags as the bits of `expr.FAULTS`: the launcher raises.
"""

from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, Refused
from rushlight.ir.rewrite import map_expr


def refuse_zero(value, divisor):
    """An integer quotient or remainder that is refused where the divisor is zero."""
    if isinstance(divisor, Const) and divisor.value:
        return value
    return Refused("refuse_zero_division", value, divisor == 0)


def take_faults(values):
    """The values themselves, and pairs of name and condition of what they refuse.

    >>> x = ir.Var("x", ir.i64)
    >>> take_faults([refuse_zero(7 // x, x)])
    ([7 // x], [('refuse_zero_division', x == 0)])
    """
    found, memo = [], {}

    def take(e):
        if isinstance(e, Refused):
            value, condition = e.args
            found.append((e.name, condition))
            return value
        return e

    return [map_expr(value, take, memo) for value in values], found


class Flags:
    """The flags of one kernel."""

    def __init__(self, b, found):
        self.b, self.found = b, found
        self.vars = {
            name: b.declare(name, Const(ir.boolean, False))
            for name in dict.fromkeys(name for name, _ in found)
        }

    def join(self, conditions):
        """Notes one step's conditions, in the order in which they were found."""
        for (name, _), condition in zip(self.found, conditions, strict=True):
            self.b.assign(self.vars[name], self.vars[name] | condition)

    def write_fault(self):
        """The kernel's last statement, where it may refuse anything."""
        code = Const(ir.i32, 0)
        for name, flag in self.vars.items():
            bit = Const(ir.i32, ir.FAULTS[name])
            code = code | ir.select(flag, bit, Const(ir.i32, 0))
        if self.vars:
            self.b.add(ir.Return(code))
