"""Products with a vector, and matrices turned over: loops that only stream memory."""

from functools import partial

from rushlight.codegen.schedule.contraction import DEPTH
from rushlight.codegen.schedule.register_transpose import transpose
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Const, cast, i64, load
from rushlight.kernels.epilogue import operands_of, store_result
from rushlight.kernels.loop_helpers import (
    DEPTH_BLOCK,
    blocks_of,
    lane_mask,
    minimum,
    moved,
    multiply_add,
    planned,
    quotient,
    remainder,
    rolled,
    vector_loop,
)
from rushlight.kernels.matmul.product_arguments import (
    arrays_of,
    blocks_across,
    columns_of_chunk,
)
from rushlight.kernels.micro_kernels import dot_products

DOT_ROWS = 4
DOT_VECTORS = 2


def dots(name, a_type, b_type, compute, lanes, epilogue=None) -> ir.Function:
    """``out[i] = sum_k a[i, k] b[k] + added[i]``: rows of adjacent elements.

    Four rows share each piece of the vector. The parallel axis counts blocks of rows,
    then batches. Data: out, a, b, added, and the epilogue's.
    """
    b = Builder()
    n = planned(b, "dots")
    p = arrays_of(b, a_type, b_type, compute, epilogue)
    besides = operands_of(b, epilogue, "dots")
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
            if epilogue is not None:
                values = [load(other.at(batch, i).pointer, 0) for other in besides]
                value = epilogue.apply(total, values)
            store_result(b, p_now["out"], i * n["out_row"], value)

        with b.loop("i", i0, whole, DOT_ROWS) as i:
            dot_rows(b, n, p_now, compute, lanes, i, DOT_ROWS, finished)
        with b.loop("i", whole, stop) as i:
            dot_rows(b, n, p_now, compute, lanes, i, 1, finished)
    return ir.kernel(name, rolled(b.statements))


def dot_rows(b, n, p, compute, lanes, first, rows, put):
    """The results of ``rows`` rows from ``first``, each given to ``put``."""
    starts = [b.let("start", (first + i) * n["a_row"]) for i in range(rows)]

    def sums_of(k0):
        def read(pointer, start, k, mask):
            at = k if start is None else start + k
            return cast(compute, load(pointer, at, lanes, mask=mask))

        end = b.let("end", minimum(k0 + DEPTH_BLOCK, n["depth"]))
        lines = [partial(read, p["a"], start) for start in starts]
        columns = [partial(read, p["b"], None)]
        span = k0, end
        kind = compute.vector(lanes)
        return [s for (s,) in dot_products(b, kind, lines, columns, span, DOT_VECTORS)]

    if rows == 1:
        total = b.declare("total", Const(compute, 0))
        with b.loop("block", 0, n["depth"], DEPTH_BLOCK) as k0:
            (sum_of_block,) = sums_of(k0)
            b.assign(total, total + sum_of_block)
        put(first, total)
        return
    totals = b.array("totals", compute, rows)
    for i in range(rows):
        b.store(totals, i, Const(compute, 0))
    with b.loop("block", 0, n["depth"], DEPTH_BLOCK) as k0:
        for i, value in enumerate(sums_of(k0)):
            b.store(totals, i, load(totals, i) + value)
    with b.loop("r", 0, rows) as r:
        put(first + r, b.declare("total", load(totals, r)))


COMBINED_ROWS = 8
COMBINED_COLUMNS = 4096  # sums of all rows that stay in the first-level cache


def combine(name, a_type, b_type, compute, lanes, epilogue=None) -> ir.Function:
    """``out[i, j] = sum_k a[i, k] b[k, j] + added[i, j]``: rows of adjacent elements.

    Eight whole rows of ``b`` at a time are added to sums that stay in the L1 cache: memory is
    read in long runs (4096: 2.3 ms, against 5.2 as a product of register tiles), and once for
    the few rows of ``a``; with an epilogue there is one. Sums are of blocks of the depth, in
    the order of register tiles: a row has the same bits beside any others. The parallel axis
    counts blocks of columns, then batches. Data as for `dots`.
    """
    b = Builder()
    n = planned(b, "combine")
    p = arrays_of(b, a_type, b_type, compute, epilogue)
    besides = operands_of(b, epilogue, "combine")
    waiting = None
    if epilogue is not None:
        waiting = b.array("waiting", compute, COMBINED_COLUMNS)
    parts = b.array("parts", compute, COMBINED_COLUMNS)
    across = blocks_across(b, n)
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        batch, j0, width = columns_of_chunk(b, n, chunk, across)
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
        sums = out if epilogue is None else waiting
        with b.loop("i", 0, n["rows"]) as i:
            line = b.let("line", moved(sums, i * n["out_row"]))
            begin_sums(b, n, line, moved(added, i * n["added_row"]), width)
        with b.loop("k0", 0, n["depth"], DEPTH) as k0:
            end = b.let("end", minimum(k0 + DEPTH, n["depth"]))
            combine_rows(b, n, left, right, parts, (k0, end), width, lanes)
            with b.loop("i", 0, n["rows"]) as i:
                line = b.let("line", moved(sums, i * n["out_row"]))
                part = b.let("part", moved(parts, i * n["column_block"]))

                def add(j, mask, _, line=line, part=part):
                    pair = (load(x, j, lanes, mask=mask) for x in (part, line))
                    b.store(line, j, next(pair) + next(pair), mask)

                vector_loop(b, "j", 0, width, lanes, add)
        if epilogue is not None:
            others = [other.at(batch, j0) for other in besides]
            epilogue.write_row(b, sums, out, width, others)
    return ir.kernel(name, rolled(b.statements))


def begin_sums(b, n, sums, added, width):
    """Sums begin with zero, or with what is added to them."""
    with b.when(n["added"] == 0), b.loop("j", 0, width) as j:
        b.store(sums, j, Const(sums.type.element, 0))
    with b.when(n["added"] != 0), b.loop("j", 0, width) as j:
        b.store(sums, j, load(added, j * n["added_column"]))


def combine_rows(b, n, left, right, parts, span, width, lanes):
    """Adds up some rows of the right operand, times the elements of each left row."""
    compute = parts.type.element
    first, stop = span

    def add_rows(k, rows):
        lines = [b.let("row", moved(right, (k + r) * n["b_row"])) for r in range(rows)]
        with b.loop("i", 0, n["rows"]) as i:
            start, part = (
                i * n["a_row"],
                b.let("part", moved(parts, i * n["column_block"])),
            )
            values = [
                cast(compute, load(left, start + (k + r) * n["a_column"]))
                for r in range(rows)
            ]
            values = [b.let("value", Broadcast(lanes, value)) for value in values]

            def add(j, mask, _):
                total = load(part, j, lanes, mask=mask)
                for value, line in zip(values, lines, strict=True):
                    other = cast(compute, load(line, j, lanes, mask=mask))
                    total = multiply_add(value, other, total)
                b.store(part, j, total, mask)

            vector_loop(b, "j", 0, width, lanes, add)

    with b.loop("j", 0, n["rows"] * n["column_block"], lanes) as j:
        b.store(parts, j, Broadcast(lanes, Const(compute, 0)))
    whole = b.let("whole", stop - remainder(stop - first, COMBINED_ROWS))
    with b.loop("k", first, whole, COMBINED_ROWS) as k:
        add_rows(k, COMBINED_ROWS)
    with b.loop("k", whole, stop) as k:
        add_rows(k, 1)


FLIPPED_ROWS = 64  # rows of the result that a chunk writes to
TRANSPOSED_INTS = """
    rows columns in_row out_row parts in_part in_batch out_batch
""".split()


def transposed_sum(name, compute, lanes) -> ir.Function:
    """``out[j, i] = sum_s in[s, i, j]``, for each matrix of a batch.

    Squares of ``lanes`` elements are added up and turned in registers. The parallel
    axis counts blocks of ``lanes`` i, then of `FLIPPED_ROWS` j, then the batch: as many rows
    of the result as there are pages at hand are filled before the next ones.
    """
    b = Builder()
    n = {key: b.let(key, ir.integer(i)) for i, key in enumerate(TRANSPOSED_INTS)}
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
