"""Sobol' sequences: points that fill a cube more evenly than random ones do.

Bit by bit: the direction numbers of a dimension are the columns of a matrix of bits, and
the coordinate of the n-th point is the sum modulo two, an exclusive or, of the columns
that the Gray code of n chooses. Neighbouring codes differ in one bit, so that each point
comes from the one before by one exclusive or, and a run of points from its first point.
"""

import functools
from pathlib import Path

from rushlight.core.dtype import get_default_dtype
from rushlight.core.dtypes import float32, float64, int64, uint8
from rushlight.io.interop import frombuffer
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor
from rushlight.operators.loop_calls import brief, scalar_name

BITS = 30
DIMENSIONS = 21201
# The direction numbers of S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better
# two-dimensional projections", SIAM J. Sci. Comput. 30, 2635-2654 (2008); packed by
# tools/direction_numbers.py.
TABLE = Path(__file__).with_name("direction_numbers.bin")


@functools.cache
def _table():
    """The polynomials from the second dimension on, and the bits of all numbers."""
    data = TABLE.read_bytes()
    polynomials, before = [], 1
    for step in data[: DIMENSIONS - 1]:
        before += 2 * step
        polynomials.append(before)
    octets = bytearray(data[DIMENSIONS - 1 :])
    return polynomials, frombuffer(octets, dtype=uint8)


def _first_numbers(octets, start, count, degree):
    """The numbers that the table has of so many dimensions: one row for each."""
    width = degree * (degree - 1) // 2
    first, last = start // 8, -(-(start + count * width) // 8)
    octets = octets[first:last].to(int64)
    bits = ops.bitwise_and(octets.unsqueeze(1) >> ops.arange(7, -1, -1), 1)
    bits = bits.reshape(-1)[start % 8 :][: count * width].reshape(count, width)
    columns, at = [], 0
    for i in range(degree):
        number = ops.ones(count, dtype=int64)
        for j in range(i):
            number = number + (bits[:, at + j] << (i - j))
        columns.append(number)
        at += i
    return columns


def _recurred(columns, polynomials, degree):
    """All the numbers of dimensions whose polynomials have one degree."""
    given = tensor(polynomials, dtype=int64)
    chosen = [-ops.bitwise_and(given >> (degree - 1 - k), 1) for k in range(degree)]
    for i in range(degree, BITS):
        number = columns[i - degree]
        for k in range(degree):
            # what the polynomial leaves out is masked away
            term = ops.bitwise_and(columns[i - k - 1] << (k + 1), chosen[k])
            number = ops.bitwise_xor(number, term)
        columns.append(number)
    return ops.stack(columns[:BITS], 1)


def initialize_state(self, dimension):
    """Direction numbers as fractions of ``2**30``: a row for each dimension."""
    if not 0 < dimension <= DIMENSIONS:
        raise RuntimeError(
            f"a Sobol' sequence has from 1 to {DIMENSIONS} dimensions, not {dimension}"
        )
    rows = [ops.ones(1, BITS, dtype=int64)]
    polynomials, octets = _table()
    done, place = 0, 0
    while done < dimension - 1:
        degree = polynomials[done].bit_length() - 1
        alike = polynomials[done : dimension - 1]
        alike = [p for p in alike if p.bit_length() - 1 == degree]
        columns = _first_numbers(octets, place, len(alike), degree)
        rows.append(_recurred(columns, alike, degree))
        done += len(alike)
        place += len(alike) * (degree * (degree - 1) // 2)
    numbers = ops.cat(rows) << ops.arange(BITS - 1, -1, -1)
    return self.copy_(numbers)


def scramble(self, ltm, dimension):
    """Multiplies each dimension's matrix of bits with a triangle that has ones in front.

    Row ``p`` of a triangle says which bits of a direction number add up to its bit ``p``,
    the highest first.
    """
    triangles = ltm.to(int64).clone()
    triangles.diagonal(dim1=-2, dim2=-1).fill_(1)
    positions = ops.arange(BITS - 1, -1, -1)
    bits = ops.bitwise_and(self.unsqueeze(-1) >> positions, 1)  # dimension, column, bit
    # sums of thirty bits are exact in any type that has a product
    sums = (bits.double() @ triangles.double().mT).to(int64)
    return self.copy_((ops.bitwise_and(sums, 1) << positions).sum(-1))


def _check(quasi, sobolstate, dimension):
    if quasi.dtype != int64:
        raise RuntimeError(f"quasi needs to be of type Long\n  quasi: {brief(quasi)}")
    if sobolstate.dtype != int64:
        raise RuntimeError(
            f"sobolstate needs to be of type Long\n  sobolstate: {brief(sobolstate)}"
        )


def _moved(quasi, codes, sobolstate):
    """A point moved by each of the Gray codes in which others differ from its own."""
    points = quasi.unsqueeze(0).expand(codes.shape[0], quasi.shape[0])
    highest = int(codes.max()) if codes.numel() else 0
    for bit in range(highest.bit_length()):
        if bit >= BITS:
            raise RuntimeError(f"a Sobol' sequence has 2**{BITS} points")
        asked = -ops.bitwise_and(codes >> bit, 1)
        step = ops.bitwise_and(asked.unsqueeze(1), sobolstate[:, bit])
        points = ops.bitwise_xor(points, step)
    return points


def _codes(first, last, present):
    """How the Gray codes of some numbers differ from the present one's."""
    numbers = ops.arange(first, last + 1)
    gray = ops.bitwise_xor(numbers, numbers >> 1)
    return ops.bitwise_xor(gray, present ^ (present >> 1))


def fast_forward(self, n, sobolstate, dimension, num_generated):
    """The point ``n`` places on, in place; no place on where ``n`` is negative."""
    _check(self, sobolstate, dimension)
    if n > 0:
        place = num_generated + n
        codes = _codes(place, place, num_generated)
        self.copy_(_moved(self, codes, sobolstate)[0])
    return self


def draw(quasi, n, sobolstate, dimension, num_generated, dtype):
    """``n`` points after ``quasi``, as fractions, and the last as integers.

    Raises:
        NotImplementedError: points of such a dtype are not drawn.
        RuntimeError: the state is not of integers, or ``n`` is negative.
    """
    _check(quasi, sobolstate, dimension)
    dtype = get_default_dtype() if dtype is None else dtype
    if n < 0:
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {n}: [{n}, {dimension}]"
        )
    if dtype not in (float32, float64):
        raise NotImplementedError(
            f"\"_sobol_engine_draw\" not implemented for '{scalar_name(dtype)}'"
        )
    if n == 0:
        return ops.empty(0, dimension, dtype=dtype), quasi.clone()
    codes = _codes(num_generated + 1, num_generated + n, num_generated)
    points = _moved(quasi, codes, sobolstate)
    return points.to(dtype) * 2.0**-BITS, points[-1].clone()
