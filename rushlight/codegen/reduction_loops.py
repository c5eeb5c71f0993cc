"""The loops of reductions: along contiguous values, or across contiguous results."""

from __future__ import annotations

from rushlight.codegen import expr as ir
from rushlight.codegen.builder import Builder
from rushlight.codegen.expr import Const, as_expr, i64

# Each accumulator takes in 16 values, then passes its result on to one that takes in
# 16 of those, and so on: the error of a long sum grows with its logarithm at first.
CHUNK, LEVELS = 16, 3
ZERO = Const(i64, 0)


class Shape:
    """The kernel's integers, named."""

    def __init__(self, b, outputs):
        def read(names):
            return [b.let(name, ir.integer(k)) for k, name in names]

        def numbered(start, stem):
            return read([(start + k, f"{stem}{k}") for k in range(3)])

        self.reduced, self.reduced_strides = numbered(0, "r"), numbered(3, "sr")
        self.kept, self.kept_strides = numbered(6, "k"), numbered(9, "si")
        self.output_strides = [
            numbered(12 + 3 * k, f"so{k}_" if outputs > 1 else "so")
            for k in range(outputs)
        ]


class Place:
    """Where one segment of the innermost kept axis reads and writes."""

    def __init__(self, source, targets, length, scalar):
        self.source, self.targets = source, targets
        self.length, self.scalar = length, scalar


def segments(monoid, along, across):
    """The whole program: one segment of the kept axes after another.

    A segment lies in one row of the innermost kept axis. Results are computed one by
    one over contiguous values, a vector at a time over contiguous results, or one by
    one over anything.
    """
    b = Builder()
    count = len(monoid.outputs)
    shape = Shape(b, count)
    source = b.let("input", ir.argument(count, monoid.source))
    targets = [
        b.let(f"out{k}" if count > 1 else "out", ir.argument(k, type))
        for k, (type, _) in enumerate(monoid.outputs)
    ]
    scalar = Const(ir.f64, 0.0)
    if monoid.needs_scalar:
        scalar = b.let("scalar", ir.load(ir.argument(count + 1, ir.f64), 0))
    at = b.declare("at", ir.BEGIN)
    with b.loop_while(at < ir.END):
        place = _segment(b, shape, at, source, targets, scalar)
        contiguous = shape.reduced_strides[2] == monoid.itemsize
        if monoid.lanes == 1:
            across(b, monoid, shape, place, 1, 1)
        else:
            with b.when(contiguous):
                along(b, monoid, shape, place)
            with b.otherwise():
                with b.when(shape.kept_strides[2] == monoid.itemsize):
                    _across_vectors(b, monoid, shape, place, across)
                with b.otherwise():
                    across(b, monoid, shape, place, 1, 1)
        b.assign(at, at + place.length)
    return b.statements


def _segment(b, shape, at, source, targets, scalar):
    k0, k1, k2 = shape.kept
    inner = b.let("inner", at % k2)
    rest = b.let("rest", at // k2)
    middle, outer = b.let("middle", rest % k1), b.let("outer", rest // k1)
    length = b.let("length", ir.binary("min", k2 - inner, ir.END - at))
    places = (outer, middle, inner)
    start = b.let("row", ir.Offset(source, _dot(places, shape.kept_strides)))
    ends = [
        b.let(f"{target.name}_row", ir.Offset(target, _dot(places, strides)))
        for target, strides in zip(targets, shape.output_strides, strict=True)
    ]
    return Place(start, ends, length, scalar)


def loop(b, name, start, stop, step=1):
    """A loop to be left as written: the vectors in its body are enough."""
    return b.loop(name, start, stop, step, kind="rolled")


def _dot(indices, strides):
    total = indices[0] * strides[0]
    for index, stride in zip(indices[1:], strides[1:], strict=True):
        total = total + index * stride
    return total


def along(b, monoid, shape, place):
    """Each result from contiguous values: vectors of partial results, then a tree."""
    lanes, vectors = monoid.lanes, monoid.vectors
    step = lanes * vectors
    r0, r1, r2 = shape.reduced
    whole = b.let("whole", r2 // step * step)
    with loop(b, "j", 0, place.length) as j:
        totals = [
            _declare(b, f"total{u}_", monoid.empty(lanes)) for u in range(vectors)
        ]
        with loop(b, "i0", 0, r0) as i0, loop(b, "i1", 0, r1) as i1:
            row = b.let(
                "values",
                ir.Offset(
                    place.source,
                    (
                        j * shape.kept_strides[2]
                        + i0 * shape.reduced_strides[0]
                        + i1 * shape.reduced_strides[1]
                    ),
                ),
            )
            base = b.let("base", (i0 * r1 + i1) * r2)
            _whole_chunks(b, monoid, place, totals, row, base, whole)
            with loop(b, "i", whole, r2, lanes) as i:
                mask = b.let(
                    "mask", ir.Binary("lt", _ramp(i, lanes), ir.Broadcast(lanes, r2))
                )
                x = monoid.load(row, i, lanes, mask)
                _assign(
                    b,
                    totals[0],
                    monoid.accumulated(
                        totals[0], x, _ramp(base + i, lanes), place.scalar, mask
                    ),
                )
        state = _fold_lanes(b, monoid, _fold(b, monoid, totals), lanes)
        _write(b, monoid, shape, place, j, state)


def _whole_chunks(b, monoid, place, totals, row, base, whole):
    """Chunks of full vectors: partial results start afresh in each."""
    lanes, vectors = monoid.lanes, monoid.vectors
    step = lanes * vectors

    def values(i, u):
        return (
            monoid.load(row, i + u * lanes, lanes),
            _ramp(base + i + u * lanes, lanes),
        )

    _cascade(b, monoid, place, totals, lanes, ZERO, whole, step, values, LEVELS)


def _cascade(b, monoid, place, totals, lanes, start, stop, step, values, levels):
    """Accumulates ``start`` to ``stop`` into ``totals``, in chunks of chunks.

    Args:
        values: the input and its index, from a loop index and an accumulator's number.
    """
    if levels == 0:
        with loop(b, "i", start, stop, step) as i:
            for u, state in enumerate(totals):
                x, index = values(i, u)
                _assign(b, state, monoid.accumulated(state, x, index, place.scalar))
        return
    size = step * CHUNK**levels
    with loop(b, "chunk", start, stop, size) as chunk:
        end = b.let("chunk_end", ir.binary("min", chunk + size, stop))
        partial = [
            _declare(b, f"partial{u}_", monoid.empty(lanes)) for u in range(len(totals))
        ]
        _cascade(b, monoid, place, partial, lanes, chunk, end, step, values, levels - 1)
        for total, state in zip(totals, partial, strict=True):
            _assign(b, total, monoid.combined(total, state))


def _across_vectors(b, monoid, shape, place, across):
    """Blocks of several vectors of results, then single vectors, then one by one."""
    lanes = monoid.lanes
    vectors = 2 * monoid.vectors  # long reads along the rows spare the page tables
    wide = lanes * vectors
    full = b.let("full", place.length // wide * wide)
    across(b, monoid, shape, place, lanes, vectors, ZERO, full)
    near = b.let("near", place.length // lanes * lanes)
    across(b, monoid, shape, place, lanes, 1, full, near)
    across(b, monoid, shape, place, 1, 1, near)


def across(b, monoid, shape, place, lanes, vectors, first=ZERO, last=None):
    """Neighbouring results at once, over every reduced value in order."""
    r0, r1, r2 = shape.reduced
    last = place.length if last is None else last
    with loop(b, "j", first, last, lanes * vectors) as j:
        totals = [
            _declare(b, f"total{u}_", monoid.empty(lanes)) for u in range(vectors)
        ]
        with loop(b, "i0", 0, r0) as i0, loop(b, "i1", 0, r1) as i1:
            row = b.let(
                "values",
                ir.Offset(
                    place.source,
                    (
                        j * shape.kept_strides[2]
                        + i0 * shape.reduced_strides[0]
                        + i1 * shape.reduced_strides[1]
                    ),
                ),
            )
            base = b.let("base", (i0 * r1 + i1) * r2)
            _chunks_across(b, monoid, shape, place, totals, row, base, lanes)
        for u, state in enumerate(totals):
            _write(b, monoid, shape, place, j + u * lanes, state, lanes)


def _chunks_across(b, monoid, shape, place, totals, row, base, lanes):
    def values(i, u):
        here = ir.Offset(row, i * shape.reduced_strides[2])
        index = base + i if lanes == 1 else ir.Broadcast(lanes, base + i)
        return monoid.load(here, as_expr(u * lanes, i64), lanes), index

    _cascade(b, monoid, place, totals, lanes, ZERO, shape.reduced[2], 1, values, LEVELS)


def _declare(b, stem, values):
    return [b.declare(f"{stem}{k}", value) for k, value in enumerate(values)]


def _assign(b, variables, values):
    """Assigns all at once: later values may read variables assigned before them."""
    if len(variables) > 1:
        values = [b.let("next", value) for value in values]
    for variable, value in zip(variables, values, strict=True):
        b.assign(variable, value)


def _ramp(start, lanes):
    return ir.Ramp(lanes, start, Const(i64, 1))


def _fold(b, monoid, states):
    """Pairs of states, then pairs of pairs."""
    while len(states) > 1:
        states = [
            [b.let("folded", value) for value in monoid.combined(left, right)]
            for left, right in zip(states[::2], states[1::2], strict=True)
        ]
    return states[0]


def _fold_lanes(b, monoid, state, lanes):
    """The upper half of the lanes onto the lower, down to one."""
    while lanes > 1:
        half = lanes // 2
        low = [_lanes(leaf, 0, half) for leaf in state]
        high = [_lanes(leaf, half, half) for leaf in state]
        state = [b.let("folded", v) for v in monoid.combined(low, high)]
        lanes = half
    return state


def _lanes(vector, start, count):
    if count == 1:
        return ir.Extract(start, vector)
    return ir.Shuffle(range(start, start + count), vector, vector)


def _write(b, monoid, shape, place, j, state, lanes=1):
    """Stores the results from index ``j`` on; side by side where they lie so."""
    values = monoid.finished(state, place.scalar)
    if lanes > 1:
        values = [b.let("result", value) for value in values]
    rest = iter(values)
    for target, strides, (type, is_complex) in zip(
        place.targets, shape.output_strides, monoid.outputs, strict=True
    ):
        stride = strides[2]
        if is_complex:
            there = ir.Offset(target, j * stride)
            b.store(there, 0, next(rest))
            b.store(there, 1, next(rest))
        elif lanes == 1:
            b.store(ir.Offset(target, j * stride), 0, next(rest))
        else:
            _write_lanes(b, target, type, stride, j, next(rest), lanes)


def _write_lanes(b, target, type, stride, j, value, lanes):
    with b.when(stride == type.itemsize):
        b.add(ir.Store(target, j, value))
    with b.otherwise():
        spread = b.array("spread", type, lanes)
        b.add(ir.Store(spread, ZERO, value))
        with loop(b, "lane", 0, lanes) as lane:
            b.store(ir.Offset(target, (j + lane) * stride), 0, ir.load(spread, lane))
