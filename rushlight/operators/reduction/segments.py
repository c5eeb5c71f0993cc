"""Reductions of stretches along a dimension, which lengths or offsets tell apart."""

import math

from rushlight.codegen.loops import A, T, loops, stored
from rushlight.core.dtypes import float64, int32, int64
from rushlight.core.geometry import around
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.layout import contiguous_format
from rushlight.core.tensor import Tensor
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor as make_tensor
from rushlight.operators.loop_calls import (
    expect,
    fault_flag,
    fresh,
    name_of,
    refuse_fault,
    require,
    run,
    run_nest,
)
from rushlight.operators.shared import readable, refuse_gradient
from rushlight.operators.type_groups import FLOATS

SUM, MEAN, LARGEST, SMALLEST, PRODUCT = range(5)
_KINDS = {
    "sum": SUM, "mean": MEAN, "max": LARGEST, "amax": LARGEST, "min": SMALLEST,
    "amin": SMALLEST, "prod": PRODUCT,
}  # fmt: skip
_STARTS = (0.0, 0.0, -math.inf, math.inf, 1.0)


@loops
def check_segments(
    bounds: "i64*", fault: "i64*", segments: int, size: int, whole: int, begin: int,
    end: int,
):  # fmt: skip
    """Reports stretches that fall, or have elements outside; rows not ``whole``, too."""
    for row in range(begin, end):
        first = row * (segments + 1)
        if whole and bounds[first + segments] != size:
            fault[0] = row
        for k in range(segments):
            low, high = bounds[first + k], bounds[first + k + 1]
            if high < low or (high > low and (low < 0 or high > size)):
                fault[0] = row


@loops
def reduce_segments(
    out: "T*",
    x: "T*",
    bounds: "i64*",
    start: "f64*",
    segments: int,
    size: int,
    inner: int,
    kind: int,
    given: int,
    begin: int,
    end: int,
):
    """Every column of a stretch, from its first element to its last."""
    for row in range(begin, end):
        outer = row // segments
        at = outer * (segments + 1) + row % segments
        low, high = bounds[at], bounds[at + 1]
        for column in range(inner):
            mass = A(start[0])
            for i in range(max(low, 0), min(high, size)):
                v = A(x[(outer * size + i) * inner + column])
                if kind <= 1:
                    mass = mass + v
                elif kind == 2:
                    mass = v if v > mass or v != v else mass
                elif kind == 3:
                    mass = v if v < mass or v != v else mass
                else:
                    mass = mass * v
            if kind == 1 and (high > low or given == 0):
                mass = mass / A(high - low)
            out[row * inner + column] = T(mass)


@loops
def spread_segments(
    out: "T*",
    grad: "T*",
    result: "T*",
    x: "T*",
    bounds: "i64*",
    start: "f64*",
    segments: int,
    size: int,
    inner: int,
    kind: int,
    begin: int,
    end: int,
):
    """What arrives at a stretch, shared among the elements that it came from."""
    for row in range(begin, end):
        outer = row // segments
        at = outer * (segments + 1) + row % segments
        low, high = max(bounds[at], 0), min(bounds[at + 1], size)
        for column in range(inner):
            g = A(grad[row * inner + column])
            r = A(result[row * inner + column])
            ties = 0
            for i in range(low, high):
                v = A(x[(outer * size + i) * inner + column])
                if v == r or v != v:
                    ties = ties + 1
            for i in range(low, high):
                place = (outer * size + i) * inner + column
                v = A(x[place])
                share = g
                if kind == 1:
                    share = g / A(high - low)
                elif kind == 2 or kind == 3:
                    share = g / A(ties) if v == r or v != v else A(0)
                elif kind == 4:
                    if v == A(0) or v != v:
                        rest = A(start[0])
                        for j in range(low, high):
                            if j != i:
                                rest = rest * A(x[(outer * size + j) * inner + column])
                        share = g * rest
                    else:
                        share = stored("T", g * r) / v
                out[place] = T(share)


def segment_reduce(data, reduce, lengths, indices, offsets, axis, unsafe, initial):
    """A value for each stretch; an empty one has the initial value, or none for means.

    Raises:
        RuntimeError: the stretches don't fit the data, or the reduction is unknown.
    """
    if unsafe or lengths is None:  # of the stretches only the kernel finds a fault
        require("_segment_reduce_cpu", data.dtype, FLOATS, data)
    kind, bounds, axis = _runs(data, reduce, lengths, indices, offsets, axis, unsafe)
    require("_segment_reduce_cpu", data.dtype, FLOATS, data)
    outer, size, inner = around(data.shape, axis)
    shape = list(data.shape)
    shape[axis] = bounds.shape[-1] - 1
    out = fresh(data, shape)
    segments = shape[axis]
    run_nest(
        reduce_segments,
        [out, data.contiguous(), bounds, _start(data, kind, initial)],
        [segments, size, inner, kind, int(initial is not None)],
        out.numel(),
        outer * segments,
        max(size // max(segments, 1), 1),
        T=name_of(data.dtype),
    )
    return out


def segment_reduce_again(
    data, reduce, lengths, indices, offsets, axis, unsafe, initial
):
    """`segment_reduce` under its private name."""
    return ops.segment_reduce(
        data, reduce, lengths=lengths, indices=indices, offsets=offsets, axis=axis,
        unsafe=unsafe, initial=initial,
    )  # fmt: skip


def segment_reduce_backward(
    grad, output, data, reduce, lengths, offsets, axis, initial
):
    """Elements of no stretch get nothing.

    Raises:
        RuntimeError: the operands don't fit the data, or the reduction is unknown.
    """
    kind, bounds, axis = _runs(data, reduce, lengths, None, offsets, axis, True)
    outer, size, inner = around(data.shape, axis)
    segments = bounds.shape[-1] - 1
    made = [*data.shape[:axis], segments, *data.shape[axis + 1 :]]
    expect(
        "_segment_reduce_backward", grad=(grad, made, data.dtype),
        output=(output, made, data.dtype),
    )  # fmt: skip
    out = ops.zeros_like(data, memory_format=contiguous_format)
    tensors = [tensor.contiguous() for tensor in (grad, output, data)]
    run_nest(
        spread_segments,
        [out, *tensors, bounds, _start(data, kind, initial)],
        [segments, size, inner, kind],
        grad.numel(),
        outer * segments,
        max(size // max(segments, 1), 1),
        T=name_of(data.dtype),
    )
    return out


def _start(data, kind, initial):
    if isinstance(initial, complex):
        if initial.imag:
            raise RuntimeError(
                "value cannot be converted to type float without overflow"
            )
        initial = initial.real
    start = _STARTS[kind] if initial is None else float(initial)
    return make_tensor([start], dtype=float64, device=data.device)


def _runs(data, reduce, lengths, indices, offsets, axis, unsafe):
    """The reduction's number, where stretches begin and end, the dimension."""
    axis = wrap_dim(axis, data.ndim)
    if reduce not in _KINDS:
        raise RuntimeError(
            "reduce argument must be either sum, prod, mean, amax or amin, got "
            f"{reduce}"
        )
    refuse_gradient("segment_reduce", indices=indices)
    if indices is not None:
        raise RuntimeError(
            "segment_reduce(): indices based reduction is not supported yet."
        )
    if offsets is None and lengths is None:
        raise RuntimeError(
            "segment_reduce(): Either lengths or offsets must be defined."
        )
    refuse_gradient("segment_reduce", lengths=lengths, offsets=offsets)
    name = "lengths" if offsets is None else "offsets"
    given = lengths if offsets is None else offsets
    if given.dtype not in (int32, int64):
        require(f"_segment_reduce_{name}_cpu_kernel1", given.dtype, {3, 4}, given)
    if data.ndim < given.ndim:
        raise RuntimeError(
            f"Expected data.dim() >= {name}_value.dim() to be true, but got false."
        )
    if axis != given.ndim - 1:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of {name} but "
            f"got {axis}."
        )
    if list(given.shape[:-1]) != list(data.shape[:axis]):
        raise RuntimeError(
            f"segment_reduce(): Expected the leading sizes of {name} to be those of data"
            f", but got {list(given.shape)} beside {list(data.shape)}"
        )
    given = given.to(int64)
    size = data.shape[axis]
    if offsets is not None:
        bounds = given.contiguous()
    else:
        bounds = _bounds_of(given)
    if bounds.numel() and readable(bounds):
        flag, segments = fault_flag(bounds), bounds.shape[-1] - 1
        whole = offsets is None and not unsafe
        rows = bounds.numel() // (segments + 1)
        run(check_segments, [bounds, flag], [segments, size, int(whole)], rows)
        stated = lengths if whole else None
        if whole and not lengths.numel():
            raise _misfit(0, bounds, stated, size, name, axis)
        refuse_fault(flag, "segment_reduce", _misfit, bounds, stated, size, name, axis)
    return _KINDS[reduce], bounds, axis


def _misfit(fault, bounds, lengths, size, name, axis):
    """What is wrong with stretches; of a device's only the outlines are known."""
    if not isinstance(bounds, Tensor):
        return RuntimeError(
            f"segment_reduce(): Expected {name} that neither fall nor leave the {size} "
            f"elements along axis {axis}"
        )
    if lengths is not None:
        if ops.min(lengths).item() < 0:
            return RuntimeError("lengths contains negative value!")
        if not ops.all(ops.sum(lengths, [-1]) == size).item():
            return RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    falls = ops.diff(bounds)
    read = falls > 0  # a stretch without elements may lie anywhere
    low = ops.masked_select(bounds[..., :-1], read)
    high = ops.masked_select(bounds[..., 1:], read)
    if low.numel() and (ops.min(low).item() < 0 or ops.max(high).item() > size):
        return RuntimeError(
            f"segment_reduce(): Expected {name} to stay within the {size} elements "
            f"along axis {axis}"
        )
    return RuntimeError(f"segment_reduce(): Expected {name} that do not fall")


def _bounds_of(lengths):
    """Where stretches of such lengths begin, and where the last one ends."""
    first = ops.new_zeros(lengths, [*lengths.shape[:-1], 1])
    return ops.cat([first, ops.cumsum(lengths, -1)], -1).contiguous()
