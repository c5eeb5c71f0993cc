"""Collectives that gradients go back through."""

import rushlight as rl
from rushlight.autograd.function import Function
from rushlight.core.docstrings import describe_arguments
from rushlight.distributed import collective_functions as collectives
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.world import get_rank, get_world_size, group, world

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _where(chosen):
    """The group and its size."""
    if chosen is None or chosen is group:
        chosen = None
    world.membership(chosen)
    return chosen, get_world_size(chosen)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, src, chosen, tensor):
        ctx.src, ctx.group = src, chosen
        result = tensor.clone()
        collectives.broadcast(result, src, chosen)
        return result

    @staticmethod
    def backward(ctx, grad):
        total = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        if get_rank() != ctx.src:
            total = rl.zeros_like(total)
        return None, None, total


class _Reduce(Function):
    @staticmethod
    def forward(ctx, dst, op, chosen, tensor):
        ctx.dst, ctx.group = dst, chosen
        result = tensor.clone(memory_format=rl.contiguous_format)
        collectives.reduce(result, dst, op, chosen)
        return result

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, op, chosen, tensor):
        ctx.op, ctx.group = op, chosen
        result = tensor.clone(memory_format=rl.contiguous_format)
        collectives.all_reduce(result, op, chosen)
        return result

    @staticmethod
    def backward(ctx, grad):
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _Gather(Function):
    @staticmethod
    def forward(ctx, dst, chosen, tensor):
        ctx.dst, ctx.group = dst, chosen
        tensor = tensor.contiguous()
        size = get_world_size(chosen)
        results = [rl.zeros_like(tensor) for _ in range(size)]
        is_root = get_rank(chosen) == dst
        outputs = results if is_root else None
        collectives.gather(tensor, outputs, group=chosen, group_dst=dst)
        return tuple(results)

    @staticmethod
    def backward(ctx, *grads):
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx, src, chosen, *tensors):
        ctx.src, ctx.group = src, chosen
        result = rl.zeros_like(tensors[0]).contiguous()
        is_root = get_rank(chosen) == src
        inputs = [each.contiguous() for each in tensors] if is_root else None
        collectives.scatter(result, inputs, group=chosen, group_src=src)
        return result

    @staticmethod
    def backward(ctx, grad):
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx, chosen, tensor):
        ctx.group = chosen
        tensor = tensor.contiguous()
        results = [rl.empty_like(tensor) for _ in range(get_world_size(chosen))]
        collectives.all_gather(results, tensor, chosen)
        return tuple(results)

    @staticmethod
    def backward(ctx, *grads):
        grads = [each.contiguous() for each in grads]
        total = rl.empty_like(grads[get_rank(ctx.group)])
        collectives.reduce_scatter(total, grads, group=ctx.group)
        return None, total


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx, op, chosen, output, *tensors):
        ctx.group = chosen
        result = rl.empty_like(output, memory_format=rl.contiguous_format)
        inputs = [each.contiguous() for each in tensors]
        collectives.reduce_scatter(result, inputs, op, chosen)
        return result

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, *_AllGather.apply(ctx.group, grad)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx, chosen, shapes, *tensors):
        ctx.group, ctx.shapes = chosen, [each.shape for each in tensors]
        results = [tensors[0].new_empty(shape) for shape in shapes]
        inputs = [each.contiguous() for each in tensors]
        collectives.all_to_all(results, inputs, chosen)
        return tuple(results)

    @staticmethod
    def backward(ctx, *grads):
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads)


def broadcast(tensor, src, group=None):
    """Copy one rank's tensor to all; gradients of all are summed on it.

    Args:
        tensor: this rank's tensor.
        src: the rank.
    """
    return _Broadcast.apply(src, _where(group)[0], tensor)


def gather(tensor, dst=0, group=None):
    """Bring the tensors of all ranks to one; each gets its gradient back.

    Args:
        dst: the rank, in the group.

    Returns:
        A tuple of tensors, zero on all other ranks.
    """
    return _Gather.apply(dst, _where(group)[0], tensor)


def scatter(tensors, src=0, group=None):
    """Bring one tensor of one rank to each; the rank gets the gradients back.

    Args:
        tensors: a tensor for each rank, on ``src``; of the same sizes elsewhere.
        src: the rank, in the group.
    """
    return _Scatter.apply(src, _where(group)[0], *tensors)


def reduce(tensor, dst, op=ReduceOp.SUM, group=None):
    """Reduce the tensors of all ranks, on one; all get its gradient.

    Args:
        dst: the rank.
    """
    return _Reduce.apply(dst, op, _where(group)[0], tensor)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None):
    """Reduce the tensors that all ranks have for each, on that rank.

    Args:
        output: a tensor of the result's sizes.
        input_list: a tensor for each rank.
    """
    return _ReduceScatter.apply(op, _where(group)[0], output, *input_list)


def all_gather(tensor, group=None):
    """Bring the tensors of all ranks to every rank; gradients of all are summed.

    Returns:
        A tuple of tensors.
    """
    return _AllGather.apply(_where(group)[0], tensor)


def all_to_all(output_tensor_list, input_tensor_list, group=None):
    """Bring a tensor from each rank to each; gradients go the way back.

    Args:
        output_tensor_list: a tensor of the sizes of what comes from each rank.
        input_tensor_list: the tensor for each rank.

    Returns:
        A tuple of tensors.
    """
    shapes = [each.shape for each in output_tensor_list]
    return _AllToAll.apply(_where(group)[0], shapes, *input_tensor_list)


def all_to_all_single(
    output, input, output_split_sizes=None, input_split_sizes=None, group=None
):
    """Bring rows of one tensor from each rank to each; gradients go the way back.

    Args:
        output: a tensor of the result's sizes.
        input: the rows for all ranks, in their order.
        output_split_sizes: how many rows come from each; equal without it.
        input_split_sizes: how many rows go to each; equal without it.
    """
    chosen, size = _where(group)

    def counts(tensor, given):
        return list(given) if given else [tensor.shape[0] // size] * size

    rows = output.shape[1:]
    shapes = [(count, *rows) for count in counts(output, output_split_sizes)]
    parts = input.split(counts(input, input_split_sizes))
    return rl.cat(_AllToAll.apply(chosen, shapes, *parts))


def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """Reduce the tensors of all ranks, on every rank; so are the gradients."""
    return _AllReduce.apply(op, _where(group)[0], tensor)


describe_arguments(
    globals(),
    group="the group; all processes without it.",
    tensor="this rank's.",
    op="how values become one.",
)
