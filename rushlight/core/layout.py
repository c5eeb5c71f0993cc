"""Small value types: sizes, layouts and memory formats."""

import operator

from rushlight.core import naming


class Size(tuple):
    """The sizes of a tensor; slices are sizes too, by `rushlight.core.sizes`.

    >>> Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def __new__(cls, sizes=()):
        listed = tuple(sizes)
        for size in listed:
            if type(size) is not int:
                listed = tuple(_size(at, one) for at, one in enumerate(listed))
                break
        return tuple.__new__(cls, listed)

    def numel(self):
        """The number of elements that a tensor of these sizes has."""
        count = 1
        for size in self:
            count *= size
        return count

    def __repr__(self):
        return f"{naming.package}.Size([{', '.join(map(str, self))}])"

    def __add__(self, other):
        if not isinstance(other, tuple):
            raise TypeError(
                f"can only concatenate tuple (not {type(other).__name__}) to "
                f"{naming.package}.Size"
            )
        return Size(tuple.__add__(self, other))

    def __radd__(self, other):
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(other + tuple(self))

    def __mul__(self, count):
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __reduce__(self):
        return (Size, (tuple(self),))


def _size(at, item):
    """A size from what acts as an integer; some types keep their own."""
    if hasattr(type(item), "_as_argument"):
        return item  # a size that stands for any
    if isinstance(item, bool):
        return int(item)
    if isinstance(item, int) or type(item).__module__ == "numpy":
        if hasattr(item, "__index__"):
            return item
    elif hasattr(item, "__index__"):
        try:
            return operator.index(item)
        except (TypeError, ValueError):
            pass
    raise TypeError(
        f"{naming.package}.Size() takes an iterable of 'int' (item {at} is "
        f"'{type(item).__name__}')"
    )


class _Named:
    """A value known by its name alone."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"{naming.package}.{self.name}"

    def __reduce__(self):
        return (_named, (self.name,))


class Layout(_Named):
    """How elements are arranged: in ``strided`` memory, or in parts."""

    __slots__ = ()


class MemoryFormat(_Named):
    """An order of dimensions in memory."""

    __slots__ = ()


strided = Layout("strided")
sparse_coo = Layout("sparse_coo")
sparse_csr = Layout("sparse_csr")
sparse_csc = Layout("sparse_csc")
sparse_bsr = Layout("sparse_bsr")
sparse_bsc = Layout("sparse_bsc")
jagged = Layout("jagged")
contiguous_format = MemoryFormat("contiguous_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")
preserve_format = MemoryFormat("preserve_format")
_ALL = {
    value.name: value
    for value in (
        strided,
        sparse_coo,
        sparse_csr,
        sparse_csc,
        sparse_bsr,
        sparse_bsc,
        jagged,
        contiguous_format,
        channels_last,
        channels_last_3d,
        preserve_format,
    )
}


def _named(name):
    return _ALL[name]
