"""A product of matrices as a user schedules it, beside the built-in one."""

from __future__ import annotations

import time

import rushlight as rl
from rushlight import te

SIZE, TIMES = 192, 150


def product(rows, columns):
    """A built product whose sums stay in registers, in tiles of so many rows and columns."""
    a, b = (te.placeholder((SIZE, SIZE), name=name) for name in "ab")
    k = te.reduce_axis((0, SIZE), name="k")
    c = te.compute(
        (SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c"
    )
    s = te.create_schedule(c)
    sums = s.cache_write(c)
    _, outer, row, column = s[c].tile(*c.axis, rows, columns)
    s[sums].compute_at(s[c], outer)
    vectors, lanes = s[sums].split(sums.axis[1], 16)
    s[sums].reorder(k, sums.axis[0], vectors, lanes)
    pieces, piece = s[c].split(column, 16)
    for stage, unrolled, lane in (
        (s[sums], (sums.axis[0], vectors), lanes),
        (s[c], (row, pieces), piece),
    ):
        for axis in unrolled:
            stage.unroll(axis)
        stage.vectorize(lane)
    return te.build(s, [a, b, c])


def once(function, *args, **named):
    """The seconds of a call."""
    start = time.perf_counter()
    function(*args, **named)
    return time.perf_counter() - start


def main():
    """Prints the least times of calls in turn, on one thread."""
    rl.set_num_threads(1)
    x, y, out = rl.randn(SIZE, SIZE), rl.randn(SIZE, SIZE), rl.empty(SIZE, SIZE)
    tiles = {
        (rows, columns): product(rows, columns) for rows, columns in ((8, 32), (12, 32))
    }
    least = dict.fromkeys([*tiles, "built in"], 1.0)
    for _ in range(TIMES):
        for tile, function in tiles.items():
            least[tile] = min(least[tile], once(function, x, y, out))
        least["built in"] = min(least["built in"], once(rl.mm, x, y, out=out))
    for name, seconds in least.items():
        print(f"{name}: {seconds * 1e6:.1f} µs")


if __name__ == "__main__":
    main()
