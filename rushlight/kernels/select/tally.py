"""How often each of few numbers occurs, as a function of a device's grid.

A block counts those of its part in shared memory, where many additions to one number cost
little, and then adds each count to the whole.
"""

from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import END, INTS, Barrier, Pointer, Var, i64, u32
from rushlight.ir.threads import Atomic
from rushlight.kernels.lanes import shared_array

MOST = 4096  # numbers that a block counts
AHEAD = 8  # elements that a thread asks for before it counts the first


def tally(name, threads) -> ir.Function:
    """Counts of numbers from zero to a bound; others are passed over.

    Its parameters are the counts, which are zero before, the numbers, the integers
    ``size, bound, span``, and how many parts there are; a part has ``span`` numbers.
    """
    b = Builder()
    counts, x = (Var(b.fresh(name), Pointer(i64)) for name in ("counts", "x"))
    size, bound, span = (
        b.let(word, ir.integer(k)) for k, word in enumerate(("size", "bound", "span"))
    )
    found = shared_array(b, "found", u32, MOST)
    thread, step = b.let("thread", ir.Place("thread")), ir.Place("blocks")
    with b.loop("at", ir.Place("block"), END, step, kind="rolled") as at:
        start = b.let("start", at * span)
        stop = b.let("stop", ir.binary("min", start + span, size))
        with b.loop("n", thread, bound, threads, kind="rolled") as n:
            b.store(found, n, 0)
        b.add(Barrier())
        first = start + thread
        with b.loop("i", first, stop, AHEAD * threads, kind="rolled") as i:
            positions = [b.let("own", i + k * threads) for k in range(AHEAD)]
            numbers = [
                b.let("number", ir.load(x, ir.binary("min", own, stop - 1)))
                for own in positions
            ]
            for own, number in zip(positions, numbers, strict=True):
                with b.when((own < stop) & (number >= 0) & (number < bound)):
                    b.add(Atomic("add", found, number, ir.Const(u32, 1)))
        b.add(Barrier())
        with b.loop("n", thread, bound, threads, kind="rolled") as n:
            count = b.let("count", ir.cast(i64, ir.load(found, n)))
            with b.when(count > 0):
                b.add(Atomic("add", counts, n, count))
    return ir.Function(name, (counts, x, INTS, END), b.statements, grid=True)
