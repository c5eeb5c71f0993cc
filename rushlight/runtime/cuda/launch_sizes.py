"""How many blocks and threads a launch has, and parts a row: from sizes alone."""

WARP = 32
THREADS = 256  # as in `emit.device`
WAVES = 16  # blocks for each multiprocessor, at most: the rest is looped over
EACH = 4  # values of a row that a thread takes at least, where there is a block for it
MOST_EACH = 32  # and how many where there are threads enough
EACH_KEPT = 4, 8, 12, 16  # values of a row that a thread may keep in registers
MOST_KEPT = 1024  # of a row: with more, blocks wait for one another's registers
PART = 1 << 14  # values of a part, at least
MOST_PARTS = 1024  # of all rows
LEAST_PART = 32  # values of a row that a thread takes at least of those side by side
ALL_THREADS = 1 << 18  # that find the states of rows side by side


def grid_for(ctx, count):
    """How many blocks, and threads of each, take so many; the rest is looped over."""
    most = ctx.properties.multi_processor_count * WAVES
    threads = THREADS if count >= THREADS else -(-count // 32) * 32
    return min(-(-count // THREADS), most), threads


def threads_for(values, most, rows=1, most_each=MOST_EACH):
    """The threads of a block for a row of so many values, of so many rows.

    All of a block's threads find its row and join their states: where many rows are
    threads enough, each thread has more values, up to ``most_each``.

    >>> threads_for(1, 512), threads_for(300, 512), threads_for(10**6, 256)
    (32, 96, 256)
    >>> threads_for(4096, 512, 64), threads_for(4096, 512, 32768), threads_for(768, 512, 4096)
    (512, 128, 64)
    """
    wanted = max(values / most_each, ALL_THREADS / rows)
    threads = min(most, values / EACH, wanted)
    return max(1, -(-int(threads) // WARP)) * WARP


def keep_row(values, most, rows, registers):
    """How many values of a row each thread of its block keeps, and how many those are.

    Args:
        registers: that a thread has for them.

    >>> keep_row(1024, 256, 32768, 32), keep_row(768, 256, 4096, 32)
    ((16, 64), (12, 64))
    >>> keep_row(1024, 256, 2, 32), keep_row(1025, 256, 2, 32)
    ((4, 256), None)
    """
    if values > MOST_KEPT:
        return None
    threads = threads_for(values, most, rows, min(EACH_KEPT[-1], registers))
    for each in EACH_KEPT:
        if each <= registers and each * threads >= values:
            return each, -(-values // each // WARP) * WARP
    return None


def plan_parts(rows, length, size):
    """How many parts each row has, and how far a part goes along the loop that is cut.

    Args:
        length: the values of a row.
        size: of the loop that is cut.

    >>> plan_parts(1, 10**6, 10**6), plan_parts(2, 10**9, 10**5)
    ((61, 16394), (511, 196))
    >>> plan_parts(1, 1 << 16, 8), plan_parts(300, 1 << 20, 1 << 20)
    ((4, 2), (3, 349526))
    """
    parts = max(1, min(MOST_PARTS // rows, length // PART, size))
    span = -(-size // parts)
    return -(-size // span), span


def plan_threads(rows, length, size):
    """The same for rows side by side, whose parts are a thread's each.

    >>> plan_threads(4096, 32768, 32768), plan_threads(768, 4096, 4096)
    ((64, 512), (128, 32))
    >>> plan_threads(1 << 20, 4096, 4096), plan_threads(8, 64, 2)
    ((1, 4096), (2, 1))
    """
    parts = max(1, min(ALL_THREADS // rows, length // LEAST_PART, size))
    span = -(-size // parts)
    return -(-size // span), span
