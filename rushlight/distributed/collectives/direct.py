"""Collectives of which every rank sends to those that need it, at once.

For small arrays between any processes, and for arrays of all sizes between machines.
A large all-reduce is a reduce-scatter and an all-gather: each rank sends
``2 (W - 1) / W`` of the array, as in a ring, in two rounds in place of ``2 (W - 1)``.
"""

import rushlight as rl
from rushlight.core.docstrings import describe_arguments
from rushlight.distributed.collectives.operands import octets, reduce_into

SPLIT_BYTES = 1 << 16  # from here on an all-reduce goes in two halves


def part(count, size, index):
    """First and last element of one of ``size`` nearly equal parts."""
    return count * index // size, count * (index + 1) // size


def others(channel):
    """All other ranks, from the next one on."""
    return [(channel.rank + i) % channel.size for i in range(1, channel.size)]


def barrier(channel):
    """Wait until every rank has come."""
    channel.announce(1)
    channel.await_phase(1)
    channel.next_piece()


def collect(channel, flat):
    """The flat tensors of all ranks, in their order."""
    found = [flat] * channel.size
    own = octets(flat)
    for rank in others(channel):
        found[rank] = rl.empty_like(flat)
        channel.receive(rank, octets(found[rank]))
    for rank in others(channel):
        channel.send(rank, own)
    channel.finish()
    return found


def all_reduce(channel, flat, reduction):
    """Reduce the arrays of all ranks, on every rank.

    Args:
        flat: this rank's array; it becomes the result.
    """
    if flat.numel() * flat.element_size() > SPLIT_BYTES and channel.size > 2:
        bounds = [part(flat.numel(), channel.size, i) for i in range(channel.size)]
        parts = [flat[low:high] for low, high in bounds]
        reduce_scatter(channel, parts[channel.rank], parts, reduction)
        all_gather(channel, parts, parts[channel.rank])
        return
    values = collect(channel, flat)
    out = flat if channel.rank < 2 else rl.empty_like(flat)
    reduce_into(out, values, reduction)
    if out is not flat:
        flat.copy_(out)


def reduce(channel, flat, reduction, root):
    """Reduce the arrays of all ranks, on one.

    Args:
        flat: this rank's array; on the root it becomes the result.
        root: the rank.
    """
    if channel.rank != root:
        channel.send(root, octets(flat))
        channel.finish()
        return
    values = [flat] * channel.size
    for rank in others(channel):
        values[rank] = rl.empty_like(flat)
        channel.receive(rank, octets(values[rank]))
    channel.finish()
    out = rl.empty_like(flat)
    reduce_into(out, values, reduction)
    flat.copy_(out)


def broadcast(channel, flat, root):
    """Copy one rank's array to all, along a tree of halving distances.

    Args:
        flat: the array.
        root: the rank that it comes from.
    """
    size, own = channel.size, (channel.rank - root) % channel.size
    view, distance = octets(flat), 1
    while distance < size and not own & distance:
        distance <<= 1
    if own:
        channel.receive((own - distance + root) % size, view)
        channel.finish()
    while distance := distance >> 1:
        if own + distance < size:
            channel.send((own + distance + root) % size, view)
    channel.finish()


def all_gather(channel, outs, flat):
    """Bring the arrays of all ranks to every rank.

    Args:
        outs: where each rank's array goes.
    """
    for rank in others(channel):
        channel.receive(rank, octets(outs[rank]))
    view = octets(flat)
    for rank in others(channel):
        channel.send(rank, view)
    if outs[channel.rank] is not flat:
        outs[channel.rank].copy_(flat)
    channel.finish()


def gather(channel, outs, flat, root):
    """Bring the arrays of all ranks to one.

    Args:
        outs: on the root, where each rank's array goes.
        root: the rank.
    """
    if channel.rank != root:
        channel.send(root, octets(flat))
    else:
        for rank in others(channel):
            channel.receive(rank, octets(outs[rank]))
        outs[root].copy_(flat)
    channel.finish()


def scatter(channel, flat, parts, root):
    """Bring one of the root's arrays to each rank.

    Args:
        flat: where this rank's goes.
        parts: on the root, the array of each rank.
        root: the rank that they come from.
    """
    if channel.rank != root:
        channel.receive(root, octets(flat))
    else:
        for rank in others(channel):
            channel.send(rank, octets(parts[rank]))
        flat.copy_(parts[root])
    channel.finish()


def reduce_scatter(channel, out, parts, reduction):
    """Reduce the arrays that all ranks have for each, on that rank.

    Args:
        out: where this rank's result goes; it may be its own part.
        parts: an array for each rank.
    """
    values = [parts[channel.rank]] * channel.size
    for rank in others(channel):
        values[rank] = rl.empty_like(out)
        channel.receive(rank, octets(values[rank]))
    for rank in others(channel):
        channel.send(rank, octets(parts[rank]))
    channel.finish()
    total = rl.empty_like(out)
    reduce_into(total, values, reduction)
    out.copy_(total)


def all_to_all(channel, outs, parts):
    """Bring an array from each rank to each rank.

    Args:
        outs: where the array from each rank goes.
        parts: the array for each rank.
    """
    for rank in others(channel):
        channel.receive(rank, octets(outs[rank]))
    for rank in others(channel):
        channel.send(rank, octets(parts[rank]))
    outs[channel.rank].copy_(parts[channel.rank])
    channel.finish()


describe_arguments(
    globals(),
    channel="the group.",
    flat="this rank's.",
    reduction="the name of the reduction.",
)
