"""Normalization: weights of examples of their own are multiplied behind it."""

from rushlight.autograd.levels.rules.images import merged


def _any_owned(level, *given):
    return any(t is not None and level.owns(t) for t in given)


def _by_example(level, parameter, after):
    """A parameter before so many dimensions more than it has; None stays None.

    Args:
        after: how many dimensions follow its own in what it multiplies.
    """
    value = level.filled(parameter)
    return value.view(*value.shape, *[1] * after)


def _scaled(level, normal, weight, bias, before, after):
    """Normalized examples times their weights, plus their shifts.

    Args:
        before: how many dimensions of an example come before the parameters' own.
        after: how many come behind them.
    """
    result = normal
    for parameter, add in ((weight, False), (bias, True)):
        if parameter is not None:
            value = _by_example(level, parameter, after)
            for _ in range(before):
                value = value.unsqueeze(1)
            result = result + value if add else result * value
    return result.to(normal.dtype)


def layer_norm(level, op, args):
    """Rows of all examples alike; each example's weights behind them, if they differ."""
    x, shape, *parameters, eps = args
    if not _any_owned(level, *parameters):
        found = op.redispatch(None, level.front(x), shape, *parameters, eps)
        return tuple(map(level.wrap, found))
    none = [None] * len(parameters)
    normal, *moments = op.redispatch(None, level.filled(x), shape, *none, eps)
    weight, bias = (*parameters, None)[:2]
    result = _scaled(level, normal, weight, bias, x.dim() - len(shape), 0)
    return tuple(map(level.wrap, (result, *moments)))


def rms_norm_backward(level, op, args):
    grad, x, shape, rstd, weight, mask = args
    g, values, rstd = map(level.filled, (grad, x, rstd))
    outer, results = x.dim() - len(shape), [None, None]
    if mask[0]:
        down = g if weight is None else _scaled(level, g, weight, None, outer, 0)
        given = down, values, shape, rstd, None, [True, False]
        results[0] = op.redispatch(None, *given)[0]
    if mask[1] and weight is not None:
        sums = _over(g * values * rstd, list(range(1, 1 + outer)))
        results[1] = sums.to(weight.dtype)
    return tuple(r if r is None else level.wrap(r) for r in results)


def layer_norm_backward(level, op, args):
    grad, x, shape, mean, rstd, weight, bias, mask = args
    outer = x.dim() - len(shape)
    g, values = level.filled(grad), level.filled(x)
    mean, rstd = level.filled(mean), level.filled(rstd)
    results = [None, None, None]
    if mask[0]:
        down = g if weight is None else _scaled(level, g, weight, None, outer, 0)
        only = [True, False, False]
        results[0] = op.redispatch(
            None, down, values, shape, mean, rstd, None, None, only
        )[0]
    rows = list(range(1, 1 + outer))
    if mask[1] and weight is not None:
        normal = (values - mean) * rstd
        results[1] = _over(g * normal, rows).to(weight.dtype)
    if mask[2] and bias is not None:
        results[2] = _over(g, rows).to(bias.dtype)
    return tuple(r if r is None else level.wrap(r) for r in results)


def _over(value, dims):
    """A sum over dimensions, of which there may be none."""
    return value.sum(dims) if dims else value


def group_norm(level, op, args):
    """Batches of batches; each example's weights behind them, if they differ."""
    x, weight, bias, rows, *rest = args
    own = _any_owned(level, weight, bias)
    given = (None, None) if own else (weight, bias)
    found = op.redispatch(
        None, merged(level.filled(x)), *given, rows * level.size, *rest
    )
    normal, mean, rstd = (part.unflatten(0, (level.size, rows)) for part in found)
    if own:
        normal = _scaled(level, normal, weight, bias, 1, x.dim() - 2)
    return tuple(map(level.wrap, (normal, mean, rstd)))


def group_norm_backward(level, op, args):
    grad, x, mean, rstd, weight, rows, channels, count, groups, mask = args
    g, values, mean, rstd = map(level.filled, (grad, x, mean, rstd))
    results = [None, None, None]
    if mask[0]:
        down = g
        if weight is not None:
            down = _scaled(level, g, weight, None, 1, x.dim() - 2)
        given = map(merged, (down.contiguous(), values, mean, rstd))
        sizes = rows * level.size, channels, count, groups
        found = op.redispatch(None, *given, None, *sizes, [True, False, False])[0]
        results[0] = found.unflatten(0, (level.size, rows))
    flat = g.reshape(level.size, rows, channels, -1)
    if mask[1] and weight is not None:
        by_group = values.reshape(level.size, rows, groups, -1)
        normal = (by_group - mean.unsqueeze(-1)) * rstd.unsqueeze(-1)
        results[1] = (flat * normal.view(flat.shape)).sum([1, 3]).to(weight.dtype)
    if mask[2]:
        results[2] = flat.sum([1, 3])
    return tuple(r if r is None else level.wrap(r) for r in results)


SHARED_STATISTICS = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, "
    "which will be updated in place, were not batched.\nIf you are using a module and do "
    "not need eval mode, please set `track_running_stats` to be False.If you are using "
    "a prebuilt module and do not need eval mode, please see the functorch website for "
    "resources on how to patch your module to work with vmap"
)


def batch_norm(level, op, args):
    """Channels of all examples beside each other, statistics and weights as well.

    Raises:
        RuntimeError: all examples share the statistics that each would write.
    """
    x, weight, bias, mean, var, training, *rest = args
    shared = any(t is not None and not level.owns(t) for t in (mean, var))
    if training and shared:
        if not level.owns(x):
            return NotImplemented  # they are written by one example after the other
        raise RuntimeError(SHARED_STATISTICS)
    stats = [_in_a_row(level, t) for t in (mean, var)]
    if training:  # they are written, and a row may lie otherwise than they do
        stats = [t if t is None else t.clone() for t in stats]
    given = [_in_a_row(level, t) for t in (weight, bias)]
    found = op.redispatch(None, _channels(level, x), *given, *stats, training, *rest)
    if training:
        for running, value in zip((mean, var), stats):
            if running is not None:
                level.front(running).copy_(value.view(level.size, -1))
    result = found[0].unflatten(1, (level.size, x.shape[1]))
    saved = [
        part.reshape(level.size, -1) if part.numel() else part for part in found[1:]
    ]
    saved = [
        level.wrap(part if part.dim() > 1 else part.expand(level.size, 0))
        for part in saved
    ]
    return (level.wrap(result, 1), *saved)


def _in_a_row(level, vector):
    """One number for each channel of each example, in a row; None stays None."""
    return None if vector is None else level.filled(vector).reshape(-1)


def _channels(level, x):
    """All examples as one batch, the channels of one beside another's."""
    return merged(level.filled(x).transpose(0, 1), 1)


def batch_norm_backward(level, op, args):
    grad, x, *vectors, train, eps, mask = args
    channels = x.shape[1]
    given = [_in_a_row(level, t) for t in vectors]
    given = [t if t is None or t.numel() else t.new_empty(0) for t in given]
    found = op.redispatch(
        None, _channels(level, grad), _channels(level, x), *given, train, eps, mask
    )
    results = []
    for i, part in enumerate(found):
        if part is None:
            results.append(None)
        elif i == 0:
            results.append(level.wrap(part.unflatten(1, (level.size, channels)), 1))
        else:
            results.append(level.wrap(part.view(level.size, -1)))
    return tuple(results)
