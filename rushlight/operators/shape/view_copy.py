"""The views as copies, for programs that must not share memory."""

from rushlight.core.layout import contiguous_format
from rushlight.operators import call as ops


def _copying(name):
    """The view called ``name``, followed by a row-major copy of what it gives."""

    def copied(*args):
        result = getattr(ops, name)(*args)
        if isinstance(result, (tuple, list)):
            return tuple(_row_major(part) for part in result)
        return _row_major(result)

    copied.__doc__ = f"A copy of what ``{name}`` shows."
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
    return _narrowed(self, dim, start, length)


def view_copy(self, size):
    """A copy of what ``view`` shows, or of what it would show of a row-major tensor."""
    if hasattr(size, "itemsize"):
        return _row_major(ops.view(self, size))
    return _row_major(ops.reshape(self, size))


permute_copy = _copying("permute")
transpose_copy = _copying("transpose")
t_copy = _copying("t")
squeeze_copy = _copying("squeeze")
unsqueeze_copy = _copying("unsqueeze")
_narrowed = _copying("narrow")
select_copy = _copying("select")
slice_copy = _copying("slice")
unfold_copy = _copying("unfold")
diagonal_copy = _copying("diagonal")
as_strided_copy = _copying("as_strided")
alias_copy = _copying("alias")
detach_copy = _copying("detach")
unbind_copy = _copying("unbind")
split_copy = _copying("split")
split_with_sizes_copy = _copying("split_with_sizes")


def expand_copy(self, size, implicit):
    """A copy of what ``expand`` shows."""
    return _row_major(ops.expand(self, size))


view_as_real_copy = _copying("view_as_real")
view_as_complex_copy = _copying("view_as_complex")
