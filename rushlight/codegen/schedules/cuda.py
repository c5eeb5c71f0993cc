"""How kernels are laid out on a GPU: an element for a thread, a row for a warp."""

from __future__ import annotations

from rushlight.codegen import expr as ir
from rushlight.codegen.builder import Builder
from rushlight.codegen.expr import Type, Var, i64

COMPUTED = {"float16": "float32", "bfloat16": "float32"}
THREADS = 256


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


def reduction_parts(name, in_dtype, out_dtype, op, identity, before=None, after=None):
    """The three functions from which `emit.ptx.emit_warps` makes a row reduction.

    Args:
        op: the operation that combines, as in `ir.Binary`.
        identity: what it starts from.
        before: maps each element; ``after`` maps the result and the row's length.
    """
    element, result = Type(in_dtype), Type(out_dtype)
    kind = Type(COMPUTED.get(in_dtype, in_dtype))
    x = Var("x", ir.Pointer(element))
    start, stop, step = (Var(word, i64) for word in ("start", "stop", "step"))
    b = Builder()
    total = b.declare("total", ir.Const(kind, identity))
    value = ir.cast(kind, ir.load(x, Var("k", i64)))
    mapped = before(value) if before else value
    body = (
        *b.statements,
        ir.For(
            Var("k", i64),
            start,
            stop,
            (ir.Assign(total, ir.Binary(op, total, mapped)),),
            step,
        ),
        ir.Return(total),
    )
    partial = ir.Function(f"{name}_partial", (x, start, stop, step), body, kind)
    left, right = Var("left", kind), Var("right", kind)
    joined = ir.Return(ir.Binary(op, left, right))
    combine = ir.Function(f"{name}_combine", (left, right), (joined,), kind)
    whole, length = Var("whole", kind), Var("length", i64)
    done = after(whole, ir.cast(kind, length)) if after else whole
    finish = ir.Function(
        f"{name}_finish", (whole, length), (ir.Return(ir.cast(result, done)),), result
    )
    return partial, combine, finish


def schedule(s):
    """Gives every whole stage of a schedule a parallel outermost loop over elements."""
    for stage in s.stages:
        if stage.place or stage.inlined or not stage.axis:
            continue
        fused = stage.axis[0]
        stage.reorder(*stage.axis, *stage.reduce_axis)
        for axis in stage.axis[1:]:
            fused = stage.fuse(fused, axis)
        stage.parallel(fused)
    return s
