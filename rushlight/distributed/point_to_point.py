"""Messages between two ranks."""

from contextlib import ExitStack

from rushlight.distributed.collective_functions import (
    check_tensor,
    group_for,
    rank_in_group,
)
from rushlight.distributed.world import get_global_rank, world

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _other_rank(group, rank, what):
    if rank == group.rank():
        raise ValueError(
            f"Invalid {what} rank: {what} rank should not be the same as the rank of the "
            "current process."
        )
    return rank


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Send a tensor to a rank, without waiting.

    Args:
        tensor: what is sent; it may not change until the work is over.
        dst: the rank, among all processes.
        group: the group; all processes without it.
        tag: a number that the receiver names too.
        group_dst: the rank, in the group.

    Returns:
        A ``Work``.
    """
    check_tensor(tensor, "tensor")
    chosen = group_for(group, "isend")
    if chosen is None:
        return None
    rank = _other_rank(
        chosen, rank_in_group(chosen, dst, group_dst, "dst"), "destination"
    )
    return chosen._send(tensor, rank, tag)


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receive a tensor from a rank, without waiting.

    Args:
        tensor: where it goes.
        src: the rank, among all processes; any without it.
        group: the group; all processes without it.
        tag: the number that the sender names.
        group_src: the rank, in the group.

    Returns:
        A ``Work``.
    """
    check_tensor(tensor, "tensor")
    chosen = group_for(group, "irecv")
    if chosen is None:
        return None
    if src is None and group_src is None:
        return chosen._receive(tensor, None, tag)
    rank = _other_rank(chosen, rank_in_group(chosen, src, group_src, "src"), "source")
    return chosen._receive(tensor, rank, tag)


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Send a tensor to a rank.

    Args:
        tensor: what is sent.
        dst: the rank, among all processes.
        group: the group; all processes without it.
        tag: a number that the receiver names too.
        group_dst: the rank, in the group.
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receive a tensor from a rank.

    Args:
        tensor: where it goes.
        src: the rank, among all processes; any without it.
        group: the group; all processes without it.
        tag: the number that the sender names.
        group_src: the rank, in the group.

    Returns:
        The rank that it came from, among all processes; -1 where this process is not
        in the group.
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    chosen = world.default if group is None else group
    return get_global_rank(chosen, work.source_rank())


class P2POp:
    """A send or receive of ``batch_isend_irecv``.

    Args:
        op: ``isend`` or ``irecv``.
        tensor: what is sent or filled.
        peer: the other rank, among all processes.
        group: the group; all processes without it.
        tag: a number that both name.
        group_peer: the other rank, in the group.
    """

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type "
                "``torch.distributed.isend`` or ``torch.distributed.irecv``."
            )
        check_tensor(tensor, "tensor")
        world.membership(group)
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = world.default if group is None else group
        self.group_peer = rank_in_group(self.group, peer, group_peer, "peer")
        self.peer = get_global_rank(self.group, self.group_peer)

    def __repr__(self):
        return f"P2POp({self.op.__name__}, peer={self.peer}, tag={self.tag})"


def batch_isend_irecv(p2p_op_list):
    """Start several sends and receives.

    Args:
        p2p_op_list: a list of ``P2POp``.

    Returns:
        The ``Work`` of each; one, where the group puts them together.

    Raises:
        ValueError: the list is empty, or has something else.
    """
    if not isinstance(p2p_op_list, list) or not all(
        isinstance(each, P2POp) for each in p2p_op_list
    ):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    if not p2p_op_list:
        raise IndexError("list index out of range")
    works = []
    with ExitStack() as stack:
        for group in dict.fromkeys(each.group for each in p2p_op_list):
            stack.enter_context(group._together())
        for each in p2p_op_list:
            work = each.op(each.tensor, group=each.group, tag=each.tag, **_other(each))
            if work not in works:
                works.append(work)
    return works


def _other(each):
    name = "group_dst" if each.op is isend else "group_src"
    return {name: each.group_peer}
