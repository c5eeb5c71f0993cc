"""Parts of a tensor as other parts: which collectives, in which order.

One dimension of the mesh changes at a time, by one collective. Where several cut the same
dimension of the tensor, the inner ones are undone first, and made again after the outer.
"""

import rushlight as rl
from rushlight.distributed import collective_functions as collectives
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.tensor._utils import cutting_order
from rushlight.distributed.tensor.placement_types import (
    NormPartial,
    Partial,
    Replicate,
    Shard,
    _StridedShard,
)

__all__ = ["all_gather_parts", "chunks_of", "redistribute", "redistribution_cost"]

REDUCTIONS = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.SUM,
    "product": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
}


def chunks_of(tensor, dim, count):
    """A tensor in as many parts as there are ranks; the last may be empty.

    Args:
        tensor: the tensor.
        dim: the dimension that is cut.
        count: the number of parts.
    """
    parts = []
    for rank in range(count):
        size, start = Shard.local_shard_size_and_offset(tensor.shape[dim], count, rank)
        parts.append(tensor.narrow(dim, start, size))
    return parts


def all_gather_parts(local, dim, whole_size, group):
    """All ranks' parts along a dimension, put together.

    Args:
        local: this rank's part.
        dim: the dimension.
        whole_size: its size in the whole.
        group: the ranks.
    """
    count = group.size()
    largest = -(-whole_size // count)
    front = local.movedim(dim, 0)
    if front.shape[0] < largest:
        more = front.new_zeros((largest - front.shape[0], *front.shape[1:]))
        front = rl.cat([front, more])
    front = front.contiguous()
    whole = front.new_empty((count * largest, *front.shape[1:]))
    collectives.all_gather_into_tensor(whole, front, group)
    return whole[:whole_size].movedim(0, dim).contiguous()


def _powers(placement, local, back=False):
    """What is added of a norm, or the norm of the sum."""
    if not isinstance(placement, NormPartial):
        return local
    exponent = placement.norm_type
    return local ** (1 / exponent if back else exponent)


def _reduced(local, placement, group):
    """The reduction of all ranks' shares, on each."""
    total = _powers(placement, local).clone(memory_format=rl.contiguous_format)
    collectives.all_reduce(total, REDUCTIONS[placement.reduce_op], group)
    if placement.reduce_op == "avg":
        total = total / group.size()
    return _powers(placement, total, back=True)


def _reduced_part(local, placement, dim, group):
    """The reduction of all ranks' shares, of which each gets its part."""
    local = _powers(placement, local)
    parts = [each.contiguous() for each in chunks_of(local, dim, group.size())]
    out = rl.empty_like(parts[group.rank()])
    op = REDUCTIONS[placement.reduce_op]
    if len({part.shape for part in parts}) == 1:
        collectives.reduce_scatter(out, parts, op, group)
    else:  # frames of a collective have one size
        whole = local.contiguous().clone()
        collectives.all_reduce(whole, op, group)
        out = chunks_of(whole, dim, group.size())[group.rank()].contiguous()
    if placement.reduce_op == "avg":
        out = out / group.size()
    return _powers(placement, out, back=True)


def _exchanged(local, source, target, whole_size, group):
    """This rank's part along one dimension as its part along another."""
    count, rank = group.size(), group.rank()
    inputs = [each.contiguous() for each in chunks_of(local, target, count)]
    outputs = []
    for other in range(count):
        sizes = list(inputs[rank].shape)
        sizes[source], _ = Shard.local_shard_size_and_offset(whole_size, count, other)
        outputs.append(local.new_empty(sizes))
    collectives.all_to_all(outputs, inputs, group)
    return rl.cat(outputs, source)


def _share(local, placement, group):
    """A whole tensor as this rank's share of it."""
    if placement.reduce_op == "sum":
        return local if group.rank() == 0 else rl.zeros_like(local)
    if placement.reduce_op == "product":
        return local if group.rank() == 0 else rl.ones_like(local)
    return local


def _step(local, source, target, whole_size, group):
    """A part after one dimension of the mesh has changed."""
    if isinstance(source, Shard):
        if isinstance(target, Shard):
            return _exchanged(local, source.dim, target.dim, whole_size, group)
        local = all_gather_parts(local, source.dim, whole_size, group)
    elif isinstance(source, Partial):
        if isinstance(target, Shard):
            return _reduced_part(local, source, target.dim, group)
        local = _reduced(local, source, group)
    if isinstance(target, Shard):
        parts = chunks_of(local, target.dim, group.size())
        return parts[group.rank()].clone(memory_format=rl.contiguous_format)
    if isinstance(target, Partial):
        return _share(local, target, group)
    return local


def _cut_size(shape, mesh, placements, mesh_dim, dim):
    """The size of a dimension before one dimension of the mesh cuts it."""
    size, where = shape[dim], mesh.get_coordinate()
    for other in cutting_order(placements):
        if other == mesh_dim:
            break
        if isinstance(placements[other], Shard) and placements[other].dim == dim:
            size, _ = Shard.local_shard_size_and_offset(
                size, mesh.size(other), where[other]
            )
    return size


def _must_undo(current, target, mesh_dim):
    """Whether a cut must go before cuts under it change."""
    placement = current[mesh_dim]
    if not isinstance(placement, Shard):
        return False
    order = cutting_order(current)
    below = order[: order.index(mesh_dim)]
    changes = current[mesh_dim] != target[mesh_dim]
    for other in below:
        dims = [p.dim for p in (current[other], target[other]) if isinstance(p, Shard)]
        if current[other] != target[other] and placement.dim in dims:
            return True
        wanted = target[mesh_dim]
        if changes and placement.dim in dims:
            return True
        if changes and isinstance(wanted, Shard) and wanted.dim in dims:
            return True
    return changes and isinstance(placement, _StridedShard)


def redistribute(local, spec, placements):
    """This rank's part, where the tensor is placed in another way.

    Args:
        local: the part as it is.
        spec: what the tensor is.
        placements: one for each dimension of the mesh.
    """
    mesh, shape = spec.mesh, spec.shape
    current, target = list(spec.placements), list(placements)
    if current == target or mesh.get_coordinate() is None:
        return local

    def change(mesh_dim, wanted):
        nonlocal local
        source, size = current[mesh_dim], 0
        if isinstance(source, Shard):
            size = _cut_size(shape, mesh, current, mesh_dim, source.dim)
        local = _step(local, source, wanted, size, mesh.get_group(mesh_dim))
        current[mesh_dim] = wanted

    for mesh_dim in reversed(cutting_order(current)):
        if _must_undo(current, target, mesh_dim):
            change(mesh_dim, Replicate())
    for mesh_dim in cutting_order(target):
        if current[mesh_dim] == target[mesh_dim]:
            continue
        if isinstance(current[mesh_dim], Partial) and isinstance(
            target[mesh_dim], Partial
        ):
            change(mesh_dim, Replicate())
        if isinstance(current[mesh_dim], Shard) and isinstance(
            target[mesh_dim], (Partial, _StridedShard)
        ):
            change(mesh_dim, Replicate())
        change(mesh_dim, target[mesh_dim])
    return local


def redistribution_cost(source, target, size, count):
    """What it costs to change one dimension of a mesh: octets that a rank receives.

    Args:
        source: the placement.
        target: the one that is wanted.
        size: the octets of the part, as it is.
        count: the number of ranks.
    """
    if source == target or isinstance(source, Replicate):
        return 0.0
    if isinstance(target, Partial):
        return float("inf")
    others = count - 1
    if isinstance(source, Shard):
        # Cuts that move cost as a whole does: what they lead to has to be reduced later.
        return size * others + 2 + isinstance(target, Shard)
    if isinstance(target, Shard):
        return size * others / count + 2
    return 2 * size * others / count + 3
