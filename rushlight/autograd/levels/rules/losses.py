"""Losses, and their gradients."""

from __future__ import annotations

from rushlight.autograd.levels.rules.images import merged


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
