"""How tensor expressions are laid out on a GPU where nobody said otherwise."""


def divide(s):
    """Divides the elements of those whole stages whose loops nobody touched."""
    for stage in s.stages:
        if not (stage.place or stage.inlined or stage.relations or stage.marks):
            divide_stage(stage)
    return s


def schedule(s):
    """Gives every whole stage of a schedule a parallel outermost loop over elements."""
    for stage in s.stages:
        if not (stage.place or stage.inlined):
            divide_stage(stage)
    return s


def divide_stage(stage):
    """Makes one parallel loop of a stage's data axes."""
    if not stage.axis:
        return
    fused = stage.axis[0]
    stage.reorder(*stage.axis, *stage.reduce_axis)
    for axis in stage.axis[1:]:
        fused = stage.fuse(fused, axis)
    stage.parallel(fused)
