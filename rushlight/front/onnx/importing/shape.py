"""Sizes, order, parts, places."""

import math

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.onnx._types import dtype_of
from rushlight.onnx.errors import OnnxLoadError
from rushlight.onnx.importing._table import implements, integers


@implements("Reshape")
def reshape(x, shape, allowzero=0):
    """Other sizes; zero stands for the size that is there."""
    sizes = integers(shape)
    if not allowzero:
        sizes = [x.shape[at] if n == 0 else n for at, n in enumerate(sizes)]
    return x.reshape(sizes)


@implements("Flatten")
def flatten(x, axis=1):
    """A matrix: dimensions before an axis, and the rest."""
    axis = axis + x.dim() if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@implements("Transpose")
def transpose(x, perm=None):
    """Dimensions in another order; the reverse one by itself."""
    return x.permute(list(perm) if perm else list(range(x.dim()))[::-1])


@implements("Squeeze")
def squeeze(x, axes=None):
    """Without dimensions of one."""
    axes = integers(axes)
    if axes is None:
        return x.squeeze()
    for axis in axes:
        if x.shape[axis] != 1:
            raise OnnxLoadError(f"dimension {axis} of {list(x.shape)} is not one")
    return x.squeeze(axes)


@implements("Unsqueeze")
def unsqueeze(x, axes):
    """With more dimensions of one, at places of the result."""
    rank = x.dim() + len(integers(axes))
    for axis in sorted(axis % rank for axis in integers(axes)):
        x = x.unsqueeze(axis)
    return x


@implements("Concat")
def concat(*tensors, axis):
    """One after another."""
    return rl.cat(list(tensors), axis)


@implements("Split")
def split(x, split=None, axis=0, num_outputs=None, outputs=1):
    """Parts of sizes that are listed, or of one size."""
    sizes = integers(split)
    if sizes is None:
        count = outputs if num_outputs is None else num_outputs
        step = -(-x.shape[axis] // count)
        sizes = [step] * (count - 1) + [x.shape[axis] - step * (count - 1)]
    made = x.split(sizes, axis)
    return made if outputs > 1 else made[0]


@implements("Slice")
def slice_(x, starts, ends, axes=None, steps=None):
    """Part of some dimensions; steps may go backwards."""
    starts, ends = integers(starts), integers(ends)
    axes = integers(axes) or list(range(len(starts)))
    steps = integers(steps) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        size = x.shape[axis]
        indices = range(size)[slice(start, _end(end, size, step), step)]
        if step > 0:
            stop = indices.start + len(indices) * step
            x = _part(x, axis, indices.start, min(stop, size), step)
        else:
            index = rl.tensor(list(indices), dtype=rl.int64)
            x = x.index_select(axis, index)
    return x


def _end(end, size, step):
    """The end as Python's slices have it: far before the start is None."""
    return None if step < 0 and end < -size else end


def _part(x, axis, start, end, step):
    index = [slice(None)] * x.dim()
    index[axis] = slice(start, max(end, start), step)
    return x[tuple(index)]


@implements("Expand")
def expand(x, shape):
    """Dimensions of one repeated, on either side."""
    return x.expand(rl.broadcast_shapes(tuple(x.shape), tuple(integers(shape))))


@implements("Tile")
def tile(x, repeats):
    """The whole once more, along each dimension."""
    return x.repeat(integers(repeats))


@implements("Shape")
def shape(x, start=0, end=None):
    """The sizes, or a run of them."""
    return rl.tensor(list(x.shape)[slice(start, end)], dtype=rl.int64)


@implements("Size")
def size(x):
    """How many elements there are."""
    return rl.tensor(x.numel(), dtype=rl.int64)


_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate",
          "wrap": "circular"}  # fmt: skip


@implements("Pad")
def pad(x, pads=None, value=None, axes=None, mode="constant", paddings=None):
    """A border of a number, of mirrored or repeated elements, or from the other end."""
    pads = integers(pads)
    axes = integers(axes)
    axes = list(range(x.dim())) if axes is None else [a % x.dim() for a in axes]
    count = len(axes)
    number = (
        0
        if value is None
        else (value.item() if isinstance(value, rl.Tensor) else value)
    )
    before, after = [0] * x.dim(), [0] * x.dim()
    for at, axis in enumerate(axes):
        before[axis], after[axis] = pads[at], pads[count + at]
    if mode == "constant":
        flat = [n for d in reversed(range(x.dim())) for n in (before[d], after[d])]
        return F.pad(x, flat, value=number)
    for axis in axes:
        x = _bordered(x, axis, before[axis], after[axis], mode)
    return x


def _bordered(x, axis, before, after, mode):
    """A border along one dimension, by the numbers of what is in it."""
    if mode not in _MODES:
        raise OnnxLoadError(f"a border of mode {mode!r} is not known")
    size = x.shape[axis]
    indices = rl.arange(-before, size + after)
    if mode == "edge":
        indices = indices.clamp(0, size - 1)
    elif mode == "wrap":
        indices = indices % size
    else:
        period = max(2 * (size - 1), 1)
        indices = indices % period
        indices = rl.minimum(indices, period - indices)
    return x.index_select(axis, indices)


@implements("DepthToSpace")
def depth_to_space(x, blocksize, mode="DCR"):
    """Channels as finer pixels."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "CRD":
        return F.pixel_shuffle(x, b)
    made = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    return made.reshape(n, c // (b * b), h * b, w * b)


@implements("SpaceToDepth")
def space_to_depth(x, blocksize, mode="DCR"):
    """Pixels as more channels."""
    if mode == "CRD":
        return F.pixel_unshuffle(x, blocksize)
    n, c, h, w = x.shape
    b = blocksize
    made = x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
    return made.reshape(n, c * b * b, h // b, w // b)


@implements("Trilu")
def trilu(x, k=None, upper=1):
    """One side of a diagonal."""
    k = 0 if k is None else int(k)
    return x.triu(k) if upper else x.tril(k)


@implements("ReverseSequence")
def reverse_sequence(x, lengths, batch_axis=1, time_axis=0):
    """The start of each sequence in the other direction."""
    x = x.movedim((time_axis, batch_axis), (0, 1))
    made = x.clone()
    for at, length in enumerate(integers(lengths)):
        made[:length, at] = x[:length, at].flip(0)
    return made.movedim((0, 1), (time_axis, batch_axis))


@implements("CenterCropPad")
def center_crop_pad(x, shape, axes=None):
    """The middle, in a size that is given; zeros where there is nothing."""
    axes = integers(axes)
    axes = list(range(x.dim())) if axes is None else axes
    for axis, wanted in zip(axes, integers(shape)):
        have = x.shape[axis]
        if have > wanted:
            x = x.narrow(axis, (have - wanted) // 2, wanted)
        elif have < wanted:
            before = (wanted - have) // 2
            pads = [0, 0] * (x.dim() - 1 - axis % x.dim())
            x = F.pad(x, [*pads, before, wanted - have - before])
    return x


# -- new tensors -------------------------------------------------------------------------


@implements("Constant")
def constant(
    value=None, value_int=None, value_ints=None, value_float=None, value_floats=None
):
    """What the file says."""
    for one, kind in (
        (value_int, rl.int64), (value_ints, rl.int64), (value_float, rl.float32),
        (value_floats, rl.float32),
    ):  # fmt: skip
        if one is not None:
            return rl.tensor(one, dtype=kind)
    if value is None:
        raise OnnxLoadError("a constant without numbers, or of text")
    return value


@implements("ConstantOfShape")
def constant_of_shape(sizes, value=None):
    """One number everywhere."""
    sizes = integers(sizes)
    if value is None:
        return rl.zeros(sizes)
    return value.reshape(()).expand(sizes).clone()


@implements("Range")
def range_(start, limit, delta):
    """Numbers in equal steps."""
    parts = [one.item() if isinstance(one, rl.Tensor) else one for one in
             (start, limit, delta)]  # fmt: skip
    kind = start.dtype if isinstance(start, rl.Tensor) else rl.int64
    count = max(math.ceil((parts[1] - parts[0]) / parts[2]), 0)
    return (rl.arange(count, dtype=kind) * parts[2] + parts[0]).to(kind)


@implements("EyeLike")
def eye_like(x, dtype=None, k=0):
    """Ones on a diagonal."""
    kind = x.dtype if dtype is None else dtype_of(dtype)
    rows, columns = x.shape
    indices = rl.arange(columns)[None, :] - rl.arange(rows)[:, None]
    return (indices == k).to(kind)


@implements("OneHot")
def one_hot(indices, depth, values, axis=-1):
    """One of two values: the second at the place of each class."""
    depth = int(depth.reshape(()) if isinstance(depth, rl.Tensor) else depth)
    indices = indices.long()
    indices = rl.where(indices < 0, indices + depth, indices)
    axis %= indices.dim() + 1
    classes = rl.arange(depth).reshape([-1] + [1] * (indices.dim() - axis))
    return rl.where(indices.unsqueeze(axis) == classes, values[1], values[0])


# -- places ------------------------------------------------------------------------------


def _from_start(indices, size):
    indices = indices.long()
    return rl.where(indices < 0, indices + size, indices)


@implements("Gather")
def gather(x, indices, axis=0):
    """Places of a dimension, by numbers in any sizes."""
    indices = rl.as_tensor(indices)
    axis %= x.dim()
    flat = _from_start(indices.reshape(-1), x.shape[axis])
    made = x.index_select(axis, flat)
    return made.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


@implements("GatherElements")
def gather_elements(x, indices, axis=0):
    """For each place of the indices, the element that it names."""
    return x.gather(axis, _from_start(indices, x.shape[axis]))


@implements("GatherND")
def gather_nd(x, indices, batch_dims=0):
    """Parts by tuples of numbers."""
    lead = list(x.shape[:batch_dims])
    count = indices.shape[-1]
    rows = x.reshape([-1, *x.shape[batch_dims:]])
    sizes = indices.shape[batch_dims:-1]
    indices = indices.long().reshape(rows.shape[0], -1, count)
    batch = rl.arange(rows.shape[0])[:, None].expand(indices.shape[:2])
    parts = [_from_start(indices[..., at], rows.shape[at + 1]) for at in range(count)]
    made = rows[(batch, *parts)]
    return made.reshape([*lead, *sizes, *made.shape[2:]])


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@implements("ScatterElements", "Scatter")
def scatter_elements(x, indices, updates, axis=0, reduction="none"):
    """Others at the places that indices name, or taken in there."""
    indices = _from_start(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, indices, updates)
    return x.scatter_reduce(axis, indices, updates, _REDUCTIONS[reduction])


@implements("ScatterND")
def scatter_nd(x, indices, updates, reduction="none"):
    """Others at places that tuples of numbers name, or taken in there."""
    count = indices.shape[-1]
    indices = tuple(_from_start(indices[..., at], x.shape[at]) for at in range(count))
    if reduction == "none":
        return x.index_put(indices, updates)
    if reduction == "add":
        return x.index_put(indices, updates, accumulate=True)
    width = math.prod(x.shape[count:])
    flat = rl.zeros_like(indices[0])
    for size, one in zip(x.shape, indices):
        flat = flat * size + one
    index = flat.reshape(-1, 1) * width + rl.arange(width)
    made = x.reshape(-1).scatter_reduce(
        0, index.reshape(-1), updates.reshape(-1), _REDUCTIONS[reduction]
    )
    return made.reshape(x.shape)


@implements("NonZero")
def nonzero(x):
    """The places of what is not zero, a column for each."""
    if x.dim() == 0:
        return rl.zeros(0, int(bool(x)), dtype=rl.int64)
    return x.nonzero().t()


@implements("Compress")
def compress(x, condition, axis=None):
    """Places of a dimension where a condition is true."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    indices = condition.nonzero().reshape(-1)
    return x.index_select(axis, indices)


@implements("Unique")
def unique(x, axis=None, sorted=1, outputs=1):
    """What is there, once: where first, where in all, and how often."""
    flat = x.reshape(-1) if axis is None else x
    dim = 0 if axis is None else axis
    values, inverse, counts = flat.unique(
        return_inverse=True, return_counts=True, dim=None if axis is None else axis
    )
    inverse = inverse.reshape(-1)
    indices = rl.arange(inverse.numel())
    first = rl.full((counts.numel(),), inverse.numel()).scatter_reduce(
        0, inverse, indices, "amin"
    )
    if not sorted:
        order = first.argsort()
        back = order.argsort()
        values, first, counts = (
            values.index_select(dim, order),
            first[order],
            counts[order],
        )
        inverse = back[inverse]
    made = values, first, inverse, counts
    return made[:outputs] if outputs > 1 else values
