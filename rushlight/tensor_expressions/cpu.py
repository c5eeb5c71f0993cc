"""How tensor expressions are laid out on the host where nobody said otherwise."""

LANES = 16


def schedule(s):
    """Vectorises the innermost data axis of every whole stage, divides the outermost.

    A reduction's loop goes around the vectors, so that sums keep their order.
    """
    for stage in s.stages:
        if stage.place or stage.inlined or not stage.axis or stage.relations:
            continue
        *outer, last = stage.axis
        rows, lanes = stage.split(last, factor=LANES)
        stage.reorder(*outer, rows, *stage.reduce_axis, lanes)
        stage.vectorize(lanes)
        stage.parallel(outer[0] if outer else rows)
    return s
