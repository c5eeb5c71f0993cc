"""What the steps of a processor's tiles mean, by NumPy: the unit of `expr.TileStep`."""

import ctypes

import numpy as np

ROWS, BYTES, TILES = 16, 64, 8


class Tiles:
    """Eight tiles; none is there before they are configured, or after a release."""

    def __init__(self):
        self.held = None

    def configure(self):
        self.held = np.zeros((TILES, ROWS, BYTES), np.uint8)

    def release(self):
        self.held = None

    def zero(self, tile):
        self.held[tile] = 0

    def load(self, tile, pointer, index, pitch):
        for row, line in enumerate(_lines(pointer, index, pitch)):
            self.held[tile, row] = line

    stream = load  # the same but for what caches keep

    def store(self, tile, pointer, index, pitch):
        for row, line in enumerate(_lines(pointer, index, pitch)):
            line[:] = self.held[tile, row]

    def multiply(self, kind, tile, left, right):
        """Adds products of pairs or of fours to the sums of a tile."""
        a, b = self.held[left], self.held[right]
        if kind == "pairs":
            sums = self.held[tile].view(np.float32)
            sums[:] = _flushed(sums + _pairs(_wide(a), _wide(b)))
            return
        signed = a.view(np.int8) if kind == "fours" else a
        fours = signed.astype(np.int32).reshape(ROWS, -1, 1, 4)
        columns = b.view(np.int8).astype(np.int32).reshape(1, ROWS, -1, 4)
        self.held[tile].view(np.int32)[:] += (fours * columns).sum((1, 3), np.int32)


def _lines(pointer, index, pitch):
    """The rows of a tile in memory."""
    start = pointer.address + int(index) * pointer.dtype.itemsize
    for row in range(ROWS):
        place = start + row * int(pitch)
        yield np.frombuffer((ctypes.c_char * BYTES).from_address(place), np.uint8)


def _wide(bytes):
    """Rows of bfloat16 as float32; what is not normal is zero to the unit."""
    wide = bytes.view(np.uint16).astype(np.uint32) << 16
    return _flushed(wide.view(np.float32))


def _flushed(x):
    small = np.abs(x) < np.finfo(np.float32).smallest_normal
    return np.where(small, np.copysign(np.float32(0), x), x)


def _pairs(a, b):
    """Sums over the depth of 16 pairs: the first of all, the second of all, then both."""
    a, b = a.reshape(ROWS, -1, 2), b.reshape(ROWS, -1, 2)
    totals = np.zeros((2, ROWS, b.shape[1]), np.float32)
    for k in range(ROWS):
        for side in range(2):
            # a product of two bfloat16 is exact in float64, and so rounded once
            exact = np.float64(a[:, k, side, None]) * np.float64(b[k, None, :, side])
            totals[side] = _flushed((exact + totals[side]).astype(np.float32))
    return _flushed(totals[0] + totals[1])
