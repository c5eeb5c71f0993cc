"""A product of matrices as a user schedules it, beside the built-in one."""

from __future__ import annotations

import time

import rushlight as rl
from rushlight import te
from rushlight.codegen.target import current

SIZES = {192: 150, 512: 60, 1024: 15}  # and how often each is called
# Numbers of a vector, and tiles that its registers hold: of so many rows and columns, and
# whether columns are copied. Tails are left where a size is no multiple of a tile's.
WIDE = 16, ((8, 32, False), (8, 32, True), (12, 32, True), (8, 48, True))
AVX2 = 8, ((6, 16, False), (6, 16, True), (4, 24, True))


def product(size, lanes, rows, columns, packed):
    """A built product whose sums stay in registers, in tiles of so many rows and columns.

    Args:
        lanes: numbers of a vector.
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
        s[copy].vectorize(s[copy].split(copy.axis[1], lanes)[1])
    s[sums].compute_at(s[c], down if packed else across)
    vectors, part = s[sums].split(sums.axis[1], lanes)
    s[sums].reorder(k, sums.axis[0], vectors, part)
    pieces, piece = s[c].split(column, lanes)
    for stage, unrolled, inner in (
        (s[sums], (sums.axis[0], vectors), part),
        (s[c], (row, pieces), piece),
    ):
        for axis in unrolled:
            stage.unroll(axis)
        stage.vectorize(inner)
    return te.build(s, [a, b, c])


def once(function, *args, **named):
    """The seconds of a call."""
    start = time.perf_counter()
    function(*args, **named)
    return time.perf_counter() - start


def measure(size, times):
    """The least seconds of each product and of the built-in one, called in turn."""
    x, y, out = rl.randn(size, size), rl.randn(size, size), rl.empty(size, size)
    lanes, tiles = WIDE if current().has("v4") else AVX2
    built = {tile: product(size, lanes, *tile) for tile in tiles}
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
