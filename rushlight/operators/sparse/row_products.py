"""Matrices compressed by rows times dense ones: rows are weighed and added up."""

from __future__ import annotations

from rushlight.codegen.loops import A, T, i64, local, loops, loops_inline, vectorized
from rushlight.operators.indexing.indexing_kernels import checked
from rushlight.operators.loop_calls import fault_flag, fresh, name_of, refuse_fault, run

# Widths that have a kernel of their own, whose sums stay in registers.
FROZEN = (1, 2, 4, 8, 16, 32, 64)


@loops_inline
def row_of(columns, k, depth, width, fault):
    """Where the row that a column names begins."""
    return checked(i64(columns[k]), depth, fault) * width


@loops_inline
def add_four(mass, dense, columns, values, k, depth, width, fault, start, count):
    """Adds parts of four rows at once: sums go to memory and back once for all of them."""
    a = row_of(columns, k, depth, width, fault) + start
    b = row_of(columns, k + 1, depth, width, fault) + start
    c = row_of(columns, k + 2, depth, width, fault) + start
    d = row_of(columns, k + 3, depth, width, fault) + start
    p, q = A(values[k]), A(values[k + 1])
    r, s = A(values[k + 2]), A(values[k + 3])
    for i in vectorized(count):
        two = mass[i] + p * A(dense[a + i]) + q * A(dense[b + i])
        mass[i] = two + r * A(dense[c + i]) + s * A(dense[d + i])


@loops_inline
def add_rows(mass, dense, columns, values, first, last, depth, width, fault, start):
    """Adds parts of all rows that the columns of one row name."""
    count = min(width - start, 256)
    k = first + 0
    while k + 4 <= last:
        add_four(mass, dense, columns, values, k, depth, width, fault, start, count)
        k = k + 4
    while k < last:
        at = row_of(columns, k, depth, width, fault) + start
        weight = A(values[k])
        for i in vectorized(count):
            mass[i] = mass[i] + weight * A(dense[at + i])
        k = k + 1


@loops_inline
def dot(dense, columns, values, first, last, depth, fault):
    """The same of a vector: two sums, which do not wait for each other."""
    total = A(0)
    other = A(0)
    k = first + 0
    while k + 2 <= last:
        a = checked(i64(columns[k]), depth, fault)
        b = checked(i64(columns[k + 1]), depth, fault)
        total = total + A(values[k]) * A(dense[a])
        other = other + A(values[k + 1]) * A(dense[b])
        k = k + 2
    if k < last:
        place = checked(i64(columns[k]), depth, fault)
        total = total + A(values[k]) * A(dense[place])
    return total + other


@loops
def weigh_kernel(
    out: "T*", dense: "T*", starts: "I*", columns: "I*", values: "T*", fault: "i64*",
    depth: int, width: int, stored: int, begin: int, end: int,
):  # fmt: skip
    """Each row's values times the rows that its columns name."""
    mass = local("A", 256)
    for row in range(begin, end):
        first = max(i64(starts[row]), i64(0))
        last = min(i64(starts[row + 1]), stored)
        if width == 1:
            out[row] = T(dot(dense, columns, values, first, last, depth, fault))
        else:
            for start in range(0, width, 256):
                count = min(width - start, 256)
                for i in vectorized(count):
                    mass[i] = A(0)
                add_rows(
                    mass,
                    dense,
                    columns,
                    values,
                    first,
                    last,
                    depth,
                    width,
                    fault,
                    start,
                )
                for i in vectorized(count):
                    out[row * width + start + i] = T(mass[i])


def serves(values, dense):
    """Whether rows are weighed here: numbers of one type and device, one for each place."""
    return (
        values.ndim == 1
        and values.shape[0]
        and values.device == dense.device
        and dense.ndim == 2
        and values.dtype is dense.dtype
        and values.dtype.is_floating_point
    )


def weigh_rows(starts, columns, values, dense):
    """A matrix compressed by rows, times a dense one.

    Args:
        starts: where each row begins among the values, and where the last ends.
        columns: of each value.
        values: what is stored.
        dense: a matrix of as many rows as there are columns.

    Raises:
        IndexError: a column lies outside of the matrix.
    """
    rows, (depth, width) = starts.shape[0] - 1, dense.shape
    out, flag = fresh(dense, (rows, width)), fault_flag(dense)
    operands = [
        out, dense.contiguous(), starts.contiguous(), columns.contiguous(),
        values.contiguous(), flag,
    ]  # fmt: skip
    stored = values.shape[0]
    types = {"T": name_of(values.dtype), "I": name_of(columns.dtype)}
    if width in FROZEN:
        types["width"] = width
    work = max(1, width * -(-stored // max(rows, 1)))
    ints = [depth, width, stored]
    run(weigh_kernel, operands, ints, rows if width else 0, work, **types)
    refuse_fault(flag, "sparse.mm", no_column, depth)
    return out


def no_column(fault, depth):
    """The error for a column that a matrix does not have."""
    return IndexError(
        f"column {fault} lies outside of a matrix of {depth} columns\n  remedy: "
        "check the indices, as check_invariants=True does"
    )
