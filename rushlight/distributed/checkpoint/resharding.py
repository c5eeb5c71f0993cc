"""Which stored chunks have what a rank needs."""

__all__ = ["boxes_overlap", "overlap"]


def boxes_overlap(first, second):
    """Whether two boxes of one tensor have an element in common.

    Args:
        first: a ``ChunkStorageMetadata``.
        second: another.
    """
    return all(
        a < b + b_size and b < a + a_size
        for a, a_size, b, b_size in zip(
            first.offsets, first.sizes, second.offsets, second.sizes
        )
    )


def overlap(saved, current):
    """What a stored chunk has of a wanted one.

    Args:
        saved: a ``ChunkStorageMetadata``.
        current: another, that overlaps it.

    Returns:
        Where it begins in the stored one, where in the wanted one, and its sizes.
    """
    begins = [max(a, b) for a, b in zip(saved.offsets, current.offsets)]
    ends = [
        min(a + a_size, b + b_size)
        for a, a_size, b, b_size in zip(
            saved.offsets, saved.sizes, current.offsets, current.sizes
        )
    ]
    return (
        [begin - low for begin, low in zip(begins, saved.offsets)],
        [begin - low for begin, low in zip(begins, current.offsets)],
        [end - begin for begin, end in zip(begins, ends)],
    )
