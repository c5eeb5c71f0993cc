"""Writing to tensors that show one element at several places."""

from rushlight.operators import call as ops


def write_to_overlapping(target, result, changed_only):
    """Writes a result place by place: of an element's places the last one stays.

    Args:
        target: a tensor in which a dimension has stride 0.
        result: what is written, of the same sizes.
        changed_only: places at which the result is what was there are not written.

    Returns:
        The target.

    Raises:
        RuntimeError: the sizes differ.
    """
    if target.shape != result.shape:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor "
            f"refers to a single memory location, and its shape {list(target.shape)} "
            f"is not the result's, {list(result.shape)}"
        )
    folded, view = unfolded(target)
    if not target.numel():
        return target
    if not changed_only:
        for d in folded:
            result = result.narrow(d, result.shape[d] - 1, 1)
        view.copy_(result)
        return target
    changed = (result != target) & ~((result != result) & (target != target))
    last = [-1 - k for k in range(len(folded))]
    rows = _rows(result, folded, last)
    changed = _rows(changed, folded, last)
    count = changed.shape[-1]
    place = ops.argmax(changed.flip(-1).to(ops.arange(1).dtype), -1, True)
    value = ops.gather(rows, -1, count - 1 - place).squeeze(-1)
    value = value.reshape(view.movedim(folded, last).shape).movedim(last, folded)
    view.copy_(value)
    return target


def add_to_overlapping(target, share):
    """Adds what each place of a tensor gets to the element that it shows."""
    folded, view = unfolded(target)
    view.copy_(view + share.sum(folded, keepdim=True, dtype=share.dtype))
    return target


def unfolded(target):
    """The dimensions of stride 0, and the last place of each in a view."""
    folded = [
        d for d in range(target.ndim) if target.stride(d) == 0 and target.shape[d] > 1
    ]
    view = target.detach()
    for d in folded:
        view = view.narrow(d, target.shape[d] - 1, 1)
    return folded, view


def _rows(x, folded, last):
    """The folded dimensions together as the last one."""
    moved = x.movedim(folded, last)
    return moved.reshape([*moved.shape[: x.ndim - len(folded)], -1])
