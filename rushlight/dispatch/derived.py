"""In-place and ``out=`` forms of operators that only compute fresh results."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.dtype import FLOATING
from cython.cimports.rushlight.core.keys import KEY_CPU
from cython.cimports.rushlight.core.overlap import (
    refuse_internal_overlap,
    repeats_elements,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.destination import (
    large,
    may_write,
    run_direct,
    wants_graph,
)
from cython.cimports.rushlight.dispatch.dispatcher import INPLACE, OUT, Kernel, Operator
from cython.cimports.rushlight.dispatch.outputs import (
    ANY,
    CAST,
    EXACT,
    KERNEL,
    check_output_type,
    fit_like,
    plain_name,
    refuse_gradient,
    refuse_output,
    refuse_reading,
    refuse_shared,
    warn_of_expanded,
    write_to_overlapping,
)
from cython.cimports.rushlight.dispatch.writing import (
    DIRECT,
    INTERNAL_OVERLAP,
    INTERNAL_WARNS,
    NO_PARTIAL_OUT,
    NO_SHARING,
    NO_WRITTEN,
    WRITES_LARGE,
)

from rushlight.core.sparse import layout_of, parts_of, put
from rushlight.core.views import resize_ as resize_in_place
from rushlight.core.warning import warn
from rushlight.dispatch.declared import BATCHING, OUTPUT
from rushlight.dispatch.outputs import refuse_count

_COPY = cython.declare(Operator, None)
_NON_BLOCKING = cython.declare(object, False)
_CPU = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_CPU)


@cython.final
@cython.cclass
class DerivedKernel(Kernel):
    """In-place and ``out=`` forms of operators that only compute fresh results."""

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        source: Operator = op.functional
        written: Tensor = None
        if op.form == INPLACE:
            written = cython.cast(Tensor, cython.cast(object, slots[0]))
            if op.out_overlap & (NO_PARTIAL_OUT | NO_WRITTEN):
                least: cython.int = 2 if op.out_overlap & NO_WRITTEN else 1
                refuse_shared(slots, 1, op.n_args, written, least)
            if op.entry and "any" in op.entry[OUTPUT]:
                keep_type(op, slots, written)
        if not keys and op.form == INPLACE and wants_graph(op, slots):
            # What the composite's parts save must not be what is overwritten.
            copy = written.clone()
            slots[0] = cython.cast(p_object, copy)
            try:
                result = source.call(slots)
            finally:
                slots[0] = cython.cast(p_object, written)
            refuse_type(op, slots, written, result)
            return overwrite(written, result, op)
        target: object = None
        if op.form == OUT:
            target = cython.cast(object, slots[op.n_args - 1])
            take_type(op, slots, target)
            if op.out_overlap & NO_SHARING and not op.out_late:
                refuse_reading(slots, op.n_args - 1, target, op.out_overlap)
        into = target if op.form == OUT else written
        if op.out_overlap & DIRECT and may_write(op, slots, keys, into):
            result = run_direct(op, slots, keys, into)
            if result is into:
                return into
        else:
            result = run_functional(op, slots, keys, into)
        if op.form == INPLACE:
            if result is written:
                return written
            refuse_type(op, slots, written, result)
            return overwrite(written, result, op)
        if isinstance(result, (tuple, list)):
            refuse_count(op.base_name(), len(result), target)
            filled = [fill_out(t, r, op, slots) for t, r in zip(target, result)]
            return tuple(filled) if len(op.returns) > 1 else None
        if op.entry and op.entry[BATCHING] == "elementwise":
            refuse_growing(op, slots, target, result)
        return fill_out(target, result, op, slots)


@cython.cfunc
def run_functional(
    op: Operator, slots: pp_object, keys: uint64_t, into: object
) -> object:
    """The result, to be moved to where the caller wants it."""
    source: Operator = op.functional
    if (
        op.out_overlap & WRITES_LARGE
        and op.form == INPLACE
        and keys == _CPU
        and large(into)
    ):
        return run_in_place(source, slots, keys, into)
    if keys:
        return source.run(slots, keys)
    # At the composite level the functional form dispatches anew.
    if op.form == OUT and op.out_detached and wants_graph(op, slots):
        return call_into_copy(source, slots, op.n_args - 1, into)
    return source.call(slots)


@cython.cfunc
def run_in_place(
    source: Operator, slots: pp_object, keys: uint64_t, written: Tensor
) -> object:
    """Runs a function that may take the tensor for the copy that its result begins as."""
    st: cython.pointer(ThreadState) = state()
    st.written = cython.cast(cython.p_void, written)
    try:
        return source.run(slots, keys)
    finally:
        st.written = cython.NULL


@cython.cfunc
def call_into_copy(
    source: Operator, slots: pp_object, n_args: cython.int, target: object
) -> object:
    """Calls with copies of operands in the memory that will be written.

    What a graph saves of them must not be what is overwritten.
    """
    i: cython.int
    given: p_object[24]
    copies: list = []
    for i in range(n_args):
        given[i] = slots[i]
        value = cython.cast(object, slots[i])
        if (
            isinstance(target, Tensor)
            and isinstance(value, Tensor)
            and cython.cast(Tensor, value).storage
            is cython.cast(Tensor, target).storage
        ):
            copy = value.clone()
            copies.append(copy)
            slots[i] = cython.cast(p_object, copy)
    try:
        return source.call(slots)
    finally:
        for i in range(n_args):
            slots[i] = given[i]


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_growing(
    op: Operator, slots: pp_object, target: object, result: Tensor
) -> cython.int:
    """Refuse an output that is an operand, and that the result does not fit."""
    i: cython.int
    for i in range(op.n_args - 1):
        if cython.cast(object, slots[i]) is target and isinstance(target, Tensor):
            if result.shape != target.shape:
                refuse_output(op.base_name(), target, result)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def keep_type(op: Operator, slots: pp_object, target: Tensor) -> cython.int:
    """What is changed in place is of the type to compute in, if no other is named."""
    at: cython.int = op.signature.find("dtype")
    if at >= 0 and cython.cast(object, slots[at]) is None:
        slots[at] = cython.cast(p_object, target.dtype_)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def take_type(op: Operator, slots: pp_object, target: object) -> cython.int:
    """An output's type stands in for the ``dtype=`` that a reduction was not given."""
    if op.out_rule == EXACT or not isinstance(target, Tensor):
        return 0
    at: cython.int = op.signature.find("dtype")
    if at < 0:
        return 0
    t: Tensor = target
    given = cython.cast(object, slots[at])
    if given is None:
        if op.out_rule == ANY or stands_for(op, t, cython.cast(object, slots[0])):
            slots[at] = cython.cast(p_object, t.dtype_)
    elif given is not t.dtype_:
        check_output_type(EXACT, given, t, op.base_name())
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def stands_for(op: Operator, target: Tensor, source: object) -> cython.bint:
    """Whether an output's type is what a reduction of ``source`` computes in.

    Means of whole numbers have no type by themselves; sums without NaN are plain ones.
    """
    own: cython.int = FLOATING
    if isinstance(source, Tensor):
        own = cython.cast(Tensor, source).dtype_.category
    if own < FLOATING:
        return op.out_rule == KERNEL
    if op.signature.find("dim") >= 0:
        own = FLOATING
    return own <= target.dtype_.category


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_type(
    op: Operator, slots: pp_object, target: Tensor, result: Tensor
) -> cython.int:
    """Refuses a ``dtype=`` that is not the type of what is changed in place."""
    if result.dtype_ is target.dtype_:
        return 0
    at: cython.int = op.signature.find("dtype")
    if at >= 0 and cython.cast(object, slots[at]) is not None:
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {plain_name(target.dtype_)} and "
            f"output tensor dtype {plain_name(result.dtype_)} should match"
        )
    return 0


@cython.cfunc
def overwrite(target: Tensor, result: Tensor, op: Operator) -> object:
    if result.shape != target.shape and op.entry and "grows" in op.entry[OUTPUT]:
        resize_in_place(target, result.shape)  # it may be part of a graph
    if result.shape != target.shape:
        refuse_output(op.name, target, result)
    check_output_type(CAST, result.dtype_, target, op.base_name())
    if op.out_overlap & INTERNAL_OVERLAP and repeats_elements(target):
        if op.out_overlap & INTERNAL_WARNS:
            warn_of_expanded(op.base_name())
        return write_to_overlapping(target, result, True)
    refuse_internal_overlap(target)
    return copy_into(target, result)


@cython.cfunc
def fill_out(target: object, result: Tensor, op: Operator, slots: pp_object) -> object:
    """Move a fresh result to where the caller wants it."""
    written: Tensor
    if not isinstance(target, Tensor):
        refuse_output(op.base_name(), target, result)
    written = target
    if result.dtype_.category >= FLOATING and state().grad_mode:
        if (written.wants_grad and not op.out_leaf) or (
            result.wants_grad and not op.out_detached
        ):
            refuse_gradient(op.base_name())
    check_output_type(op.out_rule, result.dtype_, written, op.base_name())
    if (
        op.out_overlap & INTERNAL_OVERLAP
        and repeats_elements(written)
        and result.shape == written.shape
    ):
        return write_to_overlapping(written, result.detach(), False)
    if (
        op.out_overlap & NO_SHARING and op.out_once
    ):  # looked at before it may be resized
        refuse_internal_overlap(written)
    if op.out_counted and result.numel_ == written.numel_:
        result = result.reshape(written.shape)
    quiet: cython.bint = op.out_quiet
    if op.out_counted and not quiet and written.numel_:
        quiet = True
        if result.numel_ != written.numel_:
            warn(
                f"The number of elements in the out tensor of shape {list(written.shape)} "
                f"is {written.numel_} which does not match the computed number of "
                f"elements {result.numel_}. Note that this may occur as a result of "
                "rounding error. The out tensor will be resized to a tensor of shape "
                f"{tuple(result.shape)}."
            )
    layout = layout_of(written, None)
    if layout is not None and layout is layout_of(result, None):
        if result.shape != written.shape:  # no memory to resize: it gets other parts
            put(written, list(result.shape), parts_of(result))
    else:
        fit_like(written, result, quiet, op.out_plain)
    refuse_internal_overlap(written)
    if op.out_late:
        refuse_reading(slots, op.n_args - 1, written, op.out_overlap)
    if result.wants_grad and not op.out_detached:
        result = result.detach()
    return copy_into(written, result)


@cython.cfunc
def copy_into(target: Tensor, source: object) -> object:
    """``target.copy_(source)``, whatever backend they are on."""
    slots: p_object[4]
    slots[0] = cython.cast(p_object, target)
    slots[1] = cython.cast(p_object, source)
    # a bare False would be a C integer, and the pointer NULL
    slots[2] = cython.cast(p_object, _NON_BLOCKING)
    _COPY.call(slots)
    return target


def set_copy_operator(op: Operator):
    """Name the operator that moves values between tensors."""
    global _COPY
    _COPY = op
