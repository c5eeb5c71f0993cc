"""Losses, and their gradients."""

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


class Labels:
    """Log-probabilities and class numbers of all examples, one row below the other.

    Attributes:
        rows, labels: what was given, a row for each label.
        shape: the labels' sizes in an example.
        shared: the classes' weights, where all examples have the same.
        factors: each label's weight, where examples have weights of their own.
    """

    def __init__(self, level, x, target, weight, ignored):
        rows, labels = level.filled(x), level.filled(target)
        self.single = x.dim() == 1
        if self.single:
            rows, labels = rows.unsqueeze(1), labels.unsqueeze(1)
        self.level, self.ignored = level, ignored
        self.shape = tuple(labels.shape)
        rows = rows.movedim(2, -1)
        self.spread = rows.shape
        self.rows, self.labels = rows.flatten(0, -2), labels.flatten()
        self.shared, self.factors = weight, None
        if weight is not None and level.owns(weight):
            known = labels.clamp(0, weight.numel() - 1).flatten(1)
            self.factors = level.front(weight).gather(1, known).view(labels.shape)
            self.shared = None

    def counts(self, dtype):
        """How much each label counts; what is ignored counts nothing."""
        kept = (self.labels != self.ignored).to(dtype)
        if self.shared is not None:
            kept = kept * self.shared[self.labels.clamp(0, self.shared.numel() - 1)]
        kept = kept.view(self.shape)
        return kept if self.factors is None else kept * self.factors

    def of_examples(self, rows):
        """Rows of classes in the shape of what was given."""
        found = rows.view(self.spread).movedim(-1, 2)
        return self.level.wrap(found.squeeze(1) if self.single else found)


def nll(level, op, args):
    x, target, weight, reduction, ignored = args
    if x.dim() < 1 or target.dim() != max(x.dim() - 1, 0):
        return NotImplemented
    given = Labels(level, x, target, weight, ignored)
    costs, _ = op.redispatch(
        None, given.rows, given.labels, given.shared, NONE, ignored
    )
    costs = costs.view(given.shape)
    if given.factors is not None:
        costs = costs * given.factors
    total = given.counts(costs.dtype).flatten(1).sum(1)
    if reduction == NONE:
        costs = costs.squeeze(1) if given.single else costs
        total = total if x.dim() <= 2 else total * 0
    else:
        costs = costs.flatten(1).sum(1) / (total if reduction == MEAN else 1)
    return level.wrap(costs), level.wrap(total)


def nll_backward(level, op, args):
    grad, x, target, weight, reduction, ignored, total = args
    if x.dim() < 1 or target.dim() != max(x.dim() - 1, 0):
        return NotImplemented
    given = Labels(level, x, target, weight, ignored)
    g = level.filled(grad)
    if reduction == MEAN:
        g = g / level.filled(total)
    if reduction != NONE:
        g = g.view(level.size, *[1] * (len(given.shape) - 1))
    g = g.reshape(given.shape) if reduction == NONE else g.expand(given.shape)
    if given.factors is not None:
        g = g * given.factors
    g = g.flatten()
    found = op.redispatch(
        None, g, given.rows, given.labels, given.shared, NONE, ignored, g.sum()
    )
    return given.of_examples(found)
