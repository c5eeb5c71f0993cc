"""One N-d loop plan for elementwise kernels: broadcast, order, merge dimensions."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.geometry import (
    is_channels_last,
    is_dense,
    row_major,
)


@cython.cfunc
@cython.exceptval(-1, check=False)
def broadcast_operands(
    operands: cython.pointer(Operand), count: cython.int, sizes: cython.pointer(int64_t)
) -> cython.int:
    """Writes the sizes that all operands expand to; returns their number."""
    ndim: cython.int = 0
    i: cython.int
    d: cython.int
    shift: cython.int
    size: int64_t
    for i in range(count):
        if operands[i].ndim > ndim:
            ndim = operands[i].ndim
    for d in range(ndim):
        sizes[d] = 1
    for i in range(count):
        shift = ndim - operands[i].ndim
        for d in range(operands[i].ndim - 1, -1, -1):  # the last that differs is told
            size = operands[i].sizes[d]
            if size == 1 or size == sizes[shift + d]:
                continue
            if sizes[shift + d] != 1:
                raise RuntimeError(
                    f"The size of tensor a ({sizes[shift + d]}) must match the size of "
                    f"tensor b ({size}) at non-singleton dimension {shift + d}"
                )
            sizes[shift + d] = size
    return ndim


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stride_at(
    operand: cython.pointer(Operand), ndim: cython.int, dim: cython.int, size: int64_t
) -> int64_t:
    """The operand's stride at a dimension of the broadcast result; 0 where it repeats."""
    own: cython.int = dim - (ndim - operand.ndim)
    if own < 0 or operand.sizes[own] != size:
        return 0
    return operand.strides[own]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def compare_dims(
    operands: cython.pointer(Operand),
    count: cython.int,
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    a: cython.int,
    b: cython.int,
) -> cython.int:
    """-1 where ``a`` should be the inner of two dimensions, 1 for ``b``, 0 undecided."""
    i: cython.int
    sa: int64_t
    sb: int64_t
    for i in range(count):
        if operands[i].ndim == 0:
            continue
        sa = stride_at(cython.address(operands[i]), ndim, a, sizes[a])
        sb = stride_at(cython.address(operands[i]), ndim, b, sizes[b])
        if sa == 0 or sb == 0:
            continue
        if sa < sb:
            return -1
        if sa > sb:
            return 1
        if sizes[a] > sizes[b]:
            return 1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def order_dims(
    operands: cython.pointer(Operand),
    count: cython.int,
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    order: cython.pointer(cython.int),
) -> cython.void:
    """Insertion sort of dimensions, innermost first; stable where undecided."""
    i: cython.int
    j: cython.int
    at: cython.int
    verdict: cython.int
    kept: cython.int
    for i in range(ndim):
        order[i] = ndim - 1 - i
    for i in range(1, ndim):
        at = i
        j = i - 1
        while j >= 0:
            verdict = compare_dims(operands, count, ndim, sizes, order[j], order[at])
            if verdict > 0:
                kept = order[at]
                order[at] = order[j]
                order[j] = kept
                at = j
            elif verdict < 0:
                break
            j -= 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def same_geometry(
    inputs: cython.pointer(Operand),
    count: cython.int,
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
) -> cython.int:
    """0: operands differ; 1: dense with equal strides; 2: channels-last; 3: row-major."""
    i: cython.int
    d: cython.int
    equal: cython.bint = True
    last: cython.bint = ndim == 4  # volumes are sorted as others are
    rows: cython.bint = True
    step: int64_t
    for i in range(count):
        if inputs[i].ndim != ndim:
            return 0
        for d in range(ndim):
            if inputs[i].sizes[d] != sizes[d]:
                return 0
            if inputs[i].strides[d] != inputs[0].strides[d]:
                equal = False
        step = 1
        for d in range(ndim - 1, -1, -1):
            if sizes[d] != 1:
                rows = rows and inputs[i].strides[d] == step
                step *= sizes[d]
        if last and not is_channels_last(ndim, sizes, inputs[i].strides):
            last = False
    if rows:
        return 3
    if last:
        return 2
    if equal and is_dense(ndim, sizes, inputs[0].strides):
        return 1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def output_strides(
    inputs: cython.pointer(Operand),
    count: cython.int,
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(int64_t),
) -> cython.bint:
    order: cython.int[64]
    step: int64_t = 1
    i: cython.int
    plain: cython.bint = True
    kind: cython.int
    if ndim < 2:
        row_major(ndim, sizes, strides)
        return True
    kind = same_geometry(inputs, count, ndim, sizes)
    if kind == 3:
        row_major(ndim, sizes, strides)
        return True
    if kind == 1:
        for i in range(ndim):
            strides[i] = inputs[0].strides[i]
        return False
    if kind == 2:
        for i in range(ndim):
            order[i] = ndim - 1 - i
        order[0] = 1
        for i in range(1, ndim - 1):
            order[i] = ndim - i
        order[ndim - 1] = 0
    else:
        order_dims(inputs, count, ndim, sizes, order)
    for i in range(ndim):
        strides[order[i]] = step
        step *= sizes[order[i]]
        if order[i] != ndim - 1 - i:
            plain = False
    return plain


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def make_plan(
    plan: cython.pointer(LoopPlan),
    operands: cython.pointer(Operand),
    count: cython.int,
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
) -> cython.void:
    order: cython.int[64]
    i: cython.int
    k: cython.int
    top: cython.int = -1
    joins: cython.bint
    step: int64_t[12]
    order_dims(operands, count, ndim, sizes, order)
    plan.n_operands = count
    for i in range(ndim):
        if sizes[order[i]] == 1:
            continue
        joins = top >= 0
        for k in range(count):
            step[k] = operands[k].itemsize * stride_at(
                cython.address(operands[k]), ndim, order[i], sizes[order[i]]
            )
            if joins and plan.strides[k][top] * plan.sizes[top] != step[k]:
                joins = False
        if joins:
            plan.sizes[top] *= sizes[order[i]]
            continue
        top += 1
        plan.sizes[top] = sizes[order[i]]
        for k in range(count):
            plan.strides[k][top] = step[k]
    if top < 0:
        top = 0
        plan.sizes[0] = 1
        for k in range(count):
            plan.strides[k][0] = operands[k].itemsize
    plan.ndim = top + 1
