"""How elements are divided on a GPU: one for a thread, then every grid's width."""

from __future__ import annotations

from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Type, Var


def pointwise_loops(front, in_dtypes, out_dtypes, compute, static=()):
    """An elementwise kernel whose parallel axis is its elements.

    The integers are the element strides of outputs, then inputs: 1, or 0 for a value
    that is the same everywhere.
    """
    results, inputs = front.expressions(tuple(in_dtypes), compute, tuple(static))
    pointers = []
    for position, dtype in enumerate((*out_dtypes, *in_dtypes)):
        element = Type(dtype)
        pointer = Var(f"p{position}", ir.Pointer(element))
        pointers.append(ir.Let(pointer, ir.argument(position, element)))
    b = Builder()
    strides = [b.let(f"stride{n}", ir.integer(n)) for n in range(len(pointers))]
    with b.loop("i", ir.BEGIN, ir.END) as i:
        count = len(out_dtypes)
        for n, var in enumerate(inputs):
            place = ir.load(pointers[count + n].var, i * strides[count + n])
            b.add(ir.Let(var, ir.cast(var.type, place)))
        for n, value in enumerate(results):
            pointer = pointers[n].var
            b.store(pointer, i * strides[n], ir.cast(pointer.type.element, value))
    name = front.kernel_name(
        tuple(in_dtypes), tuple(out_dtypes), compute, tuple(static)
    )
    body = (*(let for let in pointers), *b.statements)
    return ir.Function(name, ir.KERNEL_PARAMETERS, body, distinct=True)
