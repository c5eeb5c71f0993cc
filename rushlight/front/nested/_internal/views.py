"""Views, joins and cuts of ragged tensors."""

import rushlight as rl
from rushlight.nested._internal.nested_int import FIRST
from rushlight.nested._internal.nested_tensor import NestedTensor, values_of, wrapped
from rushlight.nested._internal.padding import rows_of
from rushlight.nested._internal.rules import Rules

RULES = Rules()


def wrap_dim(n, dim):
    """A dimension as a number from 0.

    Raises:
        IndexError: there is none of that number.
    """
    if not -n <= dim < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but "
            f"got {dim})"
        )
    return dim % n


def inner_dim(nested, dim, name, more=0, ragged=False):
    """The dimension of the values that a dimension of the nested tensor is.

    Raises:
        RuntimeError: it is the batch, or the ragged one.
    """
    dim = wrap_dim(nested.dim() + more, dim)
    if dim == nested._ragged_idx and not ragged:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    if dim == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    return dim - 1


def _rewrapped(values, nested, ragged_idx=None):
    offsets, lengths, at, cache = nested.raggedness
    return wrapped(values, offsets, lengths, ragged_idx or at, cache)


@RULES("transpose")
def _transpose(op, nested, dim0, dim1):
    n, at = nested.dim(), nested._ragged_idx
    dim0, dim1 = wrap_dim(n, dim0), wrap_dim(n, dim1)
    if dim0 == dim1:
        return nested
    if 0 in (dim0, dim1):
        raise ValueError(
            "Transpose is not supported on the batch dimension for jagged NT"
        )
    if at in (dim0, dim1):
        if nested._lengths is not None:
            raise ValueError(
                "transpose(): not supported on jagged layout nested tensor with holes"
            )
        at = dim1 if at == dim0 else dim0
    return _rewrapped(values_of(nested).transpose(dim0 - 1, dim1 - 1), nested, at)


@RULES("permute")
def _permute(op, nested, dims):
    n = nested.dim()
    if len(dims) != n:
        raise ValueError(
            f"permute(): number of dimensions in the tensor input ({n}) does not match "
            f"the length of the desired ordering of dimensions ({len(dims)})."
        )
    dims = [wrap_dim(n, d) for d in dims]
    if len(set(dims)) != n:
        raise ValueError("permute(): duplicate dims are not allowed.")
    if nested._lengths is not None:
        raise ValueError(
            "permute(): not supported on jagged layout nested tensor with holes"
        )
    if dims[0] != 0:
        raise ValueError(
            "Permute is not supported on the batch dimension for jagged NT"
        )
    inner = [d - 1 for d in dims[1:]]
    at = dims.index(nested._ragged_idx)
    return _rewrapped(values_of(nested).permute(inner), nested, at)


def _shown(size):
    """Sizes as people read them."""
    names = [f"j{n - FIRST}" if n >= FIRST else str(n) for n in size]
    return f"({', '.join(names)})"


@RULES("view", "_unsafe_view", "reshape")
def _view(op, nested, size):
    """Other sizes in place of those that are not ragged.

    Raises:
        RuntimeError: the batch or the ragged dimension would not stay.
    """
    size, at = list(size), nested._ragged_idx
    ragged = FIRST + nested._ragged.number
    if at != 1 and tuple(size) != tuple(sizes_as_numbers(nested)):
        raise RuntimeError(
            "view(): does not support ragged_idx != 1 except when inp._size == size. "
            f"inp._size is ({nested._size}) and size is ({_shown(size)})."
        )
    if len(size) > at and size[at] == -1 and size.count(-1) == 1:
        size[at] = ragged
    if len(size) <= at or size[0] not in (len(nested), -1) or size[at] != ragged:
        _refuse(op, nested, size)
    inner = [nested._values.shape[at - 1] if n == ragged else n for n in size[1:]]
    return _rewrapped(op.redispatch(None, values_of(nested), inner), nested)


def sizes_as_numbers(nested):
    """The sizes, with the number that stands for the ragged one."""
    ragged = FIRST + nested._ragged.number
    return [ragged if isinstance(n, rl.SymInt) else n for n in nested.shape]


def _refuse(op, nested, size):
    raise RuntimeError(f"view(): cannot view shape {nested._size} as {_shown(size)}")


@RULES("expand")
def _expand(op, nested, size, *rest):
    size, own = list(size), sizes_as_numbers(nested)
    if len(size) != len(own):
        raise RuntimeError(
            f"expand(): cannot expand shape {nested._size} -> {_shown(size)}"
        )
    for d in (0, nested._ragged_idx):
        if size[d] not in (own[d], -1):
            raise RuntimeError(
                f"expand(): cannot expand shape {nested._size} -> {_shown(size)}"
            )
        size[d] = -1
    return _rewrapped(values_of(nested).expand(size[1:]), nested)


@RULES("unsqueeze")
def _unsqueeze(op, nested, dim):
    inner, at = inner_dim(nested, dim, "unsqueeze", more=1, ragged=True), None
    if inner + 1 <= nested._ragged_idx:
        at = nested._ragged_idx + 1
    return _rewrapped(values_of(nested).unsqueeze(inner), nested, at)


@RULES("squeeze")
def _squeeze(op, nested, dim=None):
    n, at = nested.dim(), nested._ragged_idx
    if dim is None:
        dims = [d for d in range(1, n) if d != at]
    else:
        dims = [dim] if isinstance(dim, int) else dim
        dims = [inner_dim(nested, d, "squeeze") + 1 for d in dims]
    gone = [d for d in dims if nested._values.shape[d - 1] == 1]
    values = values_of(nested).squeeze([d - 1 for d in gone])
    return _rewrapped(values, nested, at - sum(d < at for d in gone))


def parts(nested):
    """The parts, each a view of the values."""
    values, at = values_of(nested), nested._ragged_idx - 1
    if nested._lengths is None:
        total, lengths = values.shape[at], nested.part_lengths()
        first = int(nested._offsets[0]) if sum(lengths) != total else 0
        if not first and sum(lengths) == total:
            return values.split(lengths, dim=at)
    starts = nested._offsets[:-1].tolist()
    return tuple(
        values.narrow(at, start, length)
        for start, length in zip(starts, nested.part_lengths())
    )


@RULES("unbind")
def _unbind(op, nested, dim=0):
    if wrap_dim(nested.dim(), dim) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    return list(parts(nested))


@RULES("select")
def _select(op, nested, dim, index):
    dim = wrap_dim(nested.dim(), dim)
    if dim == 0:
        count = len(nested)
        if not -count <= index < count:
            raise IndexError(
                f"select(): index {index} out of range for tensor of size "
                f"{list(nested.shape)} at dimension 0"
            )
        index %= count
        start = int(nested._offsets[index])
        at, length = nested._ragged_idx - 1, nested.part_lengths()[index]
        return values_of(nested).narrow(at, start, length)
    inner = inner_dim(nested, dim, "select")
    at = nested._ragged_idx - (dim < nested._ragged_idx)
    return _rewrapped(values_of(nested).select(inner, index), nested, at)


def _is_whole(start, end, step):
    return not start and step == 1 and (end is None or end >= FIRST)


@RULES("slice")
def _slice(op, nested, dim=0, start=None, end=None, step=1):
    found = wrap_dim(nested.dim(), dim)
    if found in (0, nested._ragged_idx) and _is_whole(start, end, step):
        return nested  # as `x[:, :, 1:]` takes them
    if found == 0 and not start and step == 1 and end == len(nested):
        return nested
    inner = inner_dim(nested, dim, "slice")
    found = op.redispatch(None, values_of(nested), inner, start, end, step)
    return _rewrapped(found, nested)


@RULES("split_with_sizes", "tensor_split")
def _along(op, nested, what, dim=0, *rest):
    """What cuts along one dimension, to pieces or to one."""
    inner = inner_dim(nested, dim, op._opname)
    found = op.redispatch(None, values_of(nested), what, inner, *rest)
    return [_rewrapped(each, nested) for each in found]


@RULES("narrow")
def _narrow(op, nested, dim, start, length):
    inner = inner_dim(nested, dim, "narrow")
    return _rewrapped(values_of(nested).narrow(inner, start, length), nested)


def _alike(tensors, name):
    """The first nested tensor, and values of all: dense ones are cut like it.

    Raises:
        RuntimeError: they are cut at different places.
    """
    first = next(t for t in tensors if isinstance(t, NestedTensor))
    values = []
    for each in tensors:
        if not isinstance(each, NestedTensor):
            each = each.expand((len(first), *each.shape[1:])) if each.dim() else each
            values.append(rows_of(each, first))
            continue
        if each._ragged != first._ragged or each._ragged_idx != first._ragged_idx:
            raise RuntimeError(
                f"{name}(): expected all nested tensors to have the same nested "
                f"structure, got {first._size} and {each._size}"
            )
        values.append(values_of(each))
    return first, values


@RULES("cat")
def _cat(op, tensors, dim=0):
    if all(isinstance(t, NestedTensor) for t in tensors):
        n, at = tensors[0].dim(), tensors[0]._ragged_idx
        if wrap_dim(n, dim) == 0:
            return _concatenated(tensors, at)
    first, values = _alike(tensors, "cat")
    inner = inner_dim(first, dim, "cat")
    return _rewrapped(op.redispatch(None, values, inner), first)


def _concatenated(tensors, at):
    """The parts of all as one nested tensor."""
    pieces = [part for each in tensors for part in parts(each)]
    values = rl.cat(pieces, at - 1)
    lengths = [part.shape[at - 1] for part in pieces]
    offsets = rl.tensor([0, *lengths], device=values.device).cumsum(0)
    return wrapped(values, offsets, None, at)


@RULES("stack")
def _stack(op, tensors, dim=0):
    if not all(isinstance(t, NestedTensor) for t in tensors):
        raise RuntimeError("stack(): expected all nested tensors inputs")
    if len({t.dim() for t in tensors}) != 1:
        raise RuntimeError("stack(): expected all nested tensors to have the same dim")
    first, values = _alike(tensors, "stack")
    inner = inner_dim(first, dim, "stack", more=1, ragged=True)
    at = first._ragged_idx + (inner < first._ragged_idx)
    return _rewrapped(rl.stack(values, inner), first, at)
