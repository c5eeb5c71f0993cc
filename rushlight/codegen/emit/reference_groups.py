"""What a warpgroup's units do, in its meaning: late, and with memory that is watched.

Units read factors from when a product is asked for until it is waited for, as if they
were a thread of their own that no barrier makes wait. What threads wrote they see once it
was shown to them. Sums are not there before all products were waited for: what a thread
has instead is not a number.
"""

import numpy as np

GROUP = 128  # threads
DEPTH, RUN, STEP = 64, 8, 16  # halves of a line, of a run, of one instruction
ROWS = 64
SMEM_ALIGNMENT = 1024  # bytes: what a factor begins at a multiple of


class UnitsError(RuntimeError):
    """What a group asks its units for is not what they do."""


def group_product(grid, transposed, sums, left, left_index, right, right_index):
    """What a thread yields to have its group's product begun."""
    factors = []
    for pointer, index in ((left, left_index), (right, right_index)):
        size = pointer.dtype.itemsize
        if int(index) * size % SMEM_ALIGNMENT:
            raise UnitsError(f"a factor begins at element {index}, not at a multiple")
        factors.append((pointer.address + int(index) * size, pointer.dtype))
    return "product", tuple(transposed), tuple(factors), np.asarray(sums, np.float32)


def await_products(grid, pending, sums):
    """What a thread yields to be given its sums when products are done."""
    return "products", int(pending), (), np.asarray(sums, np.float32)


class Units:
    """The units of one group: the products that they were asked for, and their sums.

    Args:
        number: of the group in its block.
        log: where what they read is noted.
    """

    def __init__(self, number, log):
        self.number, self.log = number, log
        self.asked, self.sums = [], None

    def serve(self, kind, how, factors, sums, block, time):
        """Begins a product, or ends some: what the threads are given.

        Args:
            sums: of all threads.
            block, time: see `reference_grid.Log`.
        """
        self.log.now = (block, -1 - self.number, time, 0)
        if kind == "product":
            if not self.asked:
                self.sums = np.array(sums, np.float32)
            elif not np.isnan(sums).all():
                raise UnitsError("sums are given that products are still added to")
            product = how, factors, np.shape(sums)[1] * 2
            self.read(*product)
            self.asked.append(product)
        else:
            if self.sums is None:
                return list(sums)
            while len(self.asked) > how:
                self.sums = added(self.sums, *self.read(*self.asked.pop(0)))
        if self.asked:
            return list(np.full_like(self.sums, np.nan))
        return list(self.sums)

    def read(self, transposed, factors, columns):
        """Both factors, by rows and columns, as they are in memory now."""
        found = []
        for across, count, (address, dtype) in zip(
            transposed, (ROWS, columns), factors, strict=True
        ):
            size = count * DEPTH
            for n in range(size):
                self.log.note(address + n * dtype.itemsize, False, shown=True)
            found.append(factor(view(address, size, dtype), across))
        return found


def view(address, size, dtype):
    """Elements at an address of this process."""
    import ctypes

    room = (ctypes.c_char * (size * dtype.itemsize)).from_address(address)
    return np.frombuffer(room, dtype)


def factor(elements, transposed):
    """A factor's rows (or columns) from its lines in shared memory."""
    runs = elements.astype(np.float64).reshape(-1, DEPTH // RUN, RUN)
    lines = np.arange(len(runs))[:, None]
    runs = runs[lines, np.arange(DEPTH // RUN) ^ lines % RUN]
    lines = runs.reshape(-1, DEPTH)
    if not transposed:
        return lines
    return lines.reshape(-1, DEPTH, DEPTH).transpose(0, 2, 1).reshape(-1, DEPTH)


def positions(count):
    """The rows and columns of all threads' sums, as PTX says."""
    thread, n = np.arange(GROUP)[:, None], np.arange(count)
    rows = thread // 32 * 16 + thread % 32 // 4 + 8 * (n // 2 % 2)
    return rows, 8 * (n // 4) + 2 * (thread % 4) + n % 2


def added(sums, left, right):
    """Sums and a product, rounded after each instruction."""
    where = positions(sums.shape[1])
    for first in range(0, DEPTH, STEP):
        part = slice(first, first + STEP)
        product = left[:, part] @ right[:, part].T
        sums = (sums + product[where]).astype(np.float32)
    return sums
