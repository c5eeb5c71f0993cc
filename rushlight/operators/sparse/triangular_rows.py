"""Systems of triangular matrices compressed by rows: each row is read once, where it lies."""

from __future__ import annotations

from rushlight.codegen.loops import T, i64, loops, loops_inline, vectorized
from rushlight.core import layout as layouts
from rushlight.operators import call as ops
from rushlight.operators.indexing.indexing_kernels import checked
from rushlight.operators.linalg.linalg_checks import check_older_form, joint_batch
from rushlight.operators.loop_calls import (
    fault_flag,
    name_of,
    refuse_fault,
    require,
    run,
)
from rushlight.operators.sparse.row_products import no_column
from rushlight.operators.sparse.sparse_compressed import parts
from rushlight.operators.type_groups import PRECISE


@loops_inline
def subtract(x, target, source, weight, width, begin, end):
    """Takes a row, weighed, from another: some columns of both."""
    out, other = target * width + begin, source * width + begin
    for c in vectorized(end - begin):
        x[out + c] = x[out + c] - weight * x[other + c]


@loops
def substitute(
    x: "T*", starts: "I*", columns: "I*", values: "T*", fault: "i64*", rows: int,
    width: int, upper: int, transposed: int, unit: int, begin: int, end: int,
):  # fmt: skip
    """Solves in place for the columns from ``begin`` on: rows in the order of dependence.

    A row takes off what it has of rows before it, and is divided; of the transposed
    matrix it is divided, and taken off the rows behind it.
    """
    for step in range(rows):
        row = i64(step)
        if upper != transposed:
            row = rows - 1 - row
        diagonal, stored = T(unit), i64(unit)
        for k in range(i64(starts[row]), i64(starts[row + 1])):
            column = checked(i64(columns[k]), rows, fault)
            if column == row and unit == 0:
                diagonal, stored = diagonal + values[k], i64(1)
            ahead = column > row if upper == 1 else column < row
            if ahead and transposed == 0:
                subtract(x, row, column, values[k], width, begin, end)
        if stored == 0:  # a matrix without the place has no number there
            diagonal = T(0) / T(0)
        for c in vectorized(end - begin):
            x[row * width + begin + c] = x[row * width + begin + c] / diagonal
        if transposed == 1:
            for k in range(i64(starts[row]), i64(starts[row + 1])):
                column = checked(i64(columns[k]), rows, fault)
                if column > row if upper == 1 else column < row:
                    subtract(x, column, row, values[k], width, begin, end)


def solved(matrix, right, upper, transposed, unit):
    """The solution of a triangle's equation; what it has beyond the triangle is not read.

    Args:
        matrix: where rows begin, columns and values.
        right: a matrix of right-hand sides.
        upper, transposed, unit: which triangle, whether transposed, and of ones.

    Raises:
        IndexError: a column lies outside of the matrix.
    """
    starts, columns, values = matrix
    out, flag = right.clone(memory_format=layouts.contiguous_format), fault_flag(right)
    operands = [
        out,
        starts.contiguous(),
        columns.contiguous(),
        values.contiguous(),
        flag,
    ]
    rows, width = out.shape
    ints = [rows, width, int(upper), int(transposed), int(unit)]
    types = {"T": name_of(values.dtype), "I": name_of(columns.dtype)}
    run(substitute, operands, ints, width if rows else 0, values.shape[0], **types)
    refuse_fault(flag, "triangular_solve", no_column, rows)
    return out


def triangular_solve(self, A, upper, transpose, unitriangular):
    """The older form with a triangle that is compressed by rows, of numbers or of blocks.

    Raises:
        ValueError: it is compressed by columns.
        RuntimeError: sizes or dtypes don't fit, or the right-hand sides are sparse.
    """
    if A.layout in (layouts.sparse_csc, layouts.sparse_bsc):
        raise ValueError("triangular_solve: unsupported sparse layout.")
    if self.layout is not layouts.strided:
        raise RuntimeError(
            f"triangular_solve: expected dense right-hand sides, but got {self.layout}"
        )
    check_older_form(self, A)
    require("triangular_solve_out_sparse_csr_impl_mkl", A.dtype, PRECISE, A)
    if A.layout is not layouts.sparse_csr:
        A = ops.to_sparse_csr(ops.to_sparse_coo(A))
    batch = joint_batch(A, self)
    right = self.expand((*batch, *self.shape[-2:]))
    flags = upper, transpose, unitriangular
    if A.ndim == 2:
        columns = right.movedim(-2, 0)
        found = solved(parts(A), columns.flatten(1), *flags)
        found = found.view(columns.shape).movedim(0, -2).contiguous()
    else:
        lists = [each.expand((*batch, -1)).flatten(0, -2) for each in parts(A)]
        systems = zip(zip(*lists), right.flatten(0, -3))
        found = ops.stack([solved(matrix, each, *flags) for matrix, each in systems])
        found = found.view(right.shape)
    return found, ops.new_empty(self, [0])
