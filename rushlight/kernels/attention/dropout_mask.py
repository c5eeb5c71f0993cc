"""Which weights of attention dropout keeps: bits, by Philox, of each weight's place.

A weight's word is that of its place among all of them, batch by batch, head by head, query
by query, in the stream of the launch, as in PyTorch's memory-efficient kernel. So whoever
needs a weight again finds again whether it was kept: nothing is remembered but the seed
and the offset. A lane's 32 weights of a slice are one word of bits, drawn while there are
no scores yet: those and Philox would not have registers at the same time.
"""

import functools
import struct

from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, i64, u32, u64

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
STEPS = 0x9E3779B9, 0xBB67AE85  # of both halves of the key
ROUNDS = 10
FOUR = 4  # words that Philox gives at a time, of places in a row


class Dropout:
    """Draws for the lanes of a block; see `rushlight.kernels.attention.mma_blocks.Block`.

    Args:
        block: whose lanes they are.
        seed, offset: of the launch.
        least: the least word that keeps a weight.
        sizes: heads, queries and keys.
        transposed: whether a lane's rows are keys, not queries.
    """

    def __init__(self, block, seed, offset, least, sizes, transposed):
        self.b, self.block, self.transposed = block.b, block, transposed
        b = self.b
        self.key = [ir.cast(u32, seed), ir.cast(u32, seed >> 32)]
        self.offset = offset
        self.least = b.let("least", ir.cast(u32, least))
        self.heads, self.queries, self.keys = sizes
        self.whole = b.let("whole", ((offset | self.keys) & (FOUR - 1)) == 0)

    def bits(self, batch, head, row, column, count):
        """A lane's bits: those of its weights of ``count`` columns, in order.

        Four weights for each eight columns: two of a row, then two of the row eight below.

        Args:
            row: the first of the warp's 16.
            column: the first of the slice.
        """
        b = self.b
        line = (batch * self.heads + head) * self.queries * self.keys
        line = b.let("line", line + self.offset)
        bits = b.declare("bits", Const(u32, 0))
        with b.when(self.whole):
            self.by_fours(bits, line, row, column, count)
        with b.otherwise():
            self.one_by_one(bits, line, row, column, count)
        return bits

    def place(self, line, row, column):
        """The place in the stream of a weight of a lane's row and column."""
        query, key = (column, row) if self.transposed else (row, column)
        return line + query * self.keys + key

    def one_by_one(self, bits, line, row, column, count):
        """Each bit by a draw of its own: words of four lie in several rows."""
        b, block = self.b, self.block
        row = b.let("row", row + block.group)
        column = b.let("column", column + 2 * block.pair)
        with b.loop("bit", 0, count // 2, kind="rolled") as bit:
            at = row + bit // 2 % 2 * 8, column + (bit // 4 * 8 + bit % 2)
            place = b.let("place", self.place(line, *at))
            words = self.words(place)
            part = b.let("part", place & (FOUR - 1))
            word = words[3]
            for n in range(3):
                word = ir.select(part == n, words[n], word)
            self.set(bits, word, bit)

    def by_fours(self, bits, line, row, column, count):
        """Four lanes draw four times four words, and tell each other what they found.

        That is for each eight columns: they have four weights each. What lanes draw are
        the weights of four keys and a query.
        """
        b, block = self.b, self.block
        if self.transposed:
            mine, distances = b.let("mine", block.group % FOUR), (4, 8)
            row = row + (block.group - mine) + mine // 2 * 8
            column = column + 2 * block.pair + mine % 2
        else:
            mine, distances = block.pair, (1, 2)
            row = row + block.group + mine // 2 * 8
            column = column + mine % 2 * FOUR
        first = b.let("first", self.place(line, row, column))
        step = b.let("step", 8 * self.keys if self.transposed else Const(i64, 8))
        drawn = b.declare("drawn", Const(u32, 0))
        with b.loop("turn", 0, count // 8, kind="rolled") as iteration:
            words = self.words(b.let("place", first + iteration * step))
            for n, word in enumerate(words):
                self.set(drawn, word, iteration * FOUR + n)
        near = b.let("near", ir.Exchange(distances[0], drawn))
        far = b.let("far", ir.Exchange(distances[1], drawn))
        across = b.let("across", ir.Exchange(distances[1], near))

        def of(lane):
            """What the lane of a number among the four has drawn."""
            distance = b.let("apart", lane ^ mine)
            found = ir.select(
                distance == 1, near, ir.select(distance == 2, far, across)
            )
            return b.let("found", ir.select(distance == 0, drawn, found))

        if self.transposed:
            shift = b.let("shift", ir.cast(u32, mine))
            parts = [((of(Const(i64, n)) >> shift) & 0x11111111) << n for n in range(4)]
        else:
            shift = b.let("shift", ir.cast(u32, mine % 2 * 2))
            lanes = [mine // 2, mine // 2 + 2]
            parts = [
                ((of(lane) >> shift) & 0x33333333) << 2 * n
                for n, lane in enumerate(lanes)
            ]
        total = parts[0]
        for part in parts[1:]:
            total = total | part
        b.assign(bits, total)

    def set(self, bits, word, position):
        """Sets a bit where a word keeps its weight."""
        one = ir.select(word >= self.least, Const(u32, 1), Const(u32, 0))
        self.b.assign(bits, bits | one << ir.cast(u32, position))

    def words(self, place):
        """The four words among which a place of the stream lies.

        Rounds are a loop: written out, their keys would be registers all along.
        """
        b = self.b
        step = b.let("step", place >> 2)
        values = [ir.cast(u32, step), ir.cast(u32, step >> 32), Const(u32, 0)]
        values.append(Const(u32, 0))
        values = [b.declare("drawn_word", value) for value in values]
        key = [b.declare("key", value) for value in self.key]
        with b.loop("round", 0, ROUNDS, kind="rolled"):
            first, second = (
                b.let("product", ir.cast(u64, values[n]) * Const(u64, factor))
                for n, factor in zip((0, 2), MULTIPLIERS, strict=True)
            )
            high = [ir.cast(u32, product >> 32) for product in (second, first)]
            low = [ir.cast(u32, product) for product in (second, first)]
            new = [
                high[0] ^ values[1] ^ key[0],
                low[0],
                high[1] ^ values[3] ^ key[1],
                low[1],
            ]
            new = [b.let("mixed", value) for value in new]
            for old, value in zip(values, new, strict=True):
                b.assign(old, value)
            for half, more in zip(key, STEPS, strict=True):
                b.assign(half, half + Const(u32, more))
        return values


def kept(bits, position, value):
    """The value, or zero where its bit is not set."""
    return ir.select((bits & (1 << position)) != 0, value, 0.0)


@functools.lru_cache
def least_word(chance):
    """The least word of Philox that keeps a weight: its number in (0, 1] is above.

    >>> least_word(0.5), least_word(0.1)
    (2147483777, 429496752)
    """

    def rounded(x):
        return struct.unpack("f", struct.pack("f", x))[0]

    bound, low, high = rounded(chance), 0, 1 << 32
    while low < high:
        word = (low + high) // 2
        if rounded(rounded(word) * 2.0**-32 + 2.0**-33) > bound:
            high = word
        else:
            low = word + 1
    return low
