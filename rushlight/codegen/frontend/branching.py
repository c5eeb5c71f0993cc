"""Elementwise kernels with branches and loops: one element at a time.

    @branching
    def digits(x):
        count = T(0)
        while x >= T(1):
            x = x / T(10)
            count = count + T(1)
        return count

The function is read from its source, as loop kernels are (see `loops`); ``T`` is the type
that is computed in. It takes the place of a `pointwise` kernel where how long an element
takes depends on its value, and returns at its end.
"""

from __future__ import annotations

import inspect

from rushlight.codegen.frontend.pointwise import BlockedLoops, Pointwise
from rushlight.codegen.frontend.storage import computed
from rushlight.codegen.loops import Inline, type_table
from rushlight.ir import expr as ir
from rushlight.ir.expr import Type


def branching(function) -> Branching:
    """Makes a function of scalars with loops and branches an elementwise kernel."""
    return Branching(function)


class Branching(Pointwise):
    """An elementwise kernel that is read, not traced; see `Pointwise.specialize`."""

    def __init__(self, function):
        super().__init__(function)
        self.source = Inline(function)

    def trace(self, in_dtypes, out_dtypes, compute, static=()):
        """The source text, and the loops around what it says.

        Raises:
            TypeError: the values are complex, or of several types.
        """
        named = self.kernel_name(in_dtypes, out_dtypes, compute, static)
        if not isinstance(compute, str):  # one type for each input
            if len(set(compute)) != 1:
                raise TypeError(f"{self.name} is a function of values of one type")
            compute = compute[0]
        if compute.startswith("complex"):
            raise TypeError(f"{self.name} is not a function of complex values")
        plan = BlockedLoops(in_dtypes, out_dtypes)
        name = computed(compute).name

        def body(b, flags, i, operands_in, operands_out):
            like = ir.Var("x", Type(name))
            values = [
                b.let(f"x{k}", operand.load(i, like))
                for k, operand in enumerate(operands_in)
            ]
            result = self.read(b, name, values, plan)
            for operand in operands_out:
                for store in operand.store(i, result):
                    b.add(store)

        function = ir.kernel(named, plan.loops(body, []))
        return inspect.getsource(self.function), function

    def read(self, b, name, values, plan):
        """The function's statements, added to a block; its result."""
        from rushlight.codegen.frontend.loops_reader import Reader

        reader = Reader(self.source, type_table({"T": name}))
        reader.used |= b.names | plan.names
        reader.block_out = b.block
        reader.scopes = [{}]
        return reader.inline(None, self.source, values)
