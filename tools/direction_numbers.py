"""Packs the direction numbers of Sobol' sequences from the published table.

``python -m tools.direction_numbers new-joe-kuo-6.21201`` reads the table that Stephen Joe
and Frances Kuo publish (https://web.maths.unsw.edu.au/~fkuo/sobol/): a line for each
dimension from the second on, with its number, the degree of its polynomial, the inner
coefficients of that, and as many direction numbers as the degree. SciPy's copy of the same
table (``scipy/stats/_sobol_direction_numbers.npz``) is read too.

What is written, beside the operators that unpack it: for each dimension half the
distance to the polynomial before, a byte, and then the numbers without their last bit,
which is always set: the i-th in as many bits as it may have, the first of which has none.
"""

from __future__ import annotations

import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "rushlight/operators/random/direction_numbers.bin"


def published(path):
    """Pairs of a polynomial's bits and the numbers of its dimension."""
    if path.suffix == ".npz":
        import numpy

        table = numpy.load(path)
        for bits, numbers in zip(table["poly"][1:], table["vinit"][1:], strict=True):
            degree = int(bits).bit_length() - 1
            yield int(bits), [int(number) for number in numbers[:degree]]
        return
    for line in path.read_text().splitlines()[1:]:
        _, degree, inner, *numbers = map(int, line.split())
        yield (1 << degree) | (inner << 1) | 1, numbers


def packed(rows):
    """The bytes of the whole table.

    Raises:
        ValueError: a polynomial or a number cannot be one of such a table.
    """
    steps, before, chunks = bytearray(), 1, []
    for polynomial, numbers in rows:
        step, odd = divmod(polynomial - before, 2)
        if odd or not 0 < step < 256:
            raise ValueError(f"polynomial {polynomial} cannot follow {before}")
        steps.append(step)
        before = polynomial
        for i, number in enumerate(numbers):
            if not number & 1 or number >> (i + 1):
                raise ValueError(f"{number} is no direction number at place {i + 1}")
            chunks.append(f"{number >> 1:0{i}b}" if i else "")
    text = "".join(chunks)
    text = text.ljust(-(-len(text) // 8) * 8, "0")
    octets = (int(text[i : i + 8], 2) for i in range(0, len(text), 8))
    return bytes(steps) + bytes(octets)


if __name__ == "__main__":
    TARGET.write_bytes(packed(published(Path(sys.argv[1]))))
