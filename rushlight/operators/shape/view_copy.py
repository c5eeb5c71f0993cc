"""The views as copies, for programs that must not share memory."""

from rushlight.core.layout import contiguous_format
from rushlight.operators import call as ops


def copying(name):
    """The view called ``name``, followed by a row-major copy of what it gives."""
    view = getattr(ops, name)

    def copied(*args):
        result = view(*args)
        if isinstance(result, (tuple, list)):
            return tuple(_row_major(part) for part in result)
        return _row_major(result)

    return copied


def _row_major(tensor):
    return tensor.clone(memory_format=contiguous_format)


def narrow_copy(self, dim, start, length):
    """A copy of what ``narrow`` shows.

    Raises:
        RuntimeError: there is no such dimension, or the window exceeds it.
    """
    if self.ndim and dim >= self.ndim:
        raise RuntimeError(
            "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got "
            "false."
        )
    if self.ndim and length < 0:
        size = self.shape[dim]
        raise RuntimeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({size})."
        )
    return _row_major(ops.narrow(self, dim, start, length))


def view_copy(self, size):
    """A copy of what ``view`` shows, or of what it would show of a row-major tensor."""
    if hasattr(size, "itemsize"):
        return _row_major(ops.view(self, size))
    return _row_major(ops.reshape(self, size))


def expand_copy(self, size, implicit):
    """A copy of what ``expand`` shows."""
    return _row_major(ops.expand(self, size))
