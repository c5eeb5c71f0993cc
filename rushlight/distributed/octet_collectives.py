"""Collectives of octets of any length: what other collectives of values are made of."""

import rushlight as rl
from rushlight.distributed.collective_functions import (
    all_gather,
    broadcast,
    gather,
    scatter,
)
from rushlight.distributed.world import get_rank, get_world_size, world


def _place(group):
    return (world.default if group is None else group)._coordination_device()


def _tensor(octets, size, group):
    """Octets in a tensor of some more."""
    made = rl.zeros(size, dtype=rl.uint8)
    if octets:
        made[: len(octets)] = rl.frombuffer(bytearray(octets), dtype=rl.uint8)
    return made.to(_place(group))


def _octets(tensor, size):
    return bytes(memoryview(tensor.cpu().numpy())[:size])


def gather_octets(octets, root, group=None):
    """Bring the octets of each rank to one.

    Args:
        octets: this rank's.
        root: the rank, in the group.
        group: the group; all processes without it.

    Returns:
        Their list on that rank; None on the others.
    """
    own = rl.tensor([len(octets)], device=_place(group))
    sizes = [rl.zeros_like(own) for _ in range(get_world_size(group))]
    all_gather(sizes, own, group)
    sizes = [int(each) for each in sizes]
    outputs = None
    if get_rank(group) == root:
        outputs = [_tensor(b"", max(sizes), group) for _ in sizes]
    gather(_tensor(octets, max(sizes), group), outputs, group=group, group_dst=root)
    if outputs is None:
        return None
    return [_octets(each, size) for each, size in zip(outputs, sizes)]


def scatter_octets(parts, root, group=None):
    """Bring one rank's octets for each to them.

    Args:
        parts: on that rank, the octets for each.
        root: the rank, in the group.
        group: the group; all processes without it.
    """
    sizes = [0] * get_world_size(group)
    if parts is not None:
        sizes = [len(each) for each in parts]
    sizes = rl.tensor(sizes, device=_place(group))
    broadcast(sizes, group=group, group_src=root)
    most = int(sizes.max())
    inputs = None if parts is None else [_tensor(each, most, group) for each in parts]
    output = _tensor(b"", most, group)
    scatter(output, inputs, group=group, group_src=root)
    return _octets(output, int(sizes[get_rank(group)]))


def broadcast_octets(octets, root, group=None):
    """Bring one rank's octets to all.

    Args:
        octets: that rank's; None on the others.
        root: the rank, in the group.
        group: the group; all processes without it.
    """
    size = rl.tensor([0 if octets is None else len(octets)], device=_place(group))
    broadcast(size, group=group, group_src=root)
    data = _tensor(octets, int(size), group)
    broadcast(data, group=group, group_src=root)
    return _octets(data, int(size))
