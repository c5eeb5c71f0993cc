"""Fourier transforms of lines: steps of small radices over vectors.

A line of ``n = r m`` elements is transformed by ``m`` transforms of length ``r``, whose
results are turned by roots of one and written side by side; then by those of length
``m``. Elements of one place in their transform lie together (Stockham's order), so that
vectors run over them and nothing is permuted at the end. Real and imaginary parts are
apart while a line is worked on.

    load        a block of lines into scratch, parts apart
    first step  vectors over the elements of a line, where it is alone in its block
    steps       vectors over lines and what earlier steps have put side by side
    store       scaled, parts together again
"""

import functools
import math

from rushlight.codegen.target import current
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Shuffle, Type, i64, load
from rushlight.kernels.loop_helpers import (
    blocks_of,
    minimum,
    moved,
    multiply_add,
    quotient,
    remainder,
)
from rushlight.operators import call as ops

RADICES = (16, 8, 7, 5, 4, 3, 2)
# What a line's elements are. HALF is the first half of a line whose transform is real;
# PAIRED is that of twice as long a line, of which real neighbours make a complex number.
COMPLEX, REAL, HALF, PAIRED = 0, 1, 2, 3
# The kernel's integers, in order. Steps between elements and lines count real numbers.
INTS = (
    "size", "width", "room", "inner", "blocks", "tasks", "stages", "swap",
    "in_kind", "in_count", "in_step", "in_line", "in_outer",
    "out_kind", "out_count", "out_step", "out_line", "out_outer",
)  # fmt: skip


def lanes_of(itemsize):
    """Elements of so many bytes in a vector of these kernels.

    It is one register, and two where they are short: butterflies keep some dozen vectors,
    which lie in memory where a processor has no registers for them.
    """
    return max(current().vector_bytes, 32) // itemsize


def root(phases, count):
    """A root of one, ``exp(-2 pi i phases / count)``, of an angle of an eighth turn at most.

    >>> root(3, 4), root(-7, 7)
    (1j, (1+0j))
    """
    quarters = round(4 * phases / count)
    angle = (4 * phases - quarters * count) * (math.pi / (2 * count))
    return complex(math.cos(angle), -math.sin(angle)) * (1, -1j, -1, 1j)[quarters % 4]


def roots(phases, count):
    """The same of a tensor of turns, integers in float64: real parts and imaginary ones."""
    quarters = ops.round(phases * (4 / count))
    angle = (phases * 4 - quarters * count) * (math.pi / (2 * count))
    near, far = ops.cos(angle), -ops.sin(angle)
    place = ops.remainder(quarters, 4)
    across = ops.remainder(place, 2) == 1  # times -i
    back = 1 - 2 * (place >= 2).to(phases.dtype)
    return ops.where(across, far, near) * back, ops.where(across, -near, far) * back


def small_transform(b, values):
    """The transform of a few complex values, each a pair of expressions.

    >>> small_transform(None, [(1, 0)])
    [(1, 0)]
    """
    n = len(values)
    if n == 1:
        return values
    if n == 2:
        return [plus(b, *values), minus(b, *values)]
    if n == 4:
        return four(b, values)
    for first in (4, 2, 3, 5):
        if n % first == 0 and n > first:
            is_coprime = math.gcd(first, n // first) == 1
            return (crossed if is_coprime else composed)(b, values, first, n // first)
    return odd(b, values)


def plus(b, x, y):
    return b.let("a", x[0] + y[0]), b.let("a", x[1] + y[1])


def minus(b, x, y):
    return b.let("s", x[0] - y[0]), b.let("s", x[1] - y[1])


def four(b, values):
    """Length four: no multiplication."""
    even = plus(b, values[0], values[2]), minus(b, values[0], values[2])
    odd_ = plus(b, values[1], values[3]), minus(b, values[1], values[3])
    rotated = odd_[1][1], odd_[1][0]  # times -i, but for a sign
    return [
        plus(b, even[0], odd_[0]),
        (b.let("a", even[1][0] + rotated[0]), b.let("a", even[1][1] - rotated[1])),
        minus(b, even[0], odd_[0]),
        (b.let("a", even[1][0] - rotated[0]), b.let("a", even[1][1] + rotated[1])),
    ]


def composed(b, values, first, second):
    """Length ``first * second``, by transforms of both."""
    n = first * second
    rows = []
    for j in range(second):
        row = small_transform(b, values[j::second])
        rows.append([rotated(b, row[k], j * k, n) for k in range(first)])
    result = [None] * n
    for k in range(first):
        for at, value in enumerate(small_transform(b, [row[k] for row in rows])):
            result[k + first * at] = value
    return result


def crossed(b, values, first, second):
    """The same for lengths without a common factor: nothing is turned (Good's order)."""
    n = first * second
    rows = [
        small_transform(b, [values[(j * first + i * second) % n] for i in range(first)])
        for j in range(second)
    ]
    result = [None] * n
    for k in range(first):
        for at, value in enumerate(small_transform(b, [row[k] for row in rows])):
            # the place that leaves k of first, and at of second
            place = next(e for e in range(at, n, second) if e % first == k)
            result[place] = value
    return result


def rotated(b, x, power, n):
    """A constant root of one, ``exp(-2 pi i power / n)``, times a value."""
    power %= n
    if power == 0:
        return x
    if 4 * power == n:
        return x[1], b.let("t", -x[0])
    if 2 * power == n:
        return b.let("t", -x[0]), b.let("t", -x[1])
    if 8 * power == n:
        half = math.sqrt(0.5)
        return b.let("t", (x[0] + x[1]) * half), b.let("t", (x[1] - x[0]) * half)
    if 8 * power == 3 * n:
        half = math.sqrt(0.5)
        return b.let("t", (x[1] - x[0]) * half), b.let("t", (x[0] + x[1]) * -half)
    w = root(power, n)
    return times(b, x, (constant(x, w.real), constant(x, w.imag)))


def constant(x, value):
    return ir.as_expr(value, x[0].type)


def times(b, x, w):
    """The product of two complex values."""
    real = multiply_add(x[0], w[0], -(x[1] * w[1]))
    imag = multiply_add(x[0], w[1], x[1] * w[0])
    return b.let("t", real), b.let("t", imag)


def odd(b, values):
    """An odd length: sums and differences of what mirrors each other."""
    n = len(values)
    half = range(1, n // 2 + 1)
    sums = [plus(b, values[j], values[n - j]) for j in half]
    gaps = [minus(b, values[j], values[n - j]) for j in half]
    result = [None] * n
    total = values[0]
    for value in sums:
        total = plus(b, total, value)
    result[0] = total
    for k in half:
        real, imag = values[0]
        left = right = None
        for j, add, gap in zip(half, sums, gaps, strict=True):
            w = root(-j * k, n)
            c, s = constant(add, w.real), constant(add, w.imag)
            real, imag = multiply_add(add[0], c, real), multiply_add(add[1], c, imag)
            left = gap[1] * s if left is None else multiply_add(gap[1], s, left)
            right = gap[0] * s if right is None else multiply_add(gap[0], s, right)
        real, imag = b.let("r", real), b.let("r", imag)
        left, right = b.let("g", left), b.let("g", right)
        result[k] = b.let("o", real + left), b.let("o", imag - right)
        result[n - k] = b.let("o", real - left), b.let("o", imag + right)
    return result


def interleaved(b, vectors):
    """A power of two of vectors as one run: the first element of each, the second ..."""
    count = len(vectors)
    lanes = vectors[0].type.lanes
    order = [k for i in range(lanes) for k in (i, i + lanes)]
    for _ in range(count.bit_length() - 1):
        vectors = [
            b.let("z", Shuffle(order[half * lanes : (half + 1) * lanes], *pair))
            for pair in zip(vectors[: count // 2], vectors[count // 2 :], strict=True)
            for half in range(2)
        ]
    return vectors


def entangled(b, near, far, root, inverse):
    """Two elements that mirror each other, of the one transform from the other.

    With the even and odd elements' transforms ``E`` and ``O``, that of all is
    ``E + w O``, and that of the pairs ``E + i O``.
    """
    mirror = far[0], b.let("n", -far[1])
    even, gap = plus(b, near, mirror), minus(b, near, mirror)
    if inverse:
        rest = times(b, gap, (root[0], -root[1]))
        rest = b.let("n", -rest[1]), rest[0]
    else:
        half = constant(near, 0.5)
        even = tuple(b.let("h", part * half) for part in even)
        rest = times(b, (b.let("h", gap[1] * half), b.let("h", gap[0] * -half)), root)
    first, second = plus(b, even, rest), minus(b, even, rest)
    return first, (second[0], b.let("n", -second[1]))


class Lines:
    """The kernel of one type, as it is written.

    Pointers: the result, the source, scratch, roots of one, the scale, the radices, and
    roots of one for twice the size.
    Integers: `INTS`. One item is a task: a share of the blocks, with scratch of its own.
    """

    def __init__(self, type, radices):
        self.b = b = Builder()
        self.chosen = radices
        self.lanes = lanes_of(type.itemsize)
        names = ("out", "source", "work", "roots", "scale")
        pointers = [b.let(n, ir.argument(k, type)) for k, n in enumerate(names)]
        self.out, self.source, self.work, self.roots, scale = pointers
        self.radices = b.let("radices", ir.argument(5, i64))
        self.n = {n: b.let(n, ir.integer(k)) for k, n in enumerate(INTS)}
        halves = b.let("halves", ir.argument(6, type))
        middle = quotient(self.n["size"], 2) + 1
        self.halves = halves, b.let("halves_imag", moved(halves, middle))
        self.scale = b.let("factor", load(scale, 0))
        self.outer_blocks = b.let(
            "outer_blocks", blocks_of(self.n["inner"], self.n["width"])
        )

    def write(self):
        """The statements of the whole kernel."""
        b, n = self.b, self.n
        with b.loop("task", ir.BEGIN, ir.END) as task:
            first = b.let("first", quotient(task * n["blocks"], n["tasks"]))
            last = b.let("last", quotient((task + 1) * n["blocks"], n["tasks"]))
            room = b.let("room", n["room"])
            scratch = b.let("scratch", moved(self.work, task * (room * 4)))
            with b.loop("block", first, last) as block:
                self.block(scratch, room, block)
        return b.statements

    def block(self, scratch, room, block):
        """Some lines, from the source to the result."""
        b, n = self.b, self.n
        outer = b.let("outer", quotient(block, self.outer_blocks))
        start = b.let("start", remainder(block, self.outer_blocks) * n["width"])
        lines = b.let("lines", minimum(n["width"], n["inner"] - start))
        self.lines = lines
        parts = [b.let("part", moved(scratch, room * k)) for k in range(4)]
        source = b.let(
            "lines_in", moved(self.source, outer * n["in_outer"] + start * n["in_line"])
        )
        self.load_block(source, parts[0], parts[1])
        here = b.declare("here", ir.Const(i64, 0))
        spare = b.declare("there", room * 2)
        length = b.declare("length", n["size"] + 0)
        side = b.declare("side", lines + 0)
        table = b.declare("table", ir.Const(i64, 0))
        with b.loop("stage", 0, n["stages"]) as stage:
            radix = b.let("radix", load(self.radices, stage))
            m = b.let("m", quotient(length, radix))
            now, then, third = (b.let(x.name, x + 0) for x in (here, spare, side))
            at = b.let("at", table + 0)
            x = [b.let("x", moved(scratch, now + room * k)) for k in range(2)]
            y = [b.let("y", moved(scratch, then + room * k)) for k in range(2)]
            w = [
                b.let("w", moved(self.roots, at + (radix - 1) * m * k)) for k in (0, 1)
            ]
            alone = b.let("alone", third == 1)
            for r in self.chosen:
                with b.when((radix == r) & alone):
                    self.first_step(r, m, x, y, w)
                with b.when((radix == r) & ~alone):
                    self.step(r, m, third, x, y, w)
            b.assign(here, then)
            b.assign(spare, now)
            b.assign(table, at + (radix - 1) * m * 2)
            b.assign(length, m + 0)
            b.assign(side, third * radix)
        done = [b.let("done", moved(scratch, here + room * k)) for k in range(2)]
        target = b.let(
            "lines_out", moved(self.out, outer * n["out_outer"] + start * n["out_line"])
        )
        self.store_block(done[0], done[1], target)

    def step(self, r, m, side, x, y, w):
        """One step; vectors run over what lies side by side."""
        b = self.b
        with b.loop("p", 0, m) as p:
            roots = [
                tuple(b.let("root", load(part, p + m * (k - 1))) for part in w)
                for k in range(1, r)
            ]
            ins = [[moved(q, (p + m * j) * side) for q in x] for j in range(r)]
            outs = [[moved(q, (p * r + k) * side) for q in y] for k in range(r)]
            ins = [[b.let("i", q) for q in pair] for pair in ins]
            outs = [[b.let("o", q) for q in pair] for pair in outs]
            with b.loop("q", 0, side, kind="vectorized") as q:
                values = [tuple(b.let("v", load(t, q)) for t in pair) for pair in ins]
                values = small_transform(b, values)
                values[1:] = [
                    times(b, v, root) for v, root in zip(values[1:], roots, strict=True)
                ]
                for pair, value in zip(outs, values, strict=True):
                    for pointer, part in zip(pair, value, strict=True):
                        b.store(pointer, q, part)

    def first_step(self, r, m, x, y, w):
        """The first step of a lone line: vectors run along it, and change places."""
        b = self.b
        ins = [[b.let("i", moved(q, m * j)) for q in x] for j in range(r)]
        roots = [[b.let("w", moved(q, m * (k - 1))) for q in w] for k in range(1, r)]
        lanes = self.lanes if r & (r - 1) == 0 else 1
        whole = b.let("whole", m - remainder(m, lanes))
        spans = [(0, whole, None)]
        if lanes > 1:
            spans.append((whole, m, b.let("mask", self.first_lanes(m - whole))))
        for start, stop, mask in spans:
            with b.loop("p", start, stop, lanes, kind="rolled") as p:
                self.first_vectors(r, p, ins, roots, y, lanes, mask, m - whole)

    def first_vectors(self, r, p, ins, roots, y, lanes, mask, rest):
        b = self.b

        def read(q):
            return b.let("v", load(q, p, lanes, mask=mask))

        values = small_transform(b, [tuple(map(read, pair)) for pair in ins])
        for k in range(1, r):
            values[k] = times(b, values[k], tuple(map(read, roots[k - 1])))
        for target, parts in zip(y, zip(*values, strict=True), strict=True):
            if lanes > 1:
                parts = interleaved(b, parts)
            for k, part in enumerate(parts):
                place = p * r + k * lanes
                if mask is None:
                    b.store(target, place, part)
                else:
                    some = self.first_lanes(rest * r - k * lanes)
                    b.store(target, place, part, mask=some)

    def first_lanes(self, count):
        """True in as many lanes, from the first."""
        lanes = self.lanes
        ramp = ir.Ramp(lanes, ir.Const(i64, 0), ir.Const(i64, 1))
        return ramp < Broadcast(lanes, count)

    # ---- between memory and scratch

    def load_block(self, source, real, imag):
        """Lines as two arrays, element by element, the lines side by side."""
        b, n = self.b, self.n
        to = self.in_order(real, imag)
        kind = n["in_kind"]
        whole = b.let("complex", (kind == COMPLEX) | (kind == PAIRED))
        near = b.let("near", n["in_step"] == 2)
        along = b.let("along", whole & near & (self.lines == 1))
        across = b.let("across", whole & near & (self.lines == self.lanes))
        third = b.let("beside", ~along & ~across & whole & (n["in_line"] == 2))
        with b.when(along):
            self.split(source, to, n["in_count"])
        with b.when(across):
            self.transpose_in(source, to, n["in_count"])
        with b.when(third):
            with b.loop("e", 0, n["in_count"]) as e:
                row = b.let("row", moved(source, e * n["in_step"]))
                into = [b.let("into", moved(t, e * self.lines)) for t in to]
                self.split(row, into, self.lines)
        with b.when(~along & ~across & ~third):
            self.gather(source, to, n["in_count"])
        with b.when(kind == HALF):
            self.mirror(to)
        with b.when(kind == PAIRED):
            self.untangle(to, True)

    def in_order(self, real, imag):
        """The parts, or in inverse transforms the other way round: all it takes."""
        swap, both = self.n["swap"] != 0, (real, imag)
        return [
            self.b.let("part", ir.Select(swap, both[1 - k], both[k])) for k in (0, 1)
        ]

    def gather(self, source, to, count):
        """Element by element, whatever the steps."""
        b, n = self.b, self.n
        real = b.let("real", n["in_kind"] == REAL)
        with b.loop("line", 0, self.lines) as line:
            row = b.let("row", moved(source, line * n["in_line"]))
            for test in (real, ~real):
                with b.when(test), b.loop("e", 0, count, kind="rolled") as e:
                    at = b.let("at", e * n["in_step"])
                    into = b.let("into", e * self.lines + line)
                    b.store(to[0], into, load(row, at))
                    b.store(to[1], into, 0.0 if test is real else load(row, at + 1))

    def transpose_in(self, source, to, count):
        """As many lines as a vector has lanes, whose elements lie together."""
        b, n, lanes = self.b, self.n, self.lanes
        rows = [b.let("row", moved(source, n["in_line"] * k)) for k in range(lanes)]
        with b.loop("e", 0, count, lanes, kind="rolled") as e:
            masks = self.masks((count - e) * 2)
            pairs = []
            for row in rows:
                low, high = (
                    b.let("half", load(row, e * 2 + lanes * k, lanes, mask=masks[k]))
                    for k in range(2)
                )
                pairs.append(
                    [
                        b.let("v", Shuffle(range(k, 2 * lanes, 2), low, high))
                        for k in (0, 1)
                    ]
                )
            for target, parts in zip(to, zip(*pairs, strict=True), strict=True):
                for k, part in enumerate(interleaved(b, parts)):
                    with b.when(count - e > k):
                        b.store(target, (e + k) * lanes, part)

    def transpose_out(self, parts, target, count):
        """The inverse of `transpose_in`, scaled."""
        b, n, lanes = self.b, self.n, self.lanes
        rows = [b.let("row", moved(target, n["out_line"] * k)) for k in range(lanes)]
        factor = b.let("factors", Broadcast(lanes, self.scale))
        with b.loop("e", 0, count, lanes, kind="rolled") as e:
            masks = self.masks((count - e) * 2)
            transposed_ = []
            for part in parts:
                values = [load(part, (e + k) * lanes, lanes) for k in range(lanes)]
                values = [b.let("v", value * factor) for value in values]
                transposed_.append(interleaved(b, values))
            for row, pair in zip(rows, zip(*transposed_, strict=True), strict=True):
                for k, value in enumerate(interleaved(b, pair)):
                    b.store(row, e * 2 + lanes * k, value, mask=masks[k])

    def masks(self, count):
        """Which lanes of two vectors one after the other hold one of ``count`` values."""
        return [
            self.b.let("mask", self.first_lanes(count - k * self.lanes)) for k in (0, 1)
        ]

    def untangle(self, parts, inverse):
        """Between the transform of pairs and the first half of that of real numbers."""
        b, n, lines, lanes = self.b, self.n, self.lines, self.lanes
        size = n["size"]
        real, imag = parts
        with b.loop("line", 0, lines) as line:
            last = b.let("last", size * lines + line)
            first = b.let("first", load(real, line))
            other = b.let("other", load(real, last) if inverse else load(imag, line))
            total, gap = b.let("total", first + other), b.let("gap", first - other)
            b.store(real, line, total)
            b.store(*((imag, line) if inverse else (real, last)), gap)
            if not inverse:
                b.store(imag, line, 0.0)
                b.store(imag, last, 0.0)
        middle = b.let("middle", quotient(size, 2))
        # vectors over elements, as long as they don't meet
        pairs = b.let("pairs", quotient(size - 1, 2))
        whole = b.let(
            "whole", ir.select(lines == 1, pairs - remainder(pairs, lanes), 0)
        )
        backwards = range(lanes - 1, -1, -1)
        with b.loop("k", 1, whole + 1, lanes, kind="rolled") as k:
            far = b.let("far", size - k - (lanes - 1))
            near_ = [b.let("z", load(q, k, lanes)) for q in parts]
            mirror = [b.let("z", load(q, far, lanes)) for q in parts]
            mirror = [b.let("m", Shuffle(backwards, q, q)) for q in mirror]
            root = [b.let("w", load(q, k, lanes)) for q in self.halves]
            ends = entangled(b, near_, mirror, root, inverse)
            for q, value in zip(parts, ends[0], strict=True):
                b.store(q, k, value)
            for q, value in zip(parts, ends[1], strict=True):
                b.store(q, far, Shuffle(backwards, value, value))
        with b.loop("k", whole + 1, middle + 1) as k:
            root = [b.let("w", load(q, k)) for q in self.halves]
            near_ = [b.let("near", moved(q, k * lines)) for q in parts]
            far = [b.let("far", moved(q, (size - k) * lines)) for q in parts]
            with b.loop("q", 0, lines, kind="vectorized") as q:
                ends = entangled(
                    b,
                    [b.let("z", load(p, q)) for p in near_],
                    [b.let("z", load(p, q)) for p in far],
                    root,
                    inverse,
                )
                for positions, values in zip((near_, far), ends, strict=True):
                    for place, value in zip(positions, values, strict=True):
                        b.store(place, q, value)

    def mirror(self, to):
        """What is left of a line whose transform is real: conjugates, from the end.

        The imaginary parts of the first element, and of the middle one, count as zero.
        """
        b, n = self.b, self.n
        lines = self.lines
        with b.loop("line", 0, lines) as line:
            b.store(to[1], line, 0.0)
        with b.when(remainder(n["size"], 2) == 0):
            with b.loop("line", 0, lines) as line:
                b.store(to[1], quotient(n["size"], 2) * lines + line, 0.0)
        with b.loop("e", n["in_count"], n["size"]) as e:
            with b.loop("line", 0, lines, kind="rolled") as line:
                at = b.let("at", (n["size"] - e) * lines + line)
                b.store(to[0], e * lines + line, load(to[0], at))
                b.store(to[1], e * lines + line, -load(to[1], at))

    def split(self, source, to, count):
        """Pairs that lie together become two arrays."""
        b, lanes = self.b, self.lanes
        whole = b.let("whole", count - remainder(count, lanes))
        with b.loop("i", 0, whole, lanes, kind="rolled") as i:
            low = b.let("low", load(source, i * 2, lanes))
            high = b.let("high", load(source, i * 2 + lanes, lanes))
            for part in range(2):
                picked = Shuffle(range(part, 2 * lanes, 2), low, high)
                b.store(to[part], i, picked)
        with b.loop("i", whole, count, kind="rolled") as i:
            for part in range(2):
                b.store(to[part], i, load(source, i * 2 + part))

    def join(self, parts, target, count):
        """The inverse of `split`, scaled."""
        b, lanes = self.b, self.lanes
        whole = b.let("whole", count - remainder(count, lanes))
        factor = b.let("factors", Broadcast(lanes, self.scale))
        order = [k for i in range(lanes) for k in (i, i + lanes)]
        with b.loop("i", 0, whole, lanes, kind="rolled") as i:
            real, imag = (b.let("z", load(q, i, lanes) * factor) for q in parts)
            b.store(target, i * 2, Shuffle(order[:lanes], real, imag))
            b.store(target, i * 2 + lanes, Shuffle(order[lanes:], real, imag))
        with b.loop("i", whole, count, kind="rolled") as i:
            for part in range(2):
                b.store(target, i * 2 + part, load(parts[part], i) * self.scale)

    def store_block(self, real, imag, target):
        """The two arrays as lines, scaled."""
        b, n = self.b, self.n
        parts = self.in_order(real, imag)
        count, kind = n["out_count"], n["out_kind"]
        with b.when(kind == PAIRED):
            self.untangle(parts, False)
        near = b.let("near", (kind != REAL) & (n["out_step"] == 2))
        along = b.let("along", near & (self.lines == 1))
        across = b.let("across", near & (self.lines == self.lanes))
        third = (kind != REAL) & ~along & ~across & (n["out_line"] == 2)
        third = b.let("beside", third)
        with b.when(along):
            self.join(parts, target, count)
        with b.when(across):
            self.transpose_out(parts, target, count)
        with b.when(third):
            with b.loop("e", 0, count) as e:
                row = b.let("row", moved(target, e * n["out_step"]))
                at = [b.let("at", moved(q, e * self.lines)) for q in parts]
                self.join(at, row, self.lines)
        with b.when(~along & ~across & ~third):
            with b.when(kind != REAL):
                self.scatter(parts, target, count, 2)
            with b.when(kind == REAL):
                self.scatter(parts, target, count, 1)

    def scatter(self, parts, target, count, several):
        b, n = self.b, self.n
        with b.loop("line", 0, self.lines) as line:
            row = b.let("row", moved(target, line * n["out_line"]))
            with b.loop("e", 0, count, kind="rolled") as e:
                at = b.let("at", e * n["out_step"])
                held = b.let("held", e * self.lines + line)
                for part in range(several):
                    b.store(row, at + part, load(parts[part], held) * self.scale)


@functools.cache
def lines_kernel(name: str, radices: tuple):
    """The native kernel for parts of one type and some radices, from the cache or built."""
    from rushlight.codegen.lower import lower

    symbol = "_".join(["fourier_lines", name, *map(str, radices)])
    return host.code_cache.native(
        symbol, "", lambda: lower(ir.kernel(symbol, Lines(Type(name), radices).write()))
    )
