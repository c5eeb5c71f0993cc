"""Fake results whose sizes follow from elements, or from numbers read out of them.

A rule, which an operator's declaration names as its `open_sizes`, makes its results without
running it: a size that follows from elements
is a new number of the recording; where an argument is such a number, the result is what
it would be if the number were among those that fit.
"""

from rushlight.core.dtypes import bool_, float32, float64, int64, uint8
from rushlight.core.layout import Size
from rushlight.graph.fake_conversion import Geometry, dense_strides
from rushlight.ir.sizes import UNBOUNDED, add, multiply
from rushlight.ir.symbolic import SymInt, expr_of
from rushlight.operators import call
from rushlight.operators.functions import broadcast_shapes


def new_fake(mode, like, sizes, dtype=None, last_first=False):
    """A fake tensor of sizes that are numbers of the recording.

    Args:
        mode: the `FakeTensorMode`.
        like: a fake tensor on the same device.
        sizes: the sizes.
        dtype: ``like``'s where it is left out.
        last_first: whether the first dimension changes fastest in memory.
    """
    dtype = like.dtype if dtype is None else dtype
    order = range(len(sizes)) if last_first else range(len(sizes))[::-1]
    geometry = Geometry(sizes, dense_strides(sizes, order), 0, dtype)
    made = mode.of_geometry(geometry, like.device)
    mode.elements.are_in(made, sizes)
    return made


def _count(tensor):
    """The largest that a number of elements may be."""
    number = tensor.numel()
    return UNBOUNDED if isinstance(number, SymInt) else number


def _some(mode, high):
    """How many elements of all there are."""
    return mode.elements.size(0, high) if high else 0


def nonzero_sizes(mode, self):
    """Places; of one tensor there are as many each time."""
    count = mode.elements.once(self, "count", lambda: _some(mode, _count(self)))
    return new_fake(mode, self, [count, self.dim()], int64, True)


def masked_select_sizes(mode, self, mask):
    both = [UNBOUNDED if isinstance(one, SymInt) else one
            for one in broadcast_shapes(self.shape, mask.shape)]  # fmt: skip
    high = UNBOUNDED if UNBOUNDED in both else Size(both).numel()
    return new_fake(mode, self, [_some(mode, high)])


def _counted(mode, self, sizes, positions, inverse, counts):
    """Unique elements, where each one is, and how often there is one."""
    return (
        new_fake(mode, self, sizes),
        new_fake(mode, self, positions if inverse else [0], int64),
        new_fake(mode, self, counts, int64),
    )


def unique2_sizes(mode, self, sorted=True, return_inverse=False, return_counts=False):
    count = _some(mode, _count(self))
    counts = [count] if return_counts else [0]
    return _counted(mode, self, [count], list(self.shape), return_inverse, counts)


def unique_dim_sizes(mode, self, dim, *rest):
    sizes = list(self.shape)
    whole = sizes[dim]
    sizes[dim] = _some(mode, UNBOUNDED if isinstance(whole, SymInt) else whole)
    return _counted(mode, self, sizes, [whole], True, [sizes[dim]])


def unique_consecutive_sizes(
    mode, self, return_inverse=False, return_counts=False, dim=None
):
    if dim is not None:
        return unique_dim_sizes(mode, self, dim)
    return unique2_sizes(mode, self, True, return_inverse, return_counts)


def bincount_sizes(mode, self, weights=None, minlength=0):
    dtype = int64
    if weights is not None:
        dtype = float32 if weights.dtype is float32 else float64
    return new_fake(mode, self, [mode.elements.size(minlength)], dtype)


def index_sizes(mode, self, indices):
    """Masks are the places where they hold."""
    masks = [one is not None and one.dtype in (bool_, uint8) for one in indices]
    if not any(masks):
        return NotImplemented
    positions: list = []
    for one, mask in zip(indices, masks):
        if mask:
            positions.extend(nonzero_sizes(mode, one).unbind(1))
        else:
            positions.append(one)
    return call.index(self, positions)


def repeat_interleave_sizes(mode, repeats, *, output_size=None):
    if output_size is not None:
        return NotImplemented
    return new_fake(mode, repeats, [mode.elements.size()])


# -- views -----------------------------------------------------------------------------


def _view(mode, self, sizes, dim=None, start=0, step=1):
    """A tensor that looks at the memory of another.

    Args:
        self: the other.
        sizes: numbers of the recording; None for a dimension that is gone.
        dim: of ``self``, along which it begins at ``start`` and goes by ``step``.
    """
    whole = mode.geometry_of(self)
    strides, offset = list(whole.strides), whole.offset
    if dim is not None:
        offset = add(offset, multiply(strides[dim], expr_of(start)))
        strides[dim] = multiply(strides[dim], step)
    kept = [at for at, size in enumerate(sizes) if size is not None]
    lengths, strides = ([some[at] for at in kept] for some in (sizes, strides))
    geometry = Geometry(lengths, strides, offset, self.dtype)
    return mode.of_geometry(geometry, self.device, mode.memory_of(self))


def _open(mode, value):
    """The number that an argument is, if it follows from elements; else None."""
    found = mode.shape_env.recognized(value)
    return found if isinstance(found, SymInt) and found.follows else None


def select_sizes(mode, self, dim, index):
    number = _open(mode, index)
    if number is None:
        return NotImplemented
    sizes: list = list(self.shape)
    dim %= len(sizes)
    sizes[dim] = None
    return _view(mode, self, sizes, dim, number)


def slice_sizes(mode, self, dim=0, start=None, end=None, step=1):
    if not any(_open(mode, one) is not None for one in (start, end)):
        return NotImplemented
    elements, sizes = mode.elements, list(self.shape)
    dim %= len(sizes)
    whole = sizes[dim]
    first = 0 if start is None else mode.shape_env.recognized(start)
    last = whole if end is None else mode.shape_env.recognized(end)
    if isinstance(last, int) and isinstance(whole, int):
        last = min(last, whole) if last >= 0 else max(last + whole, 0)
    inside = step == 1 and all(
        elements.holds(name, left, right)
        for name, left, right in (
            ("ge", first, 0), ("le", first, last), ("le", last, whole)
        )
    )  # fmt: skip
    if inside:
        sizes[dim] = last - first
    else:
        high = UNBOUNDED if isinstance(whole, SymInt) else -(-whole // step)
        sizes[dim] = elements.size(0, high)
    return _view(mode, self, sizes, dim, first, step)


def narrow_sizes(mode, self, dim, start, length):
    number = mode.shape_env.recognized(start)
    if _open(mode, start) is None and _open(mode, length) is None:
        return NotImplemented
    sizes = list(self.shape)
    sizes[dim] = mode.shape_env.recognized(length)
    return _view(mode, self, sizes, dim % len(sizes), number)


def split_with_sizes_sizes(mode, self, split_sizes, dim=0):
    numbers = [mode.shape_env.recognized(one) for one in split_sizes]
    if not any(_open(mode, one) is not None for one in split_sizes):
        return NotImplemented
    sizes = list(self.shape)
    dim %= len(sizes)
    whole, start, found = sizes[dim], 0, []
    for number in numbers:
        if isinstance(number, SymInt):
            mode.elements.within(
                number, 0, whole if isinstance(whole, int) else UNBOUNDED
            )
    for number in numbers:
        sizes[dim] = number
        found.append(_view(mode, self, list(sizes), dim, start))
        start = start + number
    mode.elements.promise("eq", start, whole)
    return found


def topk_sizes(mode, self, k, dim=-1, *_):
    number = _open(mode, k)
    if number is None:
        return NotImplemented
    sizes = list(self.shape)
    whole = sizes[dim]
    mode.elements.within(number, 0, whole if isinstance(whole, int) else UNBOUNDED)
    sizes[dim] = number
    return new_fake(mode, self, sizes), new_fake(mode, self, sizes, int64)
