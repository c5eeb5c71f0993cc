"""Where the dimensions of a tensor go when it is looked at in another shape."""

import math


def _same(call):
    return list(range(len(call.shape())))


def _without(call, dims):
    """All dimensions stay, and the tensor must be whole along some."""
    return [None if dim in dims else dim for dim in _same(call)]


def transposed(call):
    """``t`` and ``transpose``."""
    dims = _same(call)
    if len(dims) < 2:
        return dims
    first = call.get("dim0", 0) % len(dims)
    second = call.get("dim1", 1) % len(dims)
    dims[first], dims[second] = second, first
    return dims


def permuted(call):
    """``permute``."""
    ndim = len(call.shape())
    order = [dim % ndim for dim in call["dims"]]
    return [order.index(dim) for dim in range(ndim)]


def unsqueezed(call):
    """``unsqueeze``."""
    ndim = len(call.shape())
    new = call["dim"] % (ndim + 1)
    return [dim + (dim >= new) for dim in range(ndim)]


def squeezed(call):
    """``squeeze``, of all dimensions or some."""
    shape, dims = call.shape(), call.get("dim")
    if dims is None:
        dims = range(len(shape))
    dims = [dims] if isinstance(dims, int) else dims
    gone = {dim % len(shape) for dim in dims if shape[dim] == 1}
    kept = [dim for dim in range(len(shape)) if dim not in gone]
    return [kept.index(dim) if dim in kept else None for dim in range(len(shape))]


def selected(call):
    """``select`` and ``unbind``: one dimension goes."""
    ndim = len(call.shape())
    gone = (call.get("dim") or 0) % ndim
    return [None if dim == gone else dim - (dim > gone) for dim in range(ndim)]


def sliced(call):
    """``slice`` and ``narrow``: whole along the dimension, unless nothing is left out."""
    if call.outputs[0].shape == call.shape():
        return _same(call)
    return split(call)


def split(call):
    """``split`` and its like: whole along the dimension."""
    return _without(call, {(call.get("dim") or 0) % len(call.shape())})


def flipped(call):
    """``flip`` and ``roll``: whole along the dimensions."""
    ndim = len(call.shape())
    dims = call.get("dims") or list(range(ndim))
    dims = [dims] if isinstance(dims, int) else dims
    return _without(call, {dim % ndim for dim in dims})


def expanded(call):
    """``expand``: dimensions of size one are spread, new ones come first."""
    more = call.outputs[0].dim() - len(call.shape())
    sizes = call.outputs[0].shape
    return [
        dim + more if sizes[dim + more] == size else None
        for dim, size in enumerate(call.shape())
    ]


def groups_of(before, after):
    """Runs of dimensions of two shapes that hold the same elements.

    Args:
        before: sizes.
        after: sizes of as many elements.

    >>> groups_of((2, 3, 4), (6, 2, 2))
    [((0, 1), (0,)), ((2,), (1, 2))]
    """
    found, i, j = [], 0, 0
    while i < len(before) or j < len(after):
        left, right = [], []
        a = b = 1
        while True:
            if i < len(before) and (a <= b or j >= len(after)):
                a *= before[i]
                left.append(i)
                i += 1
            elif j < len(after):
                b *= after[j]
                right.append(j)
                j += 1
            if a == b or (i >= len(before) and j >= len(after)):
                break
        found.append((tuple(left), tuple(right)))
    return found


def viewed(call):
    """``view``: the first dimension of a run goes to the first of what the run becomes."""
    before, after = tuple(call.shape()), tuple(call.outputs[0].shape)
    dims = [None] * len(before)
    if 0 in before:
        return dims
    spec = call.inputs[0].spec
    for left, right in groups_of(before, after):
        left = [dim for dim in left if before[dim] != 1]
        right = [dim for dim in right if after[dim] != 1]
        if not left or not right:
            continue
        source, target = left[0], right[0]
        cuts = math.prod(
            call.mesh.size(mesh_dim)
            for mesh_dim, placement in enumerate(spec.placements)
            if placement.is_shard(source)
        )
        alone = len(left) == len(right) == 1
        if alone or (before[source] % cuts == 0 and after[target] % cuts == 0):
            dims[source] = target
    return dims
