"""Where a recorded function's memory lies, when it is run without Python."""

from rushlight.export import _steps

_ALIGNED = 64


def aligned(n_bytes):
    """The next multiple of a cache line."""
    return -(-n_bytes // _ALIGNED) * _ALIGNED


def lifetimes(run, last):
    """For each fresh memory the first and last step that touches it.

    Args:
        run: the recorded run.
        last: the numbers of fresh memories that are read after the last step.
    """
    found: dict = {}
    for at, step in enumerate(run.steps):
        for kind, number, _ in step.positions:
            if kind == _steps.FRESH:
                first, _ = found.get(number, (at, at))
                found[number] = first, at
    for at, step in enumerate(run.steps):
        if step.kind == _steps.JUMP and step.total < 0:  # a loop's memory is read again
            start = at + 1 + step.total
            for number, (first, end) in found.items():
                if first < start <= end < at:
                    found[number] = first, at
    for number in last:
        first, _ = found.get(number, (0, 0))
        found[number] = first, len(run.steps)
    return found


def placed(run, last, other_arenas=()):
    """Offsets of fresh memories in one block, which those of other times share.

    Args:
        run: the recorded run.
        last: the numbers of those that are read after the last step.
        other_arenas: the numbers of those that lie in the caller's memory.

    Returns:
        offsets by number, and the block's size.
    """
    sizes = {
        one.number: aligned(one.n_bytes)
        for one in run.memories
        if one.kind == _steps.FRESH
    }
    spans = lifetimes(run, last)
    offsets: dict = {}
    total = 0
    for number in sorted(spans, key=lambda n: (-sizes[n], n)):
        if number in other_arenas:
            continue
        first, end = spans[number]
        busy = sorted(
            (offsets[other], offsets[other] + sizes[other])
            for other in offsets
            if spans[other][0] <= end and first <= spans[other][1]
        )
        at = 0
        for low, high in busy:
            if at + sizes[number] <= low:
                break
            at = max(at, high)
        offsets[number] = at
        total = max(total, at + sizes[number])
    return offsets, total
