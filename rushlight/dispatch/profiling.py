"""The key `Profiling`: each call of an operator is a span, whoever made it.

The key lies above all others, so that a span holds all that the call did: casts, graph,
kernels, and the operators inside, which are spans of their own.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint64_t, uintptr_t
from cython.cimports.rushlight.core._python import pp_object
from cython.cimports.rushlight.core.keys import KEY_AUTOGRAD, KEY_PROFILING
from cython.cimports.rushlight.core.spans import (
    SPAN_OPERATOR,
    begin_span,
    end_span,
    recording_spans,
)
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import Kernel, Operator

from rushlight.core.spans import python_stack
from rushlight.dispatch.dispatcher import serve_all
from rushlight.dispatch.keys import DispatchKey

_PROFILING = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_PROFILING)
_shapes = cython.declare(cython.bint, False)
_stacks = cython.declare(cython.bint, False)
_results = cython.declare(cython.bint, False)


@cython.cfunc
def tensor_facts(t: Tensor) -> bytes:
    """Sizes, strides, type, and where the elements lie, as integers of eight bytes.

    Bytes, since an object that could refer to others would have the collector of garbage
    look through all that was recorded, again and again.
    """
    numbers: int64_t[132]
    d: cython.int
    n: cython.int = min(t.ndim_, 64)
    numbers[0] = t.dtype_.code
    numbers[1] = cython.cast(int64_t, cython.cast(uintptr_t, t.storage.data))
    numbers[2] = t.offset
    for d in range(n):
        numbers[3 + d] = t.sizes[d]
        numbers[3 + n + d] = t.strides[d]
    return PyBytes_FromStringAndSize(
        cython.cast(cython.p_char, numbers), (3 + 2 * n) * cython.sizeof(int64_t)
    )


@cython.cfunc
def argument_facts(item: object) -> object:
    """A tensor's facts, those of a list of them, or the value."""
    if isinstance(item, Tensor):
        return tensor_facts(item)
    if type(item) is list or type(item) is tuple:
        return tuple([argument_facts(one) for one in item])
    return item


@cython.final
@cython.cclass
class ProfilingKernel(Kernel):
    """Writes a span around whatever else the call's keys choose."""

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        i: cython.int
        info: object = None
        facts: object = None
        sequence: int64_t = -1
        if not recording_spans:  # the recording of all threads ended inside of a block
            state().included &= ~_PROFILING
            return op.run(slots, keys & ~_PROFILING)
        if (keys >> KEY_AUTOGRAD) & 1 or (
            op.composite is not None and wants(op, slots)
        ):
            sequence = state().sequence
        if _shapes or _stacks:
            if _shapes:
                facts = tuple(
                    [
                        argument_facts(cython.cast(object, slots[i]))
                        for i in range(op.n_args)
                    ]
                )
            info = (facts, python_stack() if _stacks else None)
            if _results:
                info = [facts, None, None]
        token: int64_t = begin_span(SPAN_OPERATOR, op, info, sequence)
        try:
            result = op.run(slots, keys & ~_PROFILING)
            if _results:
                found = result if isinstance(result, (list, tuple)) else (result,)
                info[2] = tuple([argument_facts(one) for one in found])
            return result
        finally:
            end_span(token)


@cython.cfunc
@cython.exceptval(check=False)
def wants(op: Operator, slots: pp_object) -> cython.bint:
    """Whether a gradient is recorded of a call that is made of others."""
    i: cython.int
    if not state().grad_mode:
        return False
    for i in range(op.n_tensors):
        item = cython.cast(object, slots[op.tensor_args[i]])
        if isinstance(item, Tensor) and cython.cast(Tensor, item).wants_grad:
            return True
    return False


def configure(
    shapes: cython.bint = False,
    stacks: cython.bint = False,
    results: cython.bint = False,
) -> None:
    """Says what the spans of recorded threads know of calls.

    Args:
        shapes: whether spans know their arguments.
        stacks: whether they know the Python lines that led to them.
        results: whether they know their results, and where tensors lie.
    """
    global _shapes, _stacks, _results
    _results = results
    _shapes = shapes
    _stacks = stacks


# Before there are operators: none has to be told of the key when a profiler starts, and
# what was planned or compiled stays.
serve_all(DispatchKey.Profiling, ProfilingKernel())
