"""Collectives that give new tensors, as graphs want them; gradients go back through.

PyTorch's may hand out tensors that are still on their way. Here a collective has ended
when it returns, so that there is nothing left to wait for.
"""

import rushlight as rl
from rushlight.autograd.function import Function
from rushlight.core.docstrings import describe_arguments
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.nn import functional
from rushlight.distributed.process_group import ProcessGroup
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.subgroups import new_group
from rushlight.distributed.world import (
    get_global_rank,
    get_rank,
    get_world_size,
    group_named,
    world,
)

_REDUCTIONS = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.AVG,
    "product": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "band": ReduceOp.BAND,
    "bor": ReduceOp.BOR,
    "bxor": ReduceOp.BXOR,
}


class AsyncCollectiveTensor(rl.Tensor):
    """What a collective that has not ended would give: no call gives one here."""


def _reduction(name):
    found = _REDUCTIONS.get(name.lower())
    if found is None:
        raise RuntimeError(
            f"unknown reduction {name!r}: it is one of {', '.join(_REDUCTIONS)}"
        )
    return found


def _group_of_ranks(ranks):
    """The group of so many processes, in their order; made where there is none."""
    wanted = list(ranks)
    for joined, membership in world.members.items():
        if list(membership.ranks) == wanted:
            return joined
    return new_group(wanted, use_local_synchronization=True, sort_ranks=False)


def _resolve_group(group, tag=""):
    """The process group that one of PyTorch's ways to say it means.

    Args:
        group: a group, its name, global ranks, a mesh of one dimension, or a mesh with the
            dimension.
        tag: without effect.

    Raises:
        AssertionError: the mesh has several dimensions, and none is named.
        RuntimeError: no group has that name.
        ValueError: the group is said in no such way.
    """
    if group is None or isinstance(group, ProcessGroup):
        return group
    if isinstance(group, str):
        return group_named(group)
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise AssertionError(
                "Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D"
            )
        return group.get_group()
    if (
        isinstance(group, tuple)
        and len(group) == 2
        and isinstance(group[0], DeviceMesh)
    ):
        return group[0].get_group(group[1])
    if isinstance(group, list) and all(isinstance(rank, int) for rank in group):
        return _group_of_ranks(group)
    raise ValueError(
        "Invalid type for group, must be one of List, Processgroup, DeviceMesh or "
        f"(DeviceMesh, int): got {type(group).__name__}"
    )


class _Reduced(Function):
    """What others than sums give, which no gradient goes back through."""

    @staticmethod
    def forward(ctx, name, collective, tensor):
        ctx.name = name
        return collective(tensor)

    @staticmethod
    def backward(ctx, grad):
        name, op = ctx.name
        raise RuntimeError(f"{name} backward only supports 'sum' reduction, got '{op}'")


def wait_tensor(tensor):
    """The tensor, whose collective has ended already."""
    return tensor


def broadcast(self, src, group, tag=""):
    """One rank's tensor, on every rank.

    Args:
        src: the rank in the group.
    """
    chosen = _resolve_group(group, tag)
    return functional.broadcast(self, get_global_rank(chosen, src), chosen)


def all_reduce(self, reduceOp, group, tag=""):
    """The tensors of all ranks reduced, on every rank.

    Args:
        reduceOp: ``sum``, ``avg``, ``product``, ``min``, ``max``, ``band``, ``bor`` or
            ``bxor``.

    Raises:
        RuntimeError: a gradient goes back through another reduction than a sum.
    """
    chosen, op = _resolve_group(group, tag), _reduction(reduceOp)
    if op is ReduceOp.SUM:
        return functional.all_reduce(self, op, chosen)
    return _Reduced.apply(
        ("all_reduce", reduceOp.lower()),
        lambda tensor: functional.all_reduce(tensor, op, chosen),
        self,
    )


def all_gather_tensor(self, gather_dim, group, tag=""):
    """The tensors of all ranks behind one another, on every rank.

    Args:
        gather_dim: the dimension along which they lie.
    """
    return rl.cat(functional.all_gather(self, _resolve_group(group, tag)), gather_dim)


def reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=""):
    """The tensors of all ranks reduced, of which each rank gets its part.

    Args:
        reduceOp: the reduction, as for `all_reduce`.
        scatter_dim: the dimension that is cut.

    Raises:
        AssertionError: the dimension cannot be cut into equal parts.
        RuntimeError: a gradient goes back through another reduction than a sum.
    """
    chosen, op = _resolve_group(group, tag), _reduction(reduceOp)
    size = get_world_size(chosen)
    if self.size(scatter_dim) % size:
        raise AssertionError(
            f"input dimension {scatter_dim} ({self.size(scatter_dim)}) must be a multiple "
            f"of group_size {size}"
        )

    def collective(tensor):
        parts = [part.contiguous() for part in tensor.chunk(size, scatter_dim)]
        return functional.reduce_scatter(parts[0], parts, op, chosen)

    if op is ReduceOp.SUM:
        return collective(self)
    name = ("reduce_scatter_tensor", reduceOp.lower())
    return _Reduced.apply(name, collective, self)


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=""):
    """Rows from each rank to each, behind one another.

    Args:
        self: this rank's rows for all ranks, in their order.
        output_split_sizes: how many rows come from each; equal where None.
        input_split_sizes: how many rows go to each; equal where None.
    """
    rows = self.size(0) if output_split_sizes is None else sum(output_split_sizes)
    return functional.all_to_all_single(
        self.new_empty((rows, *self.shape[1:])),
        self,
        output_split_sizes,
        input_split_sizes,
        _resolve_group(group, tag),
    )


def permute_tensor(self, src_dst, group, tag=""):
    """The tensor of the rank that sends it here: ``src_dst[m]`` is where ``m`` sends.

    Args:
        src_dst: the receiver of each rank.
    """
    chosen = _resolve_group(group, tag)
    here, rows = get_rank(chosen), self.size(0)
    sent = [rows if src_dst[here] == other else 0 for other in range(len(src_dst))]
    taken = [rows if target == here else 0 for target in src_dst]
    return all_to_all_single(self, taken, sent, chosen)


def all_reduce_coalesced(self, reduceOp, group, tag=""):
    """`all_reduce` of each tensor of a list."""
    return [all_reduce(each, reduceOp, group, tag) for each in self]


def all_gather_into_tensor_coalesced(self, group, tag=""):
    """`all_gather_tensor` along the first dimension, of each tensor of a list."""
    return [all_gather_tensor(each, 0, group, tag) for each in self]


def reduce_scatter_tensor_coalesced(inputs, reduceOp, scatter_dim, group, tag=""):
    """`reduce_scatter_tensor` of each tensor of a list, each along its dimension."""
    return [
        reduce_scatter_tensor(each, reduceOp, dim, group, tag)
        for each, dim in zip(inputs, scatter_dim, strict=True)
    ]


all_gather_single = all_gather_single_autograd = all_gather_tensor
all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced


describe_arguments(
    globals(),
    group="the group, as `_resolve_group` takes it.",
    tag="without effect.",
    self="this rank's tensor.",
)
