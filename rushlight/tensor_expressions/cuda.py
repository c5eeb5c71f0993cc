"""How tensor expressions are laid out on a GPU where nobody said otherwise."""

from __future__ import annotations


def schedule(s):
    """Gives every whole stage of a schedule a parallel outermost loop over elements."""
    for stage in s.stages:
        if stage.place or stage.inlined or not stage.axis:
            continue
        fused = stage.axis[0]
        stage.reorder(*stage.axis, *stage.reduce_axis)
        for axis in stage.axis[1:]:
            fused = stage.fuse(fused, axis)
        stage.parallel(fused)
    return s
