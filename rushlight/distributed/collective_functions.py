"""The collectives of ``torch.distributed``: checks, then the group's own."""

import warnings

from rushlight.core.docstrings import describe_arguments
from rushlight.core.tensor import Tensor
from rushlight.distributed import coalescing
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.world import GroupMember, get_group_rank, world

__all__ = [
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "supports_complex",
]


def supports_complex(reduceOp):
    """Whether a reduction takes complex tensors.

    Args:
        reduceOp: a ``ReduceOp``.
    """
    denied = "MAX MIN PRODUCT BAND BOR BXOR".split()
    return reduceOp not in [ReduceOp[name] for name in denied]


def check_tensor(value, name):
    """A tensor that elements move from or to.

    Args:
        value: what was given.
        name: the argument's name.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type "
            f"torch.Tensor\n             but got {type(value)} instead."
        )
    if value.is_sparse:
        raise RuntimeError(
            f"{name}: a collective takes dense tensors, and this is sparse\n"
            "  remedy: to_dense()"
        )


def on_root_alone(values, is_root, name, side):
    """Whether this is the one rank, which alone has a list of tensors.

    Args:
        values: the list.
        is_root: whether this is the rank.
        name: the collective's name.
        side: what the rank is: destination or source.

    Raises:
        ValueError: the rank has none, or another one has.
    """
    if is_root and not values:
        raise ValueError(f"Argument ``{name}_list`` must be specified on {side} rank.")
    if values and not is_root:
        raise ValueError(
            f"Argument ``{name}_list`` must NOT be specified on non-{side} ranks."
        )
    return is_root


def check_list(values, name):
    """A list of tensors.

    Args:
        values: what was given.
        name: the argument's name.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(values, list) or not all(isinstance(t, Tensor) for t in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type "
            f"List[torch.Tensor]\n             but got {type(values)} instead."
        )
    if len({each.dtype for each in values}) > 1:
        raise ValueError("Invalid usage of tensors with different dtypes")


def _same_type(first, second):
    if first.dtype is not second.dtype:
        raise ValueError(
            "Invalid usage of tensors with different dtypes"
            f"Found {first.dtype} and  {second.dtype}"
        )


def group_for(group, operator):
    """The group that a collective runs in; None where this process is not in it.

    Args:
        operator: the collective's name, for the warning.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        warnings.warn(
            f"Running {operator} on global rank {world.default.rank()} which does not "
            "belong to the given group.",
            stacklevel=3,
        )
        return None
    world.membership(group)
    return world.default if group is None else group


def root_in_group(group, global_rank, group_rank, name):
    """`rank_in_group`, or the group's first where neither number was given."""
    if global_rank is None and group_rank is None:
        return 0
    return rank_in_group(group, global_rank, group_rank, name)


def rank_in_group(group, global_rank, group_rank, name):
    """A rank of a group, from whichever of the two numbers was given.

    Args:
        group: the group.
        global_rank: the rank among all processes, or None.
        group_rank: the rank in the group, or None.
        name: the argument's name: ``src`` or ``dst``.

    Raises:
        ValueError: neither or both were given, or the group has no such rank.
        RuntimeError: there is no such process.
    """
    if global_rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{name} and {name}")
    if global_rank is None and group_rank is None:
        raise ValueError(f"Must specify {name} or group_{name}")
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise ValueError(f"group_{name} {group_rank} is not below {group.size()}")
        return group_rank
    if group is world.default and not 0 <= global_rank < group.size():
        raise RuntimeError(
            f"invalid root rank: {global_rank} ({name}= of {group.size()} processes)"
        )
    return get_group_rank(group, global_rank)


def _equal_sizes(outputs, tensor, operator):
    for index, each in enumerate(outputs):
        _same_type(each, tensor)
        if each.shape != tensor.shape:
            raise RuntimeError(
                f"{operator}: invalid tensor size at index {index} (expected "
                f"{tuple(tensor.shape)}, got {tuple(each.shape)})"
            )


def _as_many(values, group, name):
    if len(values) != group.size():
        raise RuntimeError(
            f"{name} must have one tensor for each of the {group.size()} ranks, and has "
            f"{len(values)}"
        )


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce the tensors of all ranks, in place, on every rank.

    Args:
        tensor: this rank's tensor; it becomes the result.

    Returns:
        A ``Work`` if ``async_op``; else None.
    """
    check_tensor(tensor, "tensor")
    chosen = group_for(group, "all_reduce")
    if chosen is None:
        return None
    if tensor.is_complex() and not supports_complex(op):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    if coalescing.is_open(chosen):
        return coalescing.add(chosen, chosen._all_reduce, [tensor], op)
    return chosen._all_reduce([tensor], op, async_op)


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce several tensors of all ranks in one collective, in place.

    Args:
        tensors: this rank's tensors, all of one type.
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    check_list(tensors, "tensor")
    chosen = group_for(group, "all_reduce_coalesced")
    if chosen is None:
        return None
    work = chosen._all_reduce(tensors, op, async_op)
    return work.get_future() if async_op else None


def reduce(
    tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None
):
    """Reduce the tensors of all ranks, on one rank.

    Args:
        tensor: this rank's tensor; on the one rank it becomes the result.
        dst: the one rank, among all processes.
        group_dst: the one rank, in the group.
    """
    check_tensor(tensor, "tensor")
    chosen = group_for(group, "reduce")
    if chosen is None:
        return None
    root = rank_in_group(chosen, dst, group_dst, "dst")
    return chosen._reduce(tensor, root, op, async_op)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Copy one rank's tensor to all.

    Args:
        tensor: what is sent on ``src``, and filled on the others.
        src: the rank, among all processes.
        group_src: the rank, in the group.
    """
    check_tensor(tensor, "tensor")
    chosen = group_for(group, "broadcast")
    if chosen is None:
        return None
    root = rank_in_group(chosen, src, group_src, "src")
    if coalescing.is_open(chosen):
        return coalescing.add(chosen, chosen._broadcast, tensor, root)
    return chosen._broadcast(tensor, root, async_op)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Bring the tensors of all ranks to every rank.

    Args:
        tensor_list: a tensor for each rank's, of its sizes.
        tensor: this rank's.
    """
    check_list(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    chosen = group_for(group, "all_gather")
    if chosen is None:
        return None
    _as_many(tensor_list, chosen, "tensor_list")
    if not chosen.takes_uneven:
        _equal_sizes(tensor_list, tensor, "all_gather")
    return chosen._all_gather(tensor_list, tensor, async_op)


def _parts(whole, part, size, name):
    """One tensor as a part for each rank: put behind one another, or stacked."""
    _same_type(whole, part)
    if whole.numel() != part.numel() * size:
        raise ValueError(
            f"{name}: the sizes {tuple(whole.shape)} do not hold {size} tensors of "
            f"sizes {tuple(part.shape)}"
        )
    if not whole.is_contiguous():
        raise ValueError(f"{name}: the tensor must be contiguous")
    return list(whole.view(size, *part.shape).unbind(0))


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """Bring the tensors of all ranks into one, on every rank.

    Args:
        output_tensor: where they go, behind one another or stacked.
        input_tensor: this rank's.
    """
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    chosen = group_for(group, "all_gather_into_tensor")
    if chosen is None:
        return None
    output_tensor = output_tensor.detach()
    parts = _parts(output_tensor, input_tensor, chosen.size(), "all_gather_into_tensor")
    if coalescing.is_open(chosen):
        return coalescing.add(chosen, chosen._all_gather, parts, input_tensor)
    return chosen._all_gather(parts, input_tensor, async_op, [output_tensor])


all_gather_single = all_gather_into_tensor


def all_gather_coalesced(
    output_tensor_lists, input_tensor_list, group=None, async_op=False
):
    """Bring several tensors of all ranks to every rank.

    Args:
        output_tensor_lists: for each rank, a tensor for each of its tensors.
        input_tensor_list: this rank's.
    """
    check_list(input_tensor_list, "input_tensor_list")
    chosen = group_for(group, "all_gather_coalesced")
    if chosen is None:
        return None
    _as_many(output_tensor_lists, chosen, "output_tensor_lists")
    works = []
    for index, tensor in enumerate(input_tensor_list):
        outputs = [each[index] for each in output_tensor_lists]
        _equal_sizes(outputs, tensor, "all_gather_coalesced")
        works.append(chosen._all_gather(outputs, tensor, async_op))
    return works[-1].get_future() if async_op else None


def gather(
    tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None
):
    """Bring the tensors of all ranks to one.

    Args:
        tensor: this rank's.
        gather_list: on that rank, a tensor for each rank's.
        dst: the rank, among all processes; 0 without it.
        group_dst: the rank, in the group.
    """
    check_tensor(tensor, "tensor")
    chosen = group_for(group, "gather")
    if chosen is None:
        return None
    root = root_in_group(chosen, dst, group_dst, "dst")
    is_root = chosen.rank() == root
    if on_root_alone(gather_list, is_root, "gather", "destination"):
        check_list(gather_list, "gather_list")
        _as_many(gather_list, chosen, "gather_list")
        _equal_sizes(gather_list, tensor, "gather")
    return chosen._gather(gather_list or [], tensor, root, async_op)


def scatter(
    tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None
):
    """Bring one tensor of one rank to each.

    Args:
        tensor: where this rank's goes.
        scatter_list: on that rank, a tensor for each.
        src: the rank that has them, among all processes; 0 without it.
        group_src: the rank, in the group.
    """
    check_tensor(tensor, "tensor")
    chosen = group_for(group, "scatter")
    if chosen is None:
        return None
    root = root_in_group(chosen, src, group_src, "src")
    is_root = chosen.rank() == root
    if on_root_alone(scatter_list, is_root, "scatter", "source"):
        check_list(scatter_list, "scatter_list")
        _as_many(scatter_list, chosen, "scatter_list")
        _equal_sizes(scatter_list, tensor, "scatter")
    return chosen._scatter(tensor, scatter_list or [], root, async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce the tensors that all ranks have for each, on that rank.

    Args:
        output: where this rank's result goes.
        input_list: a tensor for each rank.
    """
    check_tensor(output, "output")
    check_list(input_list, "input_list")
    chosen = group_for(group, "reduce_scatter")
    if chosen is None:
        return None
    _as_many(input_list, chosen, "input_list")
    _equal_sizes([input_list[chosen.rank()]], output, "reduce_scatter")
    return chosen._reduce_scatter(output, input_list, op, async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce the tensors of all ranks, of which each rank gets its part.

    Args:
        output: where this rank's part goes.
        input: a tensor that has a part for each rank.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    chosen = group_for(group, "reduce_scatter_tensor")
    if chosen is None:
        return None
    whole = input.detach()
    parts = _parts(whole, output, chosen.size(), "reduce_scatter_tensor")
    if coalescing.is_open(chosen):
        return coalescing.add(chosen, chosen._reduce_scatter, output, parts, op)
    return chosen._reduce_scatter(output, parts, op, async_op)


reduce_scatter_single = reduce_scatter_tensor


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Bring a tensor from each rank to each.

    Args:
        output_tensor_list: where the tensor from each rank goes.
        input_tensor_list: the tensor for each rank.
    """
    check_list(output_tensor_list, "output_tensor_list")
    check_list(input_tensor_list, "input_tensor_list")
    chosen = group_for(group, "all_to_all")
    if chosen is None:
        return None
    _as_many(output_tensor_list, chosen, "output_tensor_list")
    _as_many(input_tensor_list, chosen, "input_tensor_list")
    return chosen._all_to_all(output_tensor_list, input_tensor_list, async_op)


def _split(tensor, sizes, group, name):
    """A tensor in parts along its first dimension, one for each rank."""
    count = tensor.shape[0] if tensor.dim() else 0
    if sizes is None or len(sizes) == 0:
        if count % group.size():
            raise RuntimeError(
                f"Tensor's dim 0 does not divide equally across group size\n  {name}: "
                f"{count} rows for {group.size()} ranks\n  remedy: {name}_split_sizes"
            )
        sizes = [count // group.size()] * group.size()
    if len(sizes) != group.size():
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != count:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return list(tensor.detach().split(list(sizes)))


def all_to_all_single(
    output,
    input,
    output_split_sizes=None,
    input_split_sizes=None,
    group=None,
    async_op=False,
):
    """Bring rows of one tensor from each rank to each.

    Args:
        output: where the rows from all ranks go, in the order of the ranks.
        input: the rows for all ranks, in that order.
        output_split_sizes: how many rows come from each; equal without it.
        input_split_sizes: how many rows go to each; equal without it.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    _same_type(output, input)
    chosen = group_for(group, "all_to_all_single")
    if chosen is None:
        return None
    outputs = _split(output, output_split_sizes, chosen, "output")
    inputs = _split(input, input_split_sizes, chosen, "input")
    return chosen._all_to_all(outputs, inputs, async_op, [output])


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Wait until every rank has come.

    Args:
        device_ids: without effect on the host.
        timeout: how long to wait, a ``timedelta``; as the group without it.
    """
    chosen = group_for(group, "barrier")
    if chosen is None:
        return None
    patience = None if timeout is None else timeout.total_seconds()
    return chosen._barrier(async_op, patience)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Wait until every rank has come; rank 0 says which do not.

    Args:
        timeout: how long to wait, a ``timedelta``; as the group without it.
        wait_all_ranks: whether to name all that are late, or the first.
    """
    chosen = group_for(group, "monitored_barrier")
    if chosen is not None:
        chosen._monitored_barrier(timeout, wait_all_ranks)


describe_arguments(
    globals(),
    group="the group; all processes without it.",
    async_op="whether to return at once.",
    op="how values become one.",
)
