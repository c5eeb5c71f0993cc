"""How contractions are cut: register tiles, cache blocks, chunks for the threads.

Everything here depends on sizes and on the instruction set alone, never on the number
of threads, so a product has the same bits on any of them.
"""

from dataclasses import dataclass

SHORT_ROW, SHORT_ROWS = 1024, 2048  # bytes; see `Tile`
DEPTH = 384  # products that a chain of sums adds up: their order, on every processor
ITEMSIZES = {"float32": 4, "float64": 8, "int32": 4, "int64": 8}


@dataclass(frozen=True)
class Tile:
    """The blocking of one matrix product.

    A register tile holds ``rows`` x ``vectors`` accumulators of ``lanes`` each. A block
    of ``depth`` x ``columns`` of the right operand is packed once and stays in the
    second-level cache, while rows of the left one stream past it through the first.
    On one Zen 4 core 6 x 4 vectors of 16 reach 116 of 118 GFLOP/s from cache, and
    depths from 192 to 512 with 768 to 256 columns are within 3 % of one another.

    A right operand of at most ``short`` columns is read in place, rows of a copy being no
    better for the caches: 2 KB, as longer rows share too few sets of them, and 1 KB where
    a tile reads one line of the cache of each row. For ``combined`` rows or fewer, whole
    rows of a large one are added up: such a tile would wait for each line of it.
    """

    lanes: int
    rows: int
    vectors: int
    depth: int
    columns: int
    short: int = 512
    combined: int = 3

    @property
    def width(self) -> int:
        """Columns of a register tile."""
        return self.lanes * self.vectors

    @property
    def strips(self) -> int:
        """Rows that are copied at once where rows are adjacent: whole cache lines of them."""
        return 8 * self.rows

    @property
    def heights(self) -> tuple:
        """Rows of the tiles that are there, the highest first."""
        return tuple(sorted({self.rows, min(4, self.rows), min(2, self.rows)}))[::-1]

    @property
    def widths(self) -> tuple:
        """Vectors across the tiles that are there, the widest first."""
        return tuple(sorted({self.vectors, min(2, self.vectors), 1}))[::-1]


def matrix_tile(dtype: str, target) -> Tile:
    """The tile for products that accumulate in ``dtype`` on a `Target`."""
    itemsize = ITEMSIZES[dtype]
    lanes = target.lanes(itemsize)
    vectors = 4 if target.registers >= 32 else 2
    width = lanes * vectors
    block = target.caches[1] - target.caches[0]
    columns = block // (DEPTH * itemsize) // width * width
    short, combined = (SHORT_ROWS, 3) if width * itemsize > 64 else (SHORT_ROW, 8)
    return Tile(lanes, 6, vectors, DEPTH, columns, short // itemsize, combined)


def unit_tile() -> Tile:
    """The tile of a processor's unit of them: two by two squares of 16 words.

    Lanes and depth are words of 32 bits. Processors that have such units have 2 MB of
    second-level cache: a block of the right operand takes half of it, 32 rows of the left
    one two thirds of the first level.
    """
    return Tile(16, 32, 2, 256, 512)
