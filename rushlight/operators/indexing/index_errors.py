"""What indices are worth that lead outside: raised at once, or when a device is waited for.

Of tensors there may be outlines only: ``dtype``, ``shape``, ``device`` and ``numel()``.
"""

from rushlight.operators.loop_calls import brief


def outside_rows(fault, x, index, size):
    """The error where PyTorch picks from one row after another."""
    return RuntimeError(
        f"INDICES element is out of DATA bounds, id={fault} axis_dim={size}\n"
        f"  self: {brief(x)}\n  index: {brief(index)}"
    )


def outside(fault, x, index, size):
    """The error for an index outside of ``self``."""
    if x.numel() == 0 and len(x.shape) > 1 and size:
        return outside_rows(fault, x, index, size)
    return IndexError(
        f"index out of range in self: {fault} for a dimension of size {size}\n"
        f"  self: {brief(x)}\n  index: {brief(index)}"
    )


def outside_dimension(fault, kind, dim, size, before=""):
    """The error for an index outside of a dimension."""
    return kind(
        f"{before}index {fault} is out of bounds for dimension {dim} with size {size}"
    )


def no_word(fault, indices, count, what):
    """The error for an index that names no row of a table."""
    return IndexError(
        f"index out of range in self: {fault} for {count} {what}\n"
        f"  indices: {brief(indices)}"
    )
