"""Cross entropy of a linear layer's results, in parts of the batch."""

import math
import warnings

import rushlight as rl
from rushlight.autograd.function import Function
from rushlight.autograd.levels.stack import depth
from rushlight.nn._functions.loss import cross_entropy
from rushlight.operators import call


def linear_cross_entropy(
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction="mean",
    ignore_index=None,
    label_smoothing=0.0,
    options=None,
):
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``.

    Args:
        input: ``(N, in_features)`` or ``(in_features,)``.
        linear_weight: ``(C, in_features)``, or ``(C, d1, ..., in_features)`` where each
            of several positions has a class.
        target: class numbers ``(N, d1, ...)``, or probabilities ``(N, C, d1, ...)``.
        linear_bias: of the weight's shape without its last size.
        weight: one factor for each class.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        ignore_index: a class number that counts for nothing; -100 where it is left out.
        label_smoothing: share of the target that is spread over all classes.
        options: how the batch is split, so that fewer scores exist at a time; the
            gradients are then computed with the loss, and once more from all scores
            where they are to have gradients of their own.

    Raises:
        RuntimeError: shapes don't fit.

    >>> linear_cross_entropy(rl.ones(1, 2), rl.zeros(2, 2), rl.tensor([1]))
    tensor(0.6931)
    """
    _check_shapes(input, linear_weight, linear_bias)
    sizes = linear_weight.shape[:-1]
    scores_shape = (*input.shape[:-1], *sizes)
    if tuple(target.shape) == scores_shape and ignore_index is not None:
        raise RuntimeError(
            "ignore_index cannot be specified when target contains probabilities"
        )
    ignore_index = -100 if ignore_index is None else ignore_index
    if options is not None and not depth():  # transformations see the scores as one
        if (
            len(sizes) == 1
            and reduction in ("mean", "sum", "none")
            and label_smoothing == 0.0
            and target.dtype == rl.int64
        ):
            return _in_parts(
                input,
                linear_weight,
                target,
                linear_bias,
                weight,
                reduction,
                ignore_index,
                options,
            )
        warnings.warn(
            "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in "
            "{'mean','sum','none'}, label_smoothing == 0, target.dtype == int64, "
            f"out_features == (). Got reduction={reduction!r}, "
            f"label_smoothing={label_smoothing}, target.dtype={target.dtype}, "
            f"out_features={tuple(sizes[1:])}.",
            stacklevel=2,
        )
    if len(sizes) > 1:
        count = math.prod(sizes)
        linear_weight = linear_weight.reshape((count, linear_weight.shape[-1]))
        linear_bias = None if linear_bias is None else linear_bias.reshape(count)
    scores = call.linear(input, linear_weight, linear_bias)
    return cross_entropy(
        scores.reshape(scores_shape),
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )


def _check_shapes(input, linear_weight, linear_bias):
    if input.dim() not in (1, 2):
        raise RuntimeError(
            f"expected input with dimensionality 1 or 2, got {input.dim()}"
        )
    if linear_weight.dim() < 2:
        raise RuntimeError(
            "expected linear_weight with dimensionality at least 2, got "
            f"{linear_weight.dim()}"
        )
    features, *sizes = input.shape[-1], *linear_weight.shape[:-1]
    if features != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{features} and {linear_weight.shape[-1]}, respectively"
        )
    if linear_bias is not None and list(linear_bias.shape) != sizes:
        raise RuntimeError(
            f"expected linear_bias shape {tuple(sizes)}, got {tuple(linear_bias.shape)}"
        )
    if len(sizes) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape "
            f"{tuple(linear_weight.shape)} requires batched input, (N, {features}), got "
            f"unbatched input with shape {tuple(input.shape)}"
        )


def _in_parts(input, layer, target, bias, weight, reduction, ignore_index, options):
    """The loss of a batch, a few rows at a time."""
    batched = input.dim() == 2
    if not batched:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    rows = options._rows(input.shape[0], input.shape[1], layer.shape[0], input.dtype)
    plan = _Plan(
        rows,
        options._sum_dtype(input.dtype),
        reduction,
        ignore_index,
        options.allow_retain_graph,
    )
    result = _ByParts.apply(input, layer, bias, target, weight, plan)
    return result if batched or reduction != "none" else result.squeeze(0)


class _Plan:
    """What the loss of a part depends on beside the tensors."""

    def __init__(self, rows, dtype, reduction, ignore_index, keeps):
        self.rows = rows
        self.dtype = dtype
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.keeps = keeps  # whether backward may come twice

    def row_weights(self, target, weight):
        """How much each row counts, and its class with ignored ones as class 0."""
        ignored = target == self.ignore_index
        classes = target.masked_fill(ignored, 0)
        if weight is None:
            counts = (~ignored).to(self.dtype)
        else:
            counts = weight.to(self.dtype).index_select(0, classes)
            counts = counts.masked_fill(ignored, 0)
        if self.reduction == "mean":
            counts = counts / counts.sum()
        return counts, classes

    def parts(self, count):
        """The rows of each part."""
        for start in range(0, count, self.rows):
            yield slice(start, min(start + self.rows, count))

    def run(self, tensors, grad_rows, needs):
        """The rows' losses, and gradients of input, layer and bias where needed.

        Args:
            tensors: input, layer, bias, target and weight.
            grad_rows: the gradient of each row's loss, or None for ones.
            needs: which gradients are wanted.
        """
        input, layer, bias, target, weight = tensors
        counts, classes = self.row_weights(target, weight)
        wide = layer.to(self.dtype)
        shift = None if bias is None else bias.to(self.dtype)
        losses = rl.empty(target.shape, dtype=self.dtype, device=input.device)
        made = [rl.empty_like(input) if needs[0] else None]
        for each, needed in zip((layer, bias), needs[1:]):
            made.append(rl.zeros_like(each, dtype=self.dtype) if needed else None)
        factors = -counts if grad_rows is None else -counts * grad_rows
        for part in self.parts(input.shape[0]):
            some = input[part].to(self.dtype)
            logs = call.log_softmax(call.linear(some, wide, shift), 1)
            own = classes[part].unsqueeze(1)
            losses[part] = -logs.gather(1, own).squeeze(1) * counts[part]
            if not any(needs):
                continue
            factor = factors[part].unsqueeze(1)
            grad = logs.exp_().mul_(-factor).scatter_add_(1, own, factor)
            if needs[0]:
                made[0][part] = (grad @ wide).to(input.dtype)
            if needs[1]:
                made[1] += grad.T @ some
            if needs[2]:
                made[2] += grad.sum(0)
        for index, each in ((1, layer), (2, bias)):
            if made[index] is not None:
                made[index] = made[index].to(each.dtype)
        return losses, made

    def derive(self, tensors, grad, needs):
        """The gradients of input, layer and bias as functions that have gradients."""
        input, layer, bias, target, weight = tensors
        shift = None if bias is None else bias.to(self.dtype)
        scores = call.linear(input.to(self.dtype), layer.to(self.dtype), shift)
        loss = cross_entropy(
            scores,
            target,
            weight=None if weight is None else weight.to(self.dtype),
            reduction=self.reduction,
            ignore_index=self.ignore_index,
        )
        wanted = [each for each, needed in zip(tensors, needs) if needed]
        rows = grad.to(loss.dtype)
        found = iter(rl.autograd.grad(loss, wanted, rows, create_graph=True))
        return [next(found) if needed else None for needed in needs]


class _ByParts(Function):
    """The loss in parts; of sums the gradients are computed along with it."""

    @staticmethod
    def forward(ctx, input, layer, bias, target, weight, plan):
        """The loss, or each row's."""
        needs = ctx.needs_input_grad[:3]
        early = plan.reduction != "none"
        tensors = input, layer, bias, target, weight
        losses, made = plan.run(tensors, None, needs if early else (False,) * 3)
        ctx.plan = plan
        ctx.save_for_backward(*tensors)
        if early:
            ctx.made = made
            losses = losses.sum()
        return losses.to(input.dtype)

    @staticmethod
    def backward(ctx, grad):
        """The gradients that were computed, times the loss's own."""
        plan = ctx.plan
        if rl.is_grad_enabled():
            made = plan.derive(ctx.saved_tensors, grad, ctx.needs_input_grad[:3])
            return *made, None, None, None
        if plan.reduction == "none":
            rows = grad.to(plan.dtype)
            _, made = plan.run(ctx.saved_tensors, rows, ctx.needs_input_grad[:3])
            return *made, None, None, None
        if ctx.made is None:
            raise RuntimeError(
                "linear_cross_entropy: trying to backward a second time; construct the "
                "options with allow_retain_graph=True"
            )
        made = [None if each is None else each * grad for each in ctx.made]
        if not plan.keeps:
            ctx.made = None
        return *made, None, None, None
