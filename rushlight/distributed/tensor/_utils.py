"""Sizes of parts, and where they begin."""

from rushlight.distributed.tensor.placement_types import Replicate, Shard, _StridedShard

__all__ = [
    "compute_local_shape_and_global_offset",
    "contiguous_strides",
    "cutting_order",
    "global_shape_of",
    "normalized",
]


def contiguous_strides(shape):
    """Strides row by row.

    Args:
        shape: the sizes.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def cutting_order(placements):
    """The dimensions of the mesh in the order in which they cut a tensor.

    Outer ones come first, but those whose part is of what inner ones have cut.

    Args:
        placements: one for each dimension of the mesh.
    """
    count = range(len(placements))
    plain = [i for i in count if not isinstance(placements[i], _StridedShard)]
    return plain + [i for i in count if isinstance(placements[i], _StridedShard)]


def compute_local_shape_and_global_offset(shape, mesh, placements, coordinate=None):
    """The sizes of this rank's part, and where it begins in the whole.

    Args:
        shape: the sizes of the whole.
        mesh: the processes.
        placements: one for each dimension of the mesh.
        coordinate: whose part; this rank's without it.

    Returns:
        Two tuples. A rank that is not in the mesh has nothing.
    """
    where = mesh.get_coordinate() if coordinate is None else coordinate
    if where is None:
        return (0,), (0,)
    sizes, offsets = list(shape), [0] * len(shape)
    for mesh_dim in cutting_order(placements):
        placement = placements[mesh_dim]
        if isinstance(placement, Shard):
            dim = placement.dim
            sizes[dim], start = Shard.local_shard_size_and_offset(
                sizes[dim], mesh.size(mesh_dim), where[mesh_dim]
            )
            offsets[dim] += start
    offsets = [
        min(offset, whole) if size else whole
        for offset, size, whole in zip(offsets, sizes, shape)
    ]
    return tuple(sizes), tuple(offsets)


def normalized(placements, ndim, mesh, refusal=AssertionError):
    """Placements as a tuple, dimensions counted from the front.

    Args:
        placements: one for each dimension of the mesh; whole without them.
        ndim: the number of the tensor's dimensions.
        mesh: the processes.
        refusal: the exception for a dimension that there is not.

    Raises:
        AssertionError: a dimension to cut along is not one of the tensor's, as in PyTorch.
        ValueError: there is not one placement for each dimension of the mesh.
    """
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if len(placements) != mesh.ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! Found "
            f"placements length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    for number, each in enumerate(placements):
        if isinstance(each, Shard) and not -ndim <= each.dim < max(ndim, 1):
            raise refusal(
                f"Sharding dim {each.dim} greater than tensor ndim {ndim} "
                f"for placement number {number}"
            )
    return tuple(
        Shard(each.dim + ndim) if type(each) is Shard and each.dim < 0 else each
        for each in placements
    )


def global_shape_of(local_shape, mesh, placements):
    """The sizes of a whole whose parts are all like this one.

    Args:
        local_shape: the sizes of the part.
        mesh: the processes.
        placements: one for each dimension of the mesh.

    Raises:
        RuntimeError: it is cut along a dimension that the part does not have.
    """
    sizes = list(local_shape)
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            if not 0 <= placement.dim < len(sizes):
                raise RuntimeError(
                    f"Sharding dim {placement.dim} greater than tensor ndim "
                    f"{len(sizes)} for placement number {mesh_dim}."
                )
            sizes[placement.dim] *= mesh.size(mesh_dim)
    return tuple(sizes)
