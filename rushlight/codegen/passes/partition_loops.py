"""Divides loops at the turns from which on conditions inside hold, or no longer hold.

Law: the statements that run, and their order, stay the same. Conditions are comparisons of
forms that are linear in loops of known turns; the turns in between need not ask.

    for i in range(0, 86):                       for i in range(0, 85):
        for r in unrolled(0, 6):                     for r in unrolled(0, 6):
            if i * 6 + r < 512:           ->             out[i * 6 + r] = 0.0
                out[i * 6 + r] = 0.0             for i in range(85, 86):
                                                     for r in unrolled(0, 2):
                                                         out[i * 6 + r] = 0.0

As Halide partitions the loops around borders, and TVM those around tails (`LoopPartition`).
"""

from dataclasses import replace

from rushlight.ir import expr as ir
from rushlight.ir.linear import linear
from rushlight.ir.rewrite import bodies_of, expressions_of, map_expr, map_statement

CUT = "serial", "parallel", "unrolled"  # lanes of other loops are masked
MOST = 2000  # statements, those that are written out counted, in what is written twice
FAR = 1 << 62
# Of comparisons, what is not negative where they hold: right, left, and a number
HOLDS = {"lt": (1, -1, -1), "le": (1, -1, 0), "gt": (-1, 1, -1), "ge": (-1, 1, 0)}


def partition_loops(function):
    """The program with loops of their own for turns where conditions are known."""
    return function.with_body(_Partition({}).block(function.body))


class _Partition:
    """Rewrites statements inside of loops.

    Args:
        ranges: their first and last turns, by variable.
    """

    def __init__(self, ranges):
        self.ranges, self.memo = ranges, {}

    def block(self, statements):
        result = []
        for s in statements:
            if isinstance(s, ir.For):
                result += self.loop(s)
            else:
                result.append(map_statement(s, self.decided, self.block))
        return tuple(result)

    def loop(self, s):
        """The loops that together turn as one does."""
        first, last = iterations_of(s)
        if first is None:
            return [map_statement(s, self.decided, self.block)]
        low, high = first, last + 1
        if s.kind in CUT and _size(s.body) <= MOST:
            low, high = self.steady(s, first, last)
        parts = [(first, low), (low, high), (high, last + 1)]
        return [self.part(s, *part) for part in parts if part[0] < part[1]]

    def part(self, s, first, stop):
        """A loop's turns from one up to another."""
        inside = _Partition({**self.ranges, s.var: (first, stop - 1)})
        start, end = ir.Const(ir.i64, first), ir.Const(ir.i64, stop)
        if not isinstance(s.start, ir.Const):  # a share of them, as its caller says
            start = ir.Binary("max", s.start, start) if first else s.start
            end = ir.Binary("min", s.stop, end) if stop <= FAR else s.stop
        return replace(s, start=start, stop=end, body=inside.block(s.body))

    def steady(self, s, first, last):
        """The turns of a loop, up to a second number, where most conditions are known."""
        low, high = first, last + 1
        ranges = {**self.ranges, s.var: (first, last)}
        for test, around in _tests(s.body, ranges):
            form = form_of(test)
            count = form.terms.get(s.var, 0) if form else 0
            if not count:
                continue
            others = {var: span for var, span in around.items() if var is not s.var}
            rest = form.range_over({**others, s.var: (0, 0)})
            if rest is None or rest[2]:
                continue
            if count > 0:
                bound = -(rest[0] // count)  # it holds from there on
                low = max(low, bound) if bound <= last else low
            else:
                bound = rest[0] // -count + 1  # it holds before
                high = min(high, bound) if bound > first else high
        return (low, high) if low < high else (first, last + 1)

    def decided(self, e):
        """An expression with the comparisons that are known replaced."""

        def change(node):
            form = form_of(node)
            found = form and form.range_over(self.ranges)
            if not found or found[2] or found[0] < 0 <= found[1]:
                return node
            return ir.Const(ir.boolean, found[0] >= 0)

        return map_expr(e, change, self.memo)


def form_of(e):
    """What is not negative where a comparison of integers holds, as a linear form; or None."""
    if not isinstance(e, ir.Binary) or e.op not in HOLDS or not e.args[0].type.is_int:
        return None
    right, left, constant = HOLDS[e.op]
    forms = [linear(arg, parts=True) for arg in e.args]
    if None in forms:
        return None
    zero = linear(ir.Const(ir.i64, constant))
    return zero.plus(forms[0], left).plus(forms[1], right)


def iterations_of(s):
    """The first and the last turn of a loop; None where they are not known."""
    if not isinstance(s.step, ir.Const) or s.step.value != 1:
        return None, None
    if s.start is ir.BEGIN and s.stop is ir.END:
        return 0, FAR
    ends = s.start, s.stop
    if not all(isinstance(end, ir.Const) for end in ends):
        return None, None
    return s.start.value, s.stop.value - 1


def _tests(body, ranges):
    """The comparisons inside of a loop, with the turns of the loops around each."""
    for s in body:
        pending = list(expressions_of(s))
        while pending:
            e = pending.pop()
            if isinstance(e, ir.Binary) and e.op in HOLDS:
                yield e, ranges
            pending += e.args
        inner = ranges
        if isinstance(s, ir.For):
            first, last = iterations_of(s)
            inner = {key: span for key, span in ranges.items() if key is not s.var}
            if first is not None:
                inner[s.var] = first, last
        for part in bodies_of(s):
            yield from _tests(part, inner)


def _size(body):
    """How many statements a body has, those of loops that are written out each time."""
    total = 0
    for s in body:
        first, last = iterations_of(s) if isinstance(s, ir.For) else (None, None)
        times = last - first + 1 if first is not None and s.kind == "unrolled" else 1
        total += 1 + times * sum(map(_size, bodies_of(s)))
    return total
