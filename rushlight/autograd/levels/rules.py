"""How operators take a whole batch: rules by kind, found once for each operator.

A rule is called as ``rule(level, op, args)`` while the levels outside see calls, with at
least one batched tensor among the arguments. It returns tensors of the level, or
NotImplemented where the arguments are of a form that it does not take.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from rushlight.autograd.levels.stack import each, follow, mapped, tensors
from rushlight.core.dtypes import bool_, uint8
from rushlight.core.layout import (
    MemoryFormat,
    channels_last,
    channels_last_3d,
    contiguous_format,
)
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import (
    ARGUMENTS,
    BATCHING,
    IMPLEMENTATION,
    INPLACE,
    KIND,
    NAME,
    OUT,
)
from rushlight.dispatch.rules_from_outside import vmap_rules
from rushlight.operators import call

_found = {}
CHANNELS_LAST = (channels_last, channels_last_3d)


def rule_of(op):
    """The operator's rule, or None."""
    if op in vmap_rules:
        return registered
    if op not in _found:
        _found[op] = _choose(op)
    return _found[op]


class VmapInfo(NamedTuple):
    """What a rule from outside is told of the batch."""

    batch_size: int
    randomness: str


def registered(level, op, args):
    """A rule from outside: it is told which dimensions count the examples.

    Raises:
        RuntimeError: it gives no dimensions for its results.
    """

    def dim_of(arg):
        if isinstance(arg, Tensor):
            return arg._stand.dim if level.owns(arg) else None
        if isinstance(arg, (list, tuple)) and any(isinstance(t, Tensor) for t in arg):
            return [dim_of(each) for each in arg]
        return None

    values = each(level.unwrap, args)
    positional, named, dims = [], {}, []
    for row, value, arg in zip(op.signature.rows, values, args, strict=True):
        if row[3]:
            named[row[0]] = value
        else:
            positional.append(value)
            dims.append(dim_of(arg))
    info = VmapInfo(level.size, level.randomness)
    given = vmap_rules[op](info, tuple(dims), *positional, **named)
    if not isinstance(given, tuple) or len(given) != 2:
        raise RuntimeError(
            f"the vmap rule of {op.namespace}::{op.name} must return a tuple of its "
            f"output and of the output's dimensions, but returned {type(given).__name__}"
        )
    return _wrapped(level, *given)


def _wrapped(level, result, dims):
    """Results with the dimensions that count the examples."""
    if isinstance(result, Tensor):
        return result if dims is None else level.wrap(result, dims)
    if isinstance(result, (tuple, list)):
        each_dim = dims if isinstance(dims, (tuple, list)) else [dims] * len(result)
        parts = zip(result, each_dim, strict=True)
        return type(result)(_wrapped(level, part, dim) for part, dim in parts)
    return result


def _choose(op):
    """What the declaration says; else what its kind of kernel implies."""
    if op.form == OUT or not op.entry:
        return None
    said = op.entry[BATCHING]
    kind = op.entry[IMPLEMENTATION][KIND]
    if isinstance(said, tuple):
        rows = op.entry[ARGUMENTS]
        own = bool(rows and rows[0][5] & 1)  # declared in place, and so is the rule
        return globals()[said[1]] if own or op.form != INPLACE else None
    if said == "elementwise" or kind == "pointwise":
        return elementwise
    if said == "along":
        return along_dim
    if op.form == INPLACE:
        return None
    return {"reduction": reduction, "view": along_dim}.get(kind)


# -- elementwise -----------------------------------------------------------------------


def elementwise(level, op, args):
    """Operands are aligned at their last dimension, behind the batch."""
    found = list(tensors(args))
    rank = max(t.dim() for t in found)
    if len({t.dtype for t in found}) > 1:
        # a 0-dim tensor promotes less than a batch of them, beside what has no batch
        if rank and any(t.dim() == 0 and level.owns(t) for t in found):
            return NotImplemented
        if not rank and not all(level.owns(t) for t in found):
            return NotImplemented
    if op.form == INPLACE and args[0].dim() < rank:
        return NotImplemented

    def aligned(tensor):
        if not level.owns(tensor):
            return tensor
        value = level.front(tensor)
        for _ in range(rank - tensor.dim()):
            value = value.unsqueeze(1)
        return value

    values = each(aligned, args)
    if any(value in CHANNELS_LAST for value in values if type(value) is MemoryFormat):
        # the format of one example: a batch of them has a rank that it is not for
        values = [
            contiguous_format if type(v) is MemoryFormat and v in CHANNELS_LAST else v
            for v in values
        ]
    result = op.redispatch(None, *values)
    return args[0] if op.form == INPLACE else mapped(level.wrap, result)


def filled_in(level, op, args):
    """One number for all, or one for each example: what is copied broadcasts."""
    target, value = args
    if isinstance(value, Tensor) and level.owns(value) and not value.dim():
        spread = level.front(value)
        for _ in range(target.dim()):
            spread = spread.unsqueeze(-1)
        level.front(target).copy_(spread)
        return target
    if isinstance(value, Tensor) and level.owns(value):
        return NotImplemented
    op.redispatch(None, level.front(target), value)
    return target


def resized(level, op, args):
    """The memory of all examples, read anew with other sizes of one.

    Raises:
        RuntimeError: another format is asked for, or the examples do not come first.
    """
    target, size, memory_format = args
    if memory_format not in (None, contiguous_format):
        raise RuntimeError(
            "resize_: batching rule only supports None or Contiguous MemoryFormat"
        )
    stand = target._stand
    if stand.dim != 0:
        raise RuntimeError("NYI: resize_ batch rule for batch dim != 0")
    op.redispatch(None, stand.value, [level.size, *size], None)
    follow(target, stand.value, 0)
    return target


# -- dimensions ------------------------------------------------------------------------


def along_dim(level, op, args):
    """Dimensions are counted from behind the batch."""
    names = [row[0] for row in op.entry[ARGUMENTS]]
    rank = args[0].dim()
    if rank == 0 or any(t.dim() != rank for t in tensors(args)):
        if op.entry[NAME] != "unsqueeze":
            return NotImplemented
    if op.name == "squeeze":
        sizes = args[0].shape
        dims = [d + 1 for d in range(rank) if sizes[d] == 1]
        return level.wrap(level.front(args[0]).squeeze(dims))
    whole = rank
    if op.entry[NAME] == "unsqueeze":
        whole = rank + 1
    values = each(level.filled, args)
    shifted = False
    for i, name in enumerate(names):
        if name in ("dim", "dims", "dim0", "dim1", "dim2", "dimension"):
            if values[i] is None or values[i] == []:
                return NotImplemented
            values[i] = shift(values[i], whole)
            shifted = True
    if not shifted and op.entry[IMPLEMENTATION][KIND] != "view":
        return NotImplemented
    if not shifted and op.entry[NAME] not in ("detach", "alias"):
        return NotImplemented
    result = op.redispatch(None, *values)
    return args[0] if op.form == INPLACE else mapped(level.wrap, result)


def shift(dim, rank):
    if isinstance(dim, (list, tuple)):
        return [shift(d, rank) for d in dim]
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], "
            f"but got {dim})"
        )
    return dim % rank + 1


def reduction(level, op, args):
    """The batch is kept; where no dimension is named, all of an example go."""
    x = args[0]
    names = [row[0] for row in op.entry[ARGUMENTS]]
    values = each(level.filled, args)
    rank = x.dim()
    if rank == 0:
        values[0] = values[0].unsqueeze(1)
    named = values[names.index("dim")] if "dim" in names else None
    everything = named is None or (isinstance(named, (list, tuple)) and not named)
    if everything and named is not None and op.entry[NAME] in ("any", "all"):
        return NotImplemented  # to these, no dimensions are none
    if not everything:
        if rank == 0:
            # the one element is a row of its own, and none is kept
            values[names.index("dim")] = shift(named, 1)
            if "keepdim" in names:
                values[names.index("keepdim")] = False
            return mapped(level.wrap, op.redispatch(None, *values))
        values[names.index("dim")] = shift(named, rank)
        return mapped(level.wrap, op.redispatch(None, *values))
    if "keepdim" in names and values[names.index("keepdim")]:
        return NotImplemented
    flat = values[0].flatten(1)
    base = op.entry[NAME]
    if base in ("max", "min"):
        return level.wrap(getattr(flat, "a" + base)(1))
    function = FLAT.get(base)
    if function is None:
        return NotImplemented
    rest = {name: value for name, value in zip(names[1:], values[1:]) if name != "dim"}
    rest.pop("keepdim", None)
    result = function(flat, dim=1, **{k: v for k, v in rest.items() if v is not None})
    return mapped(level.wrap, result)


FLAT = {
    name: getattr(Tensor, name)
    for name in (
        *("sum", "nansum", "mean", "prod", "any", "all", "amax", "amin", "argmax"),
        *("argmin", "count_nonzero", "var", "std", "logsumexp"),
    )
}


# -- views with sizes ------------------------------------------------------------------


def sized(level, op, args):
    x, size = args[0], list(args[1])
    if -1 in size:
        known = math.prod(n for n in size if n != -1)
        if size.count(-1) > 1 or not known or x.numel() % known:
            return NotImplemented
        size[size.index(-1)] = x.numel() // known
    return level.wrap(op.redispatch(None, level.front(x), [level.size, *size]))


def created(level, op, args):
    """A new tensor of given sizes for each example, and of given strides."""
    size, *rest = args[1:]
    if op.entry[NAME] == "new_empty_strided":
        spans = [(n - 1) * stride for n, stride in zip(size, rest[0])]
        rest[0] = [1 + sum(spans), *rest[0]]
    sizes = [level.size, *size]
    return level.wrap(op.redispatch(None, level.front(args[0]), sizes, *rest))


def unsafe_sized(level, op, args):
    """The examples may lie in memory as no view of the batch could: copied, then."""
    x, size = args[0], args[1]
    return level.wrap(level.front(x).reshape([level.size, *size]))


def expand(level, op, args):
    x, size = args[0], list(args[1])
    extra = len(size) - x.dim()
    if extra < 0:
        return NotImplemented
    value = level.front(x)
    for _ in range(extra):
        value = value.unsqueeze(1)
    for i in range(extra, len(size)):
        if size[i] == -1:
            size[i] = x.shape[i - extra]
    return level.wrap(value.expand(level.size, *size))


def permute(level, op, args):
    x = args[0]
    return level.wrap(level.front(x).permute(0, *shift(args[1], x.dim())))


def behind(level, op, args):
    """What concerns the last dimensions only."""
    if any(level.owns(t) for t in tensors(args[1:])):
        return NotImplemented
    return mapped(level.wrap, op.redispatch(None, level.front(args[0]), *args[1:]))


def bytes_of(level, op, args):
    """``view`` as another dtype: of widths that differ, examples have a last dimension."""
    x, dtype = args
    if x.dim() == 0 and x.dtype.itemsize != dtype.itemsize:
        return NotImplemented
    return behind(level, op, args)


def t(level, op, args):
    x = args[0]
    if x.dim() > 2:
        return NotImplemented
    value = level.front(x)
    return level.wrap(value.transpose(1, 2) if x.dim() == 2 else value)


def put_back(level, op, args):
    """The gradients of views that leave elements out: the sizes of all are given."""
    names = [row[0] for row in op.entry[ARGUMENTS]]
    grad, sizes, *rest = args
    rest = [
        shift(value, len(sizes)) if name.startswith("dim") else value
        for name, value in zip(names[2:], rest)
    ]
    whole = [level.size, *sizes]
    return level.wrap(op.redispatch(None, level.front(grad), whole, *rest))


def as_strided(level, op, args):
    x, size, stride, offset = args
    value = level.front(x)
    offset = value.storage_offset() if offset is None else offset
    return level.wrap(
        value.as_strided([level.size, *size], [value.stride(0), *stride], offset)
    )


def joined(level, op, args):
    """``cat`` and ``stack``."""
    parts, dim = args
    if not all(isinstance(t, Tensor) for t in parts):
        return NotImplemented
    rank = max(t.dim() for t in parts) + (op.entry[NAME] == "stack")
    if rank == 0 or len({t.dtype for t in parts}) > 1:
        return NotImplemented
    if op.entry[NAME] == "cat" and len({t.dim() for t in parts}) > 1:
        return NotImplemented
    values = [level.filled(t) for t in parts]
    return level.wrap(op.redispatch(None, values, shift(dim, rank)))


def repeat(level, op, args):
    x, repeats = args
    value = level.front(x)
    for _ in range(len(repeats) - x.dim()):
        value = value.unsqueeze(1)
    return level.wrap(value.repeat(1, *repeats))


# -- products --------------------------------------------------------------------------


def lowered(level, tensor):
    return level.front(tensor) if level.owns(tensor) else tensor


def product(level, op, args):
    """``mm``, ``bmm``, ``mv`` and ``dot`` as products that broadcast."""
    a, b = (lowered(level, t) for t in args[:2])
    base = op.entry[NAME]
    if base in ("mm", "bmm"):
        return level.wrap(call.matmul(a, b))
    if base == "mv":
        return level.wrap(call.matmul(a, b.unsqueeze(-1)).squeeze(-1))
    return level.wrap((a.unsqueeze(-2) @ b.unsqueeze(-1)).squeeze(-1).squeeze(-1))


def added_product(level, op, args):
    c, a, b, beta, alpha = args
    if not a.is_floating_point() and not a.is_complex():
        return NotImplemented
    product = call.matmul(lowered(level, a), lowered(level, b))
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return level.wrap(product)
    value = lowered(level, c)
    if level.owns(c):
        for _ in range(a.dim() - c.dim()):
            value = value.unsqueeze(1)
    return level.wrap(product + (value if beta == 1 else value * beta))


def linear(level, op, args):
    x, weight, bias = args
    if not level.owns(weight) and (bias is None or not level.owns(bias)):
        return level.wrap(op.redispatch(None, level.front(x), weight, bias))
    if not level.owns(weight):
        return NotImplemented
    w = level.front(weight)
    rows = lowered(level, x)
    single = x.dim() == 1
    if single:
        rows = rows.unsqueeze(-2)
    between = max(0, (1 if single else x.dim() - 1) - 1)
    matrix = w.mT
    for _ in range(between):
        matrix = matrix.unsqueeze(1)
    result = call.matmul(rows, matrix)
    if single:
        result = result.squeeze(-2)
    if bias is not None:
        shift_by = lowered(level, bias)
        if level.owns(bias):
            for _ in range(x.dim() - 1):
                shift_by = shift_by.unsqueeze(1)
        result = result + shift_by
    return level.wrap(result)


# -- images ----------------------------------------------------------------------------


def merged(value, at=0):
    """Two neighbouring dimensions as one."""
    return value.flatten(at, at + 1)


def convolution(level, op, args):
    x, weight, bias, *rest, groups = args
    transposed = rest[3]
    nd = weight.dim() - 2
    if x.dim() != nd + 2:
        return NotImplemented
    if level.owns(x) and not level.owns(weight):
        if bias is not None and level.owns(bias):
            return NotImplemented
        value = level.front(x)
        result = op.redispatch(None, merged(value), weight, bias, *rest, groups)
        return level.wrap(result.unflatten(0, (level.size, x.shape[0])))
    if not level.owns(weight):
        return NotImplemented
    if not level.owns(x) and (groups != 1 or transposed):
        x = level.wrap(level.filled(x))
    filters = merged(level.front(weight))
    shifts = None if bias is None else merged(level.filled(bias))
    if level.owns(x):
        inputs = merged(level.front(x).transpose(0, 1), 1)
        groups *= level.size
    else:
        inputs = x
    result = op.redispatch(None, inputs, filters, shifts, *rest, groups)
    channels = result.shape[1] // level.size
    return level.wrap(result.unflatten(1, (level.size, channels)), 1)


def convolution_backward(level, op, args):
    names = [row[0] for row in op.entry[ARGUMENTS]]
    given = dict(zip(names, args))
    grad, x, weight = args[:3]
    mask = list(given["output_mask"])
    if x.dim() != weight.dim():
        return NotImplemented
    if given["transposed"] and given["groups"] != 1:
        return NotImplemented
    examples = level.size
    rest = args[3:-2]
    groups = given["groups"] * examples
    g = merged(level.filled(grad).transpose(0, 1), 1)
    inputs = merged(level.filled(x).transpose(0, 1), 1)
    filters = merged(level.filled(weight).contiguous())
    if "bias_sizes" in given:
        at = names.index("bias_sizes")
        sizes = args[at]
        rest = list(args[3:-2])
        rest[at - 3] = None if sizes is None else [sizes[0] * examples]
    found = op.redispatch(None, g, inputs, filters, *rest, groups, mask)
    results = []
    for i, (part, wanted) in enumerate(zip(found, mask)):
        if not wanted or part is None:
            results.append(None)
        elif i == 0:
            parts = part.unflatten(1, (examples, x.shape[1]))
            results.append(level.wrap(parts, 1))
        else:
            results.append(
                level.wrap(part.unflatten(0, (examples, part.shape[0] // examples)))
            )
    return tuple(results)


def attention(level, op, args):
    """Batches of batches; a mask is spread over every query and key first.

    Dropout draws for each example, and its gradients need what was drawn for each.
    """
    names = [row[0] for row in op.entry[ARGUMENTS]]
    given = dict(zip(names, args, strict=True))
    if given["dropout_p"]:
        return NotImplemented if "philox_seed" in given else level.drawn(op, args)
    name = "attn_mask" if "attn_mask" in given else "attn_bias"
    mask = given[name]
    if mask is not None:
        query, key = given["query"], given["key"]
        given[name] = mask.expand(*query.shape[:3], key.shape[2])

    def joined_with(value):
        many = isinstance(value, Tensor) and value.dim()
        return merged(level.filled(value)) if many else value

    def apart(part):
        known = part is None or not part.dim()
        return part if known else level.wrap(part.unflatten(0, sizes))

    found = op.redispatch(None, *map(joined_with, given.values()))
    sizes = level.size, args[0].shape[0]
    return tuple(map(apart, found))


def pooling(nd):
    def rule(level, op, args):
        found = list(tensors(args))
        ranks = {t.dim() for t in found}
        if len(ranks) > 1 or not ranks <= {nd + 1, nd + 2}:
            return NotImplemented
        whole = ranks == {nd + 2}
        count = found[0].shape[0]

        def taken(tensor):
            value = level.filled(tensor)
            return merged(value) if whole else value

        def given(value):
            return level.wrap(
                value.unflatten(0, (level.size, count)) if whole else value
            )

        return mapped(given, op.redispatch(None, *each(taken, args)))

    return rule


def embedding(level, op, args):
    weight, places, *rest = args
    if level.owns(weight):
        return NotImplemented
    return level.wrap(op.redispatch(None, weight, level.front(places), *rest))


def index_select(level, op, args):
    x, dim, places = args
    if level.owns(places) or x.dim() == 0:
        return NotImplemented
    value = level.front(x)
    return level.wrap(op.redispatch(None, value, shift(dim, x.dim()), places))


def pad_around(level, op, args):
    return level.wrap(op.redispatch(None, level.front(args[0]), *args[1:]))


def pad_around_backward(level, op, args):
    grad, sizes, *rest = args
    wide = [level.size, *sizes]
    return level.wrap(op.redispatch(None, level.front(grad), wide, *rest))


def index(level, op, args):
    x, places = args
    at = [i for i, item in enumerate(places) if item is not None]
    if any(p is not None and level.owns(p) for p in places) or not level.owns(x):
        return NotImplemented
    if at != list(range(at[0], at[0] + len(at))):
        return NotImplemented
    if any(places[i].dtype in (bool_, uint8) for i in at):
        return NotImplemented
    return level.wrap(op.redispatch(None, level.front(x), [None, *places]))


# -- losses ----------------------------------------------------------------------------

NONE, MEAN = 0, 1


def mse(level, op, args):
    x, target, reduction = args
    if x.shape != target.shape:
        return NotImplemented
    costs = op.redispatch(None, level.filled(x), level.filled(target), NONE)
    if reduction != NONE:
        flat = costs.flatten(1) if x.dim() else costs.unsqueeze(1)
        costs = flat.mean(1) if reduction == MEAN else flat.sum(1)
    return level.wrap(costs)


def mse_backward(level, op, args):
    grad, x, target, reduction = args
    if x.shape != target.shape:
        return NotImplemented
    g = level.filled(grad)
    for _ in range(x.dim() - grad.dim()):
        g = g.unsqueeze(-1)
    if reduction == MEAN:
        g = g / x.numel()
    x, target = level.filled(x), level.filled(target)
    return level.wrap(op.redispatch(None, g.expand_as(x), x, target, NONE))


def _rows_of_classes(level, x, target):
    """Log-probabilities and class numbers of all examples, one below the other."""
    rows, labels = level.filled(x), level.filled(target)
    if x.dim() == 1:
        rows, labels = rows.unsqueeze(1), labels.unsqueeze(1)
    return merged(rows), merged(labels)


def nll(level, op, args):
    x, target, weight, reduction, ignored = args
    if x.dim() > 2 or x.dim() != target.dim() + 1:
        return NotImplemented
    if weight is not None and level.owns(weight):
        return NotImplemented
    rows, labels = _rows_of_classes(level, x, target)
    costs, _ = op.redispatch(None, rows, labels, weight, NONE, ignored)
    costs = costs.view(level.size, -1)
    counts = _weights(labels, weight, ignored, costs).sum(1)
    if reduction == NONE:
        costs = costs if x.dim() == 2 else costs.squeeze(1)
    else:
        costs = costs.sum(1) / (counts if reduction == MEAN else 1)
    return level.wrap(costs), level.wrap(counts)


def _weights(labels, weight, ignored, costs):
    kept = (labels != ignored).to(costs.dtype)
    if weight is not None:
        kept = kept * weight[labels.clamp(0, weight.numel() - 1)]
    return kept.view(costs.shape)


def nll_backward(level, op, args):
    grad, x, target, weight, reduction, ignored, total = args
    if x.dim() > 2 or x.dim() != target.dim() + 1:
        return NotImplemented
    if weight is not None and level.owns(weight):
        return NotImplemented
    rows, labels = _rows_of_classes(level, x, target)
    g = level.filled(grad)
    if reduction == MEAN:
        g = g / level.filled(total)
    count = rows.shape[0] // level.size
    g = g.view(level.size, -1).expand(level.size, count).reshape(-1)
    found = op.redispatch(None, g, rows, labels, weight, NONE, ignored, g.sum())
    found = found.unflatten(0, (level.size, count))
    return level.wrap(found if x.dim() == 2 else found.squeeze(1))


def of_all_examples(level, op, args):
    """A question about the whole batch, whose answer is no batch."""
    return op.redispatch(None, level.front(args[0]))


def varying(level, op, args):
    """Refuses results whose shapes would differ from example to example."""
    name = op.entry[NAME]
    if name == "masked_select" and level.shares(args[1]):
        return NotImplemented
    raise RuntimeError(
        "vmap: We do not support batching operators that can output dynamic shape. "
        f"Attempted to vmap over aten::{SHOWN.get(name, name)}: examples would differ in "
        "the shape of their results."
    )


# whom users have called
SHOWN = {"nonzero_numpy": "where", "_unique_consecutive": "unique_consecutive"}
pooling_1d, pooling_2d, pooling_3d = map(pooling, (1, 2, 3))
