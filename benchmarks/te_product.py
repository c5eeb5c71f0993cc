"""A product of matrices as a user schedules it, beside the built-in one."""

from __future__ import annotations

import time

import rushlight as rl
from rushlight import te

SIZES = {192: 150, 512: 60, 1024: 15}  # and how often each is called
TILES = (8, 32, False), (8, 32, True)  # rows, columns, whether columns are copied
LANES = 16


def product(size, rows, columns, packed):
    """A built product whose sums stay in registers, in tiles of so many rows and columns.

    Args:
        packed: whether the columns of a tile are copied before all rows go past them.
    """
    a, b = (te.placeholder((size, size), name=name) for name in "ab")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute(
        (size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c"
    )
    s = te.create_schedule(c)
    sums = s.cache_write(c)
    down, across, row, column = s[c].tile(*c.axis, rows, columns)
    if packed:
        s[c].reorder(across, down, row, column)
        copy = s.cache_read(b, [sums])
        s[copy].compute_at(s[c], across)
        s[copy].vectorize(s[copy].split(copy.axis[1], LANES)[1])
    s[sums].compute_at(s[c], down if packed else across)
    vectors, lanes = s[sums].split(sums.axis[1], LANES)
    s[sums].reorder(k, sums.axis[0], vectors, lanes)
    pieces, piece = s[c].split(column, LANES)
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


def measure(size, times):
    """The least seconds of each product and of the built-in one, called in turn."""
    x, y, out = rl.randn(size, size), rl.randn(size, size), rl.empty(size, size)
    built = {tile: product(size, *tile) for tile in TILES}
    least = dict.fromkeys([*built, "built in"], 1.0)
    for _ in range(times):
        for tile, function in built.items():
            least[tile] = min(least[tile], once(function, x, y, out))
        least["built in"] = min(least["built in"], once(rl.mm, x, y, out=out))
    return least


def main():
    """Prints the least times of calls in turn, on one thread, and shares of the speed."""
    rl.set_num_threads(1)
    for size, times in SIZES.items():
        least = measure(size, times)
        for name, seconds in least.items():
            share = least["built in"] / seconds
            print(f"{size} {name}: {seconds * 1e6:.1f} µs, {share:.2f} of the speed")


if __name__ == "__main__":
    main()
