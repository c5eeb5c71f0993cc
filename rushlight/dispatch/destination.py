"""Outputs that a function's own elementwise call writes: no result is made and copied.

``clamp_`` runs the function of ``clamp``, which ends in a call of ``clamp_min``. While it
runs, the tensor that is written is offered to that call as the memory of its result.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.keys import (
    BELOW_AUTOGRAD,
    KEY_ADINPLACEORVIEW,
    KEY_CPU,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import Operator
from cython.cimports.rushlight.dispatch.writing import DIRECT_IF_LARGE

destination = cython.NULL
_offering = cython.declare(cython.pointer(ThreadState), cython.NULL)  # by this thread
_count_write = cython.declare(object, None)
_CPU = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_CPU)
LARGE = cython.declare(int64_t, 1 << 17)  # bytes


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def large(t: Tensor) -> cython.bint:
    """Whether two copies of a tensor would take longer than a call without a plan."""
    return t.row_major and t.numel_ * t.dtype_.itemsize >= LARGE


@cython.cfunc
@cython.exceptval(check=False)
def wants_graph(op: Operator, slots: pp_object) -> cython.bint:
    """Whether gradients will flow through a call."""
    i: cython.int
    if not state().grad_mode:
        return False
    for i in range(op.n_args):
        value = cython.cast(object, slots[i])
        if isinstance(value, Tensor) and cython.cast(Tensor, value).wants_grad:
            return True
    return False


@cython.cfunc
@cython.exceptval(check=False)
def may_write(
    op: Operator, slots: pp_object, keys: uint64_t, target: object
) -> cython.bint:
    """Whether an operator's function may write what is given for its result.

    All that could be refused later is asked here: nothing records or replaces the calls
    that the function makes, and the output is a dense window that nobody differentiates.
    """
    i: cython.int
    st: cython.pointer(ThreadState) = state()
    plain: uint64_t = _CPU | cython.cast(uint64_t, BELOW_AUTOGRAD)
    if (keys and keys != _CPU) or st.included or not isinstance(target, Tensor):
        return False
    out: Tensor = target
    if not out.row_major or out.numel_ == 0 or out.inference or not out.keys & _CPU:
        return False
    if op.out_overlap & DIRECT_IF_LARGE and not large(out):
        return False
    for i in range(op.n_tensors):
        item = cython.cast(object, slots[op.tensor_args[i]])
        if isinstance(item, Tensor) and cython.cast(Tensor, item).keys & ~plain:
            return False
    return not wants_graph(op, slots)


@cython.cfunc
def run_direct(
    op: Operator, slots: pp_object, keys: uint64_t, target: Tensor
) -> object:
    """Runs a function whose last elementwise call may write the output."""
    global destination, _offering
    st: cython.pointer(ThreadState) = state()
    destination = cython.cast(p_object, target)
    _offering = st
    try:
        if keys:
            return op.functional.run(slots, keys)
        result = op.functional.call(slots)
        if (
            result is target
            and ((target.keys & ~st.excluded) >> KEY_ADINPLACEORVIEW) & 1
        ):
            _count_write(target)  # a composition's form has no key that does
        return result
    finally:
        withdraw_destination()


@cython.cfunc
def take_destination(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    code: cython.int,
    operands: pp_object,
    count: cython.int,
) -> Tensor:
    """The output that this thread offers, if a result of the host's fits it.

    It is offered to one call: what else the function computes has memory of its own.

    Args:
        sizes: the result's.
        code: of its type.
        operands: tensors and numbers that it is computed from.
    """
    i: cython.int
    if destination == cython.NULL or _offering != state():
        return None
    out: Tensor = cython.cast(Tensor, cython.cast(object, destination))
    withdraw_destination()
    if out.dtype_.code != code or out.ndim_ != ndim:
        return None
    for i in range(ndim):
        if out.sizes[i] != sizes[i]:
            return None
    for i in range(count):
        item = cython.cast(object, operands[i])
        if isinstance(item, Tensor) and not disjoint_or_same(out, item):
            return None
    return out


@cython.cfunc
@cython.exceptval(check=False)
def disjoint_or_same(out: Tensor, item: Tensor) -> cython.bint:
    """Whether no element of an operand is written before it is read."""
    d: cython.int
    if out.storage is not item.storage:
        return True
    if out.pointer() != item.pointer() or out.dtype_ is not item.dtype_:
        return False
    if not item.row_major or out.ndim_ != item.ndim_:
        return False
    for d in range(out.ndim_):
        if out.sizes[d] != item.sizes[d]:
            return False
    return True


@cython.ccall
def withdraw_destination():
    """Has a function's next elementwise call make memory of its own: it is not the last."""
    global destination, _offering
    if _offering == state():
        destination = cython.NULL
        _offering = cython.NULL


def set_write_counter(function):
    """Name the function that bumps the version counters of what was written."""
    global _count_write
    _count_write = function
