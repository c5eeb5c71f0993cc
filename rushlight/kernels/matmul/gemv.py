"""Products with a vector, and matrices turned over: loops that only stream memory."""

from __future__ import annotations

from rushlight.codegen.schedule.register_transpose import transpose
from rushlight.core.launch_args import ARRAYS
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Call, Const, Type, cast, i64, load
from rushlight.kernels.loop_helpers import (
    DEPTH_BLOCK,
    Behind,
    Operand,
    apply,
    blocks_of,
    lane_mask,
    minimum,
    moved,
    multiply_add,
    planned,
    put,
    quotient,
    remainder,
    rolled,
)

DOT_ROWS = 4
DOT_VECTORS = 2


class Single(Behind):
    """An operand of what is behind one row or column of results."""

    def at(self, batch, i=0):
        """The address of the operand of a batch's i-th result."""
        return moved(self.base, batch * self.batch + i * self.row)


def singles(b, after, record):
    """The operands of what is behind the sums."""
    kinds = () if after is None else after.others
    return [Single(b, k, kind, record) for k, (kind, _) in enumerate(kinds)]


def data_of(b, a_type, b_type, compute, after):
    """The addresses out, a, b and added."""
    stored = compute if after is None else Type(after.stored)
    types = {"out": stored, "a": a_type, "b": b_type, "added": compute}
    return {key: b.let(key, ir.argument(ARRAYS[key], t)) for key, t in types.items()}


def dots(name, a_type, b_type, compute, lanes, after=None) -> ir.Function:
    """``out[i] = sum_k a[i, k] b[k] + added[i]``: rows of adjacent elements.

    Four rows share each piece of the vector. The parallel axis counts blocks of rows,
    then batches. Data: out, a, b, added, and what ``after`` takes (see `Single`).
    """
    b = Builder()
    n = planned(b, "dots")
    p = data_of(b, a_type, b_type, compute, after)
    besides = singles(b, after, "dots")
    down = b.let("down", blocks_of(n["rows"], n["row_block"]))
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        batch = b.let("batch", quotient(chunk, down))
        i0 = b.let("i0", remainder(chunk, down) * n["row_block"])
        stop = b.let("stop", minimum(i0 + n["row_block"], n["rows"]))
        p_now = {key: b.let(key, moved(p[key], batch * n[f"{key}_batch"])) for key in p}
        whole = b.let("whole", stop - remainder(stop - i0, DOT_ROWS))

        def finished(i, total):
            with b.when(n["added"] != 0):
                b.assign(total, total + load(p_now["added"], i * n["added_row"]))
            value = total
            if after is not None:
                values = [load(other.at(batch, i), 0) for other in besides]
                value = after.apply(total, values)
            put(b, p_now["out"], i * n["out_row"], value)

        with b.loop("i", i0, whole, DOT_ROWS) as i:
            dot_rows(b, n, p_now, compute, lanes, i, DOT_ROWS, finished)
        with b.loop("i", whole, stop) as i:
            dot_rows(b, n, p_now, compute, lanes, i, 1, finished)
    return ir.kernel(name, rolled(b.statements))


def dot_rows(b, n, p, compute, lanes, first, rows, put):
    """The results of ``rows`` rows from ``first``, each given to ``put``."""
    starts = [b.let("start", (first + i) * n["a_row"]) for i in range(rows)]
    if rows == 1:
        total = b.declare("total", Const(compute, 0))
        with b.loop("block", 0, n["depth"], DEPTH_BLOCK) as k0:
            (sum_of_block,) = block_sums(b, n, p, compute, lanes, starts, k0)
            b.assign(total, total + sum_of_block)
        put(first, total)
        return
    totals = b.array("totals", compute, rows)
    for i in range(rows):
        b.store(totals, i, Const(compute, 0))
    with b.loop("block", 0, n["depth"], DEPTH_BLOCK) as k0:
        for i, value in enumerate(block_sums(b, n, p, compute, lanes, starts, k0)):
            b.store(totals, i, load(totals, i) + value)
    with b.loop("r", 0, rows) as r:
        put(first + r, b.declare("total", load(totals, r)))


def block_sums(b, n, p, compute, lanes, starts, first):
    """What one block of the depth adds to each row's result."""
    zero = Const(compute.vector(lanes), 0)
    sums = [[b.declare("sum", zero) for _ in range(DOT_VECTORS)] for _ in starts]

    def step(k, part, mask=None):
        other = b.let("other", cast(compute, load(p["b"], k, lanes, mask=mask)))
        for start, line in zip(starts, sums, strict=True):
            value = cast(compute, load(p["a"], start + k, lanes, mask=mask))
            b.assign(line[part], multiply_add(value, other, line[part]))

    stride = lanes * DOT_VECTORS
    end = b.let("end", minimum(first + DEPTH_BLOCK, n["depth"]))
    whole = b.let("whole", end - remainder(end - first, stride))
    with b.loop("k", first, whole, stride) as k:
        for part in range(DOT_VECTORS):
            step(k + part * lanes, part)
    with b.loop("k", whole, end, lanes) as k:
        step(k, 0, b.let("mask", lane_mask(lanes, end - k)))
    return [Call("reduce_add", compute, sum(rest, one)) for one, *rest in sums]


COMBINED_ROWS = 8
COMBINED_COLUMNS = 4096  # results that stay in the first-level cache


def combine(name, a_type, b_type, compute, lanes, after=None) -> ir.Function:
    """``out[j] = sum_k a[k] b[k, j] + added[j]``: rows of adjacent elements.

    Eight whole rows at a time are added to results that stay in the L1 cache: memory is
    read in long runs (4096: 2.3 ms, against 5.2 as a product of register tiles). The
    parallel axis counts blocks of columns, then batches. Data as for `dots`.
    """
    b = Builder()
    n = planned(b, "combine")
    p = data_of(b, a_type, b_type, compute, after)
    besides = singles(b, after, "combine")
    waiting = None if after is None else b.array("waiting", compute, COMBINED_COLUMNS)
    across = b.let("across", blocks_of(n["columns"], n["column_block"]))
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        batch = b.let("batch", quotient(chunk, across))
        j0 = b.let("j0", remainder(chunk, across) * n["column_block"])
        width = b.let("width", minimum(n["columns"] - j0, n["column_block"]))
        starts = {
            "out": j0,
            "a": Const(i64, 0),
            "b": j0,
            "added": j0 * n["added_column"],
        }
        out, left, right, added = (
            b.let(key, moved(p[key], batch * n[f"{key}_batch"] + start))
            for key, start in starts.items()
        )
        sums = out if after is None else waiting
        with b.when(n["added"] == 0), b.loop("j", 0, width) as j:
            b.store(sums, j, Const(compute, 0))
        with b.when(n["added"] != 0), b.loop("j", 0, width) as j:
            b.store(sums, j, load(added, j * n["added_column"]))

        def add_rows(k, rows):
            values = [
                b.let(
                    "value",
                    Broadcast(
                        lanes, cast(compute, load(left, (k + r) * n["a_column"]))
                    ),
                )
                for r in range(rows)
            ]
            lines = [
                b.let("row", moved(right, (k + r) * n["b_row"])) for r in range(rows)
            ]

            def add(j, mask=None):
                total = load(sums, j, lanes, mask=mask)
                for value, line in zip(values, lines, strict=True):
                    other = cast(compute, load(line, j, lanes, mask=mask))
                    total = multiply_add(value, other, total)
                b.store(sums, j, total, mask)

            full = b.let("full", width - remainder(width, lanes))
            with b.loop("j", 0, full, lanes) as j:
                add(j)
            with b.when(full < width):
                add(full, b.let("mask", lane_mask(lanes, width - full)))

        whole = b.let("whole", n["depth"] - remainder(n["depth"], COMBINED_ROWS))
        with b.loop("k", 0, whole, COMBINED_ROWS) as k:
            add_rows(k, COMBINED_ROWS)
        with b.loop("k", whole, n["depth"]) as k:
            add_rows(k, 1)
        if after is not None:
            others = [
                Operand(other.at(batch, j0), other.row, other.row) for other in besides
            ]
            apply(b, after, sums, out, width, others)
    return ir.kernel(name, rolled(b.statements))


FLIPPED_ROWS = 64  # rows of the result that a chunk writes to
TURN_INTS = """
    rows columns in_row out_row parts in_part in_batch out_batch
""".split()


def turned_sum(name, compute, lanes) -> ir.Function:
    """``out[j, i] = sum_s in[s, i, j]``, for each matrix of a batch.

    Squares of ``lanes`` elements are added up and turned in registers. The parallel
    axis counts blocks of ``lanes`` i, then of `FLIPPED_ROWS` j, then the batch: as many rows
    of the result as there are pages at hand are filled before the next ones.
    """
    b = Builder()
    n = {key: b.let(key, ir.integer(i)) for i, key in enumerate(TURN_INTS)}
    pointers = [
        b.let(key, ir.argument(i, compute)) for i, key in enumerate(("out", "source"))
    ]
    zero = Const(compute.vector(lanes), 0)
    down = b.let("down", blocks_of(n["rows"], Const(i64, lanes)))
    across = b.let("across", blocks_of(n["columns"], Const(i64, FLIPPED_ROWS)))
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        rest = b.let("rest", quotient(chunk, down))
        batch = b.let("batch", quotient(rest, across))
        j0 = b.let("j0", remainder(rest, across) * FLIPPED_ROWS)
        end = b.let("end", minimum(j0 + FLIPPED_ROWS, n["columns"]))
        out, source = (
            b.let(key, moved(p, batch * n[stride]))
            for key, stride, p in zip(
                ("result", "squares"), ("out_batch", "in_batch"), pointers, strict=True
            )
        )
        i0 = b.let("i0", remainder(chunk, down) * lanes)
        kept = b.let("kept", lane_mask(lanes, n["rows"] - i0))
        starts = [
            b.let("start", minimum(i0 + i, n["rows"] - 1) * n["in_row"])
            for i in range(lanes)
        ]
        with b.loop("j", j0, end, lanes) as j:
            mask = b.let("mask", lane_mask(lanes, end - j))
            sums = [b.declare("sum", zero) for _ in starts]
            with b.loop("s", 0, n["parts"]) as s:
                for total, start in zip(sums, starts, strict=True):
                    at = s * n["in_part"] + start + j
                    b.assign(total, total + load(source, at, lanes, mask=mask))
            for i, vector in enumerate(
                transpose(b, [b.let("line", s + 0) for s in sums])
            ):
                with b.when(j + i < end):
                    b.store(out, (j + i) * n["out_row"] + i0, vector, kept)
    return ir.kernel(name, rolled(b.statements))
