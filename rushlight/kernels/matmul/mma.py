"""Products of matrices by the matrix units of a device: a warp's product is one step.

The division into tiles, and what is brought into shared memory, are those of
`kernels.matmul.device_tiles`; only who multiplies is another. A warp has 32 rows and 32
columns of the block's tile, as two by four products of 16 rows and 8 columns. Values are
kept as the units take them, a row's along the depth, with a gap that leads neighbouring
rows to other banks.

Follows CUTLASS's warp-level products (`cutlass::gemm::warp`, NVIDIA).
"""

from rushlight.ir import expr as ir
from rushlight.ir.expr import Barrier
from rushlight.kernels.matmul import device_tiles
from rushlight.kernels.matmul.device_tiles import BlockTile, Writer
from rushlight.kernels.mma_tiles import SUMS, add_product, place_of_sum

WARP = 32
SPAN = 32  # rows, and columns, of a warp
ROWS, COLUMNS = 16, 8  # of one product
GAP = 8  # values behind each row of a slice

SMALL, TILE, LARGE = (
    BlockTile(32, 32, 32, 4),
    BlockTile(64, 64, 16, 4),
    BlockTile(128, 128, 32, 4),
)
MANY = 512  # rows, and columns, that are enough for the large ones
LEAST = (
    ROWS,
    COLUMNS,
    COLUMNS,
)  # rows, columns and depth for which units are worth while


def tile_for(rows, columns) -> BlockTile:
    """The tile for a result of some size.

    >>> [threads_of(tile_for(size, 600)) for size in (20, 500, 600)]
    [32, 128, 512]
    """
    least = min(rows, columns)
    return SMALL if least <= SPAN else TILE if least < MANY else LARGE


def take(element, compute, sizes, short) -> bool:
    """Whether units multiply values of a type, in matrices of such sizes.

    Args:
        element, compute: names of the types of factors and of sums.
        sizes: rows, columns and depth.
        short: whether float32 may be rounded to TF32.

    >>> take("float16", "float32", (64, 64, 64), False)
    True
    >>> take("float32", "float32", (64, 64, 64), False)
    False
    """
    known = element in ("float16", "bfloat16") or element == "float32" and short
    enough = all(size >= least for size, least in zip(sizes, LEAST, strict=True))
    return known and compute == "float32" and enough


def product(name, element, tile=TILE, result=None) -> ir.Function:
    """As `tiles.product`, of halves or of floats rounded to TF32, with sums in float32.

    Args:
        tile: of whole warps; each of its block's threads sums 32 elements.
    """
    return device_tiles.product(name, element, ir.f32, tile, Units, result)


def threads_of(tile):
    """How many threads a block of a tile has."""
    return tile.rows * tile.columns // SPAN**2 * WARP


class Units(Writer):
    """Writes the program of one block whose warps multiply by their units."""

    at_once = 4  # addresses are of two registers each

    def kept_type(self, pointers, compute):
        return pointers["left"].type.element

    def size(self, count):
        return count * (self.tile.depth + GAP)

    def kept_at(self, count, k, i):
        return i * (self.tile.depth + GAP) + k

    def bring(self, operand, base, count, *place):
        """A slice of an operand, by this block's threads."""
        threads = threads_of(self.tile)
        self.bring_by(threads, operand, base, count, *place)

    def multiply(self, first_row, first_column, batch):
        b, tile = self.b, self.tile
        left, right = self.base("left", batch), self.base("right", batch)
        halves = self.kept != ir.f32
        depth = 16 if halves else 8
        wide = tile.columns // SPAN
        warp, lane = (
            b.let("warp", self.thread // WARP),
            b.let("lane", self.thread % WARP),
        )
        group, pair = b.let("group", lane // 4), b.let("pair", lane % 4)
        row = b.let("row", warp // wide * SPAN + group)
        column = b.let("column", warp % wide * SPAN)
        zero = ir.Const(ir.f32, 0)
        sums = {
            (m, n): [b.declare("sum", zero) for _ in range(SUMS)]
            for m in range(SPAN // ROWS)
            for n in range(SPAN // COLUMNS)
        }
        with b.loop("begun", 0, self.depth, tile.depth, kind="rolled") as start:
            self.bring_both(left, first_row, right, first_column, start)
            for k in range(0, tile.depth, depth):
                lefts = [
                    self.lefts(row + m * ROWS, k, pair, halves)
                    for m in range(SPAN // ROWS)
                ]
                rights = [
                    self.rights(column + n * COLUMNS + group, k, pair, halves)
                    for n in range(SPAN // COLUMNS)
                ]
                for (m, n), own in sums.items():
                    add_product(b, own, lefts[m], rights[n])
            b.add(Barrier())
        self.put_all(
            [
                (
                    total,
                    first_row + row + (m * ROWS + down),
                    first_column + column + 2 * pair + along,
                )
                for (m, n), own in sums.items()
                for p, total in enumerate(own)
                for down, along in [place_of_sum(SUMS * n + p)]
            ],
            batch,
        )

    def lefts(self, row, k, pair, halves):
        """A lane's share of the left factor, in the order of the instruction."""
        if halves:
            positions = [
                (n // 2 % 2, 2 * pair + n % 2 + 8 * (n // 4)) for n in range(8)
            ]
        else:
            positions = [(n % 2, pair + 4 * (n // 2)) for n in range(4)]
        return [
            self.held("left", row + 8 * down, k + along) for down, along in positions
        ]

    def rights(self, column, k, pair, halves):
        """A lane's share of the right factor."""
        if halves:
            positions = [2 * pair + n % 2 + 8 * (n // 2) for n in range(4)]
        else:
            positions = [pair + 4 * n for n in range(2)]
        return [self.held("right", column, k + along) for along in positions]

    def held(self, operand, i, k):
        """A value of a slice."""
        return self.b.let("held", ir.load(self.shared[operand], self.kept_at(0, k, i)))
