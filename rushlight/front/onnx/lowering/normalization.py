"""Normalization by statistics of a batch, of channels, or of what is kept."""

import math

import rushlight as rl
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.onnx.lowering.reduction import moments
from rushlight.operators import call


def _channels(g, value):
    size = value.shape[1]
    if type(size) is not int:
        raise Unsupported("its number of channels is open")
    return size


def _scale_of(g, weight, count, kind, number=1.0):
    """A vector of scales, of ones where there is none."""
    return g.const([number] * count, kind) if weight is None else weight


def _by_kept(g, input, weight, bias, mean, var, eps):
    """With statistics that are kept."""
    count, kind = _channels(g, input), input.dtype
    return g.op(
        "BatchNormalization",
        input,
        _scale_of(g, weight, count, kind),
        _scale_of(g, bias, count, kind, 0.0),
        mean,
        var,
        epsilon=float(eps),
        dtype=kind,
    )


def _by_batch(g, input, weight, bias, eps):
    """With statistics of the batch: the result, its mean, one by its deviation."""
    dims = [at for at in range(input.rank) if at != 1]
    var, mean = moments(g, input, dims, True, 0)
    scale = g.op("Sqrt", g.add(var, float(eps)), dtype=input.dtype)
    made = g.div(g.sub(input, mean), scale)
    made = _affine(g, made, weight, bias, input.rank)
    return (
        made,
        g.squeeze(mean_of(mean, input), dims),
        g.op("Reciprocal", g.op("Squeeze", scale, g.ints(dims)), dtype=input.dtype),
    )


def mean_of(mean, input):
    """Says the sizes of means over all but the channels."""
    mean.shape = tuple(s if at == 1 else 1 for at, s in enumerate(input.shape))
    return mean


def _affine(g, value, weight, bias, rank):
    """A scale and a shift for each channel."""
    sizes = [-1, *[1] * (rank - 2)]
    if weight is not None:
        value = g.mul(value, g.reshape(weight, sizes))
    if bias is not None:
        value = g.add(value, g.reshape(bias, sizes))
    return value


@lowers(call.batch_norm)
def batch_norm(
    g, input, weight, bias, running_mean, running_var, training, momentum, eps
):
    """Normalized over the batch, or by what was kept of others."""
    if not training and running_mean is not None:
        return _by_kept(g, input, weight, bias, running_mean, running_var, eps)
    return _by_batch(g, input, weight, bias, eps)[0]


@lowers(call.native_batch_norm, call._native_batch_norm_legit)
def native_batch_norm(
    g, input, weight, bias, training, momentum, eps, running_mean=None, running_var=None
):
    """The same, with the statistics of the batch."""
    if training:
        return _by_batch(g, input, weight, bias, eps)
    made = _by_kept(g, input, weight, bias, running_mean, running_var, eps)
    nothing = g.const([], input.dtype)
    return made, nothing, nothing


@lowers(call._native_batch_norm_legit_no_training)
def batch_norm_no_training(
    g, input, weight, bias, running_mean, running_var, momentum, eps
):
    """By what was kept."""
    made = _by_kept(g, input, weight, bias, running_mean, running_var, eps)
    nothing = g.const([], input.dtype)
    return made, nothing, nothing


@lowers(call._batch_norm_no_update)
def batch_norm_no_update(
    g, input, weight, bias, running_mean, running_var, momentum, eps
):
    """By what was kept."""
    made = batch_norm_no_training(
        g, input, weight, bias, running_mean, running_var, momentum, eps
    )
    return (*made, g.const([], rl.uint8))


def _over_last(g, input, shape, weight, bias, eps):
    kind = input.dtype
    if weight is None:
        weight = g.const(rl.ones(list(shape)).tolist(), kind)
    return g.op(
        "LayerNormalization", input, weight, bias,
        axis=-len(shape), epsilon=float(eps), dtype=kind,
    )  # fmt: skip


@lowers(call.layer_norm)
def layer_norm(g, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalized over the last dimensions."""
    return _over_last(g, input, normalized_shape, weight, bias, eps)


@lowers(call.native_layer_norm)
def native_layer_norm(g, input, normalized_shape, weight, bias, eps):
    """The same, with the statistics."""
    count = len(normalized_shape)
    dims = list(range(-count, 0))
    var, mean = moments(g, input, dims, True, 0)
    deviation = g.op("Sqrt", g.add(var, float(eps)), dtype=input.dtype)
    made = _over_last(g, input, normalized_shape, weight, bias, eps)
    return made, mean, g.op("Reciprocal", deviation, dtype=input.dtype)


@lowers(call.rms_norm)
def rms_norm(g, input, normalized_shape, weight=None, eps=None):
    """Divided by the root of the mean square of the last dimensions."""
    kind = input.dtype
    eps = rl.finfo(kind).eps if eps is None else eps
    dims = list(range(-len(normalized_shape), 0))
    square = g.reduce("ReduceMean", g.mul(input, input), dims, True)
    root = g.op("Sqrt", g.add(square, float(eps)), dtype=kind)
    made = g.div(input, root)
    return made if weight is None else g.mul(made, weight)


def _over_groups(g, input, weight, bias, groups, eps):
    """Normalized over groups of channels and all places."""
    kind = input.dtype
    rows = g.reshape(input, [g.size_of(input, 0), groups, -1])
    ones, zeros = (g.const([one] * groups, kind) for one in (1.0, 0.0))
    made = g.op(
        "InstanceNormalization", rows, ones, zeros, epsilon=float(eps), dtype=kind
    )
    made = g.op("Reshape", made, g.shape_of(input), dtype=kind)
    return _affine(g, made, weight, bias, input.rank)


@lowers(call.group_norm)
def group_norm(g, input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalized over groups of channels."""
    return _over_groups(g, input, weight, bias, num_groups, eps)


@lowers(call.native_group_norm)
def native_group_norm(g, input, weight, bias, N, C, HxW, group, eps):
    """The same, with the statistics of each group."""
    rows = g.reshape(input, [g.size_of(input, 0), group, -1])
    rows.shape = (input.shape[0], group, None)
    made = _over_groups(g, input, weight, bias, group, eps)
    mean = g.reduce("ReduceMean", rows, [2], False)
    gap = g.sub(rows, g.unsqueeze(mean, [2]))
    var = g.reduce("ReduceMean", g.mul(gap, gap), [2], False)
    deviation = g.op("Sqrt", g.add(var, float(eps)), dtype=input.dtype)
    return made, mean, g.op("Reciprocal", deviation, dtype=input.dtype)


@lowers(call.instance_norm)
def instance_norm(
    g, input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps
):
    """Normalized over the places of each channel."""
    if not use_input_stats and running_mean is not None:
        return _by_kept(g, input, weight, bias, running_mean, running_var, eps)
    count, kind = _channels(g, input), input.dtype
    return g.op(
        "InstanceNormalization",
        input,
        _scale_of(g, weight, count, kind),
        _scale_of(g, bias, count, kind, 0.0),
        epsilon=float(eps),
        dtype=kind,
    )


@lowers(call.cosine_similarity)
def cosine_similarity(g, x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between vectors."""
    kind = g.kind
    if x1.rank == 0 or x2.rank == 0:
        raise Unsupported("of one element it has no form in ONNX")
    x1, x2 = g.cast(x1, kind), g.cast(x2, kind)
    parts = []
    for one in (x1, x2):
        length = g.reduce("ReduceL2", one, [dim], True)
        parts.append(
            g.div(one, g.op("Max", length, g.const(float(eps), kind), dtype=kind))
        )
    return g.reduce("ReduceSum", g.mul(*parts), [dim], False)


@lowers(call._cdist_forward)
def _cdist_forward(g, x1, x2, p, compute_mode=None):
    """The distances of all pairs of rows."""
    kind = g.kind
    rows, columns = g.unsqueeze(x1, [-2]), g.unsqueeze(x2, [-3])
    gap = g.sub(g.cast(rows, kind), g.cast(columns, kind))
    gap.shape = (*[None] * (max(x1.rank, x2.rank)), x1.shape[-1])
    if p in (1, 2):
        return g.reduce(f"ReduceL{int(p)}", gap, [-1], False)
    size = g.op("Abs", gap, dtype=kind)
    size.shape = gap.shape
    if p == math.inf:
        return g.reduce("ReduceMax", size, [-1], False)
    if p == 0:
        size = g.cast(g.compare("Greater", size, 0.0), kind)
        size.shape = gap.shape
        return g.reduce("ReduceSum", size, [-1], False)
    power = g.op("Pow", size, g.const(float(p), kind), dtype=kind)
    power.shape = gap.shape
    total = g.reduce("ReduceSum", power, [-1], False)
    return g.op("Pow", total, g.const(1.0 / p, kind), dtype=kind)
