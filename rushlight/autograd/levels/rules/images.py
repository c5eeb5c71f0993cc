"""Convolutions, pooling, padding and attention: batches of batches."""

from rushlight.autograd.levels.stack import each, mapped, tensors
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import ARGUMENTS


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

    def split_batch(part):
        known = part is None or not part.dim()
        return part if known else level.wrap(part.unflatten(0, sizes))

    found = op.redispatch(None, *map(joined_with, given.values()))
    sizes = level.size, args[0].shape[0]
    return tuple(map(split_batch, found))


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


def batches(level, op, args):
    """Every operand is a batch of as many."""
    count = next(tensors(args)).shape[0]
    values = each(lambda t: merged(level.filled(t)), args)
    return mapped(
        lambda part: level.wrap(part.unflatten(0, (level.size, count))),
        op.redispatch(None, *values),
    )


def pad_around(level, op, args):
    return level.wrap(op.redispatch(None, level.front(args[0]), *args[1:]))


def pad_around_backward(level, op, args):
    grad, sizes, *rest = args
    wide = [level.size, *sizes]
    return level.wrap(op.redispatch(None, level.front(grad), wide, *rest))


pooling_1d, pooling_2d, pooling_3d = map(pooling, (1, 2, 3))
