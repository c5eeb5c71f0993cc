"""Batch norm over the batches of several processes, forward and backward."""

import rushlight as rl
from rushlight.autograd.function import Function
from rushlight.distributed.world import world


def group_of(group):
    """The group whose processes share statistics; None where this one is alone.

    Args:
        group: a process group; all processes where it is None.
    """
    if world.default is None:
        return None
    chosen = world.default if group is None else group
    world.membership(chosen)
    return chosen if chosen.size() > 1 else None


def _statistics(input, group):
    """Mean, variance and count over all processes, of each channel.

    Squares are summed around each process's own mean, and joined as Chan and others
    do: no difference of large numbers.
    """
    dims = [0, *range(2, input.dim())]
    wide = rl.promote_types(input.dtype, rl.float32)
    values = input.to(wide)
    count = input.numel() // input.shape[1]
    channels = input.shape[1]
    if count:
        mean = values.mean(dims)
        centred = (values - _along(mean, input)).square().sum(dims)
    else:
        mean = centred = rl.zeros(channels, dtype=wide, device=input.device)
    own = rl.cat([mean, centred, mean.new_full((1,), count)])
    every = [rl.empty_like(own) for _ in range(group.size())]
    group._all_gather(every, own)
    means, squares, counts = rl.stack(every).split([channels, channels, 1], 1)
    total = counts.sum()
    mean = (means * counts).sum(0) / total
    squares = squares.sum(0) + (counts * (means - mean).square()).sum(0)
    return mean, squares / total, total


def _along(values, input):
    """Values of channels, to be broadcast over an input."""
    return values.view(1, -1, *[1] * (input.dim() - 2))


class _SyncBatchNorm(Function):
    @staticmethod
    def forward(ctx, input, weight, bias, running, numbers, group):
        eps, momentum = numbers
        mean, variance, count = _statistics(input, group)
        if int(count) <= 1:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size "
                f"{input.shape}"
            )
        if running is not None:
            unbiased = variance * (count / (count - 1))
            for kept, found in zip(running, (mean, unbiased)):
                kept.lerp_(found.to(kept.dtype), momentum)
        scale = (variance + eps).rsqrt()
        ctx.save_for_backward(input, weight, mean, scale, count)
        ctx.group, ctx.has_bias = group, bias is not None
        result = (input - _along(mean, input)) * _along(scale, input)
        if weight is not None:
            result = result * _along(weight, input)
        if bias is not None:
            result = result + _along(bias, input)
        return result.to(input.dtype)

    @staticmethod
    def backward(ctx, grad):
        input, weight, mean, scale, count = ctx.saved_tensors
        dims = [0, *range(2, input.dim())]
        centred = input - _along(mean, input)
        sum_grad, sum_product = grad.sum(dims), (grad * centred).sum(dims)
        grad_weight = sum_product * scale if ctx.needs_input_grad[1] else None
        grad_bias = sum_grad if ctx.has_bias and ctx.needs_input_grad[2] else None
        grad_input = None
        if ctx.needs_input_grad[0]:
            both = rl.cat([sum_grad, sum_product]).to(mean.dtype)
            ctx.group._all_reduce([both])
            total, product = (both / count).chunk(2)
            spread = _along(product * scale * scale, input)
            grad_input = (grad - _along(total, input) - centred * spread) * _along(
                scale if weight is None else scale * weight, input
            )
            grad_input = grad_input.to(input.dtype)
        return grad_input, grad_weight, grad_bias, None, None, None


def apply(input, weight, bias, running, numbers, group):
    """Normalize an input by the statistics of all processes.

    Args:
        input: the batch; dimension 1 are the channels.
        weight: a factor for each channel, or None.
        bias: a summand for each channel, or None.
        running: running mean and variance, which are updated, or None.
        numbers: epsilon and momentum.
        group: the processes.
    """
    return _SyncBatchNorm.apply(input, weight, bias, running, numbers, group)
