"""Collectives of any objects. These, and no others, unpickle what another rank sends."""

import io
import pickle

import rushlight as rl
from rushlight.distributed.collective_functions import (
    all_gather,
    broadcast,
    gather,
    group_for,
    on_root_alone,
    root_in_group,
    scatter,
)
from rushlight.distributed.point_to_point import recv, send
from rushlight.distributed.world import world

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _place(group):
    return (world.default if group is None else group)._coordination_device()


def to_tensor(obj, group=None):
    """An object's pickle as a tensor, and its length as another.

    Args:
        obj: anything that pickles.
        group: whose ranks are told; without it the tensors are on the host.
    """
    buffer = io.BytesIO()
    pickle.Pickler(buffer).dump(obj)
    data = rl.frombuffer(bytearray(buffer.getbuffer()), dtype=rl.uint8)
    size = rl.tensor([data.numel()])
    return (
        (data, size)
        if group is None
        else (data.to(_place(group)), size.to(_place(group)))
    )


def to_object(tensor, size):
    """The object of a pickle.

    Args:
        tensor: its octets, and perhaps more.
        size: their number.
    """
    return pickle.loads(bytes(memoryview(tensor[: int(size)].cpu().numpy())))


def _padded(data, size):
    if data.numel() == size:
        return data
    padded = data.new_zeros(size)
    padded[: data.numel()] = data
    return padded


def _all_sizes(size, group):
    sizes = [rl.zeros_like(size) for _ in range(group.size())]
    all_gather(sizes, size, group=group)
    return [int(each) for each in sizes]


def all_gather_object(object_list, obj, group=None):
    """Bring an object of each rank to every rank.

    Args:
        object_list: a list with a place for each rank's.
        obj: this rank's; it is pickled, and unpickled by the others.
        group: the group; all processes without it.
    """
    chosen = group_for(group, "all_gather_object")
    if chosen is None:
        return
    data, size = to_tensor(obj, chosen)
    sizes = _all_sizes(size, chosen)
    most = max(sizes)
    outputs = list(data.new_empty(chosen.size(), most).unbind(0))
    all_gather(outputs, _padded(data, most), group=group)
    for index, (output, count) in enumerate(zip(outputs, sizes)):
        object_list[index] = to_object(output, count)


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Bring an object of each rank to one.

    Args:
        obj: this rank's; it is pickled, and unpickled by the one.
        object_gather_list: on that rank, a list with a place for each.
        dst: the rank, among all processes; 0 without it.
        group: the group; all processes without it.
        group_dst: the rank, in the group.
    """
    chosen = group_for(group, "gather_object")
    if chosen is None:
        return
    root = root_in_group(chosen, dst, group_dst, "dst")
    is_root = chosen.rank() == root
    on_root_alone(object_gather_list, is_root, "gather", "destination")
    data, size = to_tensor(obj, chosen)
    sizes = _all_sizes(size, chosen)
    most = max(sizes)
    outputs = []
    if is_root:
        outputs = list(data.new_empty(chosen.size(), most).unbind(0))
    gather(_padded(data, most), outputs or None, group=group, group_dst=root)
    for index, output in enumerate(outputs):
        object_gather_list[index] = to_object(output, sizes[index])


def _pack(object_list, device):
    pairs = [to_tensor(each) for each in object_list]
    sizes = rl.cat([size for _, size in pairs])
    return sizes.to(device), rl.cat([data for data, _ in pairs]).to(device)


def _unpack(object_list, sizes, data):
    for index, part in enumerate(data.split(sizes.tolist())):
        object_list[index] = to_object(part, part.numel())


def broadcast_object_list(
    object_list, src=None, group=None, device=None, group_src=None
):
    """Copy one rank's objects to all.

    Args:
        object_list: what is sent on ``src``; filled on the others, which unpickle it.
        src: the rank, among all processes; 0 without it.
        group: the group; all processes without it.
        device: where the octets go by; as the group needs it without it.
        group_src: the rank, in the group.
    """
    chosen = group_for(group, "broadcast_object_list")
    if chosen is None:
        return
    root = root_in_group(chosen, src, group_src, "src")
    is_root = chosen.rank() == root
    place = device or _place(chosen)
    if is_root:
        sizes, data = _pack(object_list, place)
    else:
        sizes = rl.zeros(len(object_list), dtype=rl.int64, device=place)
    broadcast(sizes, group=group, group_src=root)
    if not is_root:
        data = sizes.new_empty(int(sizes.sum()), dtype=rl.uint8)
    broadcast(data, group=group, group_src=root)
    if not is_root:
        _unpack(object_list, sizes, data)


def send_object_list(
    object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False
):
    """Send objects to a rank, which unpickles them.

    Args:
        object_list: the objects.
        dst: the rank, among all processes.
        group: the group; all processes without it.
        device: where the octets go by; as the group needs it without it.
        group_dst: the rank, in the group.
        use_batch: without effect here.
    """
    if group_for(group, "send_object_list") is None:
        return
    sizes, data = _pack(object_list, device or _place(group))
    send(sizes, dst, group, group_dst=group_dst)
    send(data, dst, group, group_dst=group_dst)


def recv_object_list(
    object_list, src=None, group=None, device=None, group_src=None, use_batch=False
):
    """Receive objects from a rank, and unpickle them.

    Args:
        object_list: a list with a place for each.
        src: the rank, among all processes; any without it.
        group: the group; all processes without it.
        device: where the octets go by; as the group needs it without it.
        group_src: the rank, in the group.
        use_batch: without effect here.

    Returns:
        The rank that they came from, among all processes.
    """
    if group_for(group, "recv_object_list") is None:
        return -1
    place = device or _place(group)
    sizes = rl.zeros(len(object_list), dtype=rl.int64, device=place)
    source = recv(sizes, src, group, group_src=group_src)
    data = sizes.new_empty(int(sizes.sum()), dtype=rl.uint8)
    recv(data, source, group)
    _unpack(object_list, sizes, data)
    return source


def scatter_object_list(
    scatter_object_output_list,
    scatter_object_input_list=None,
    src=None,
    group=None,
    group_src=None,
):
    """Bring one object of one rank to each.

    Args:
        scatter_object_output_list: a list whose first place gets this rank's.
        scatter_object_input_list: on that rank, an object for each.
        src: the rank that has them, among all processes; 0 without it.
        group: the group; all processes without it.
        group_src: the rank, in the group.
    """
    chosen = group_for(group, "scatter_object_list")
    if chosen is None:
        return
    if not isinstance(scatter_object_output_list, list) or not (
        scatter_object_output_list
    ):
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at "
            "least 1."
        )
    root = root_in_group(chosen, src, group_src, "src")
    is_root = chosen.rank() == root
    sizes = rl.zeros(chosen.size(), dtype=rl.int64, device=_place(chosen))
    pairs = []
    if is_root:
        pairs = [to_tensor(each, chosen) for each in scatter_object_input_list]
        sizes = rl.cat([size for _, size in pairs])
    broadcast(sizes, group=group, group_src=root)
    most = int(sizes.max())
    output = sizes.new_empty(most, dtype=rl.uint8)
    inputs = [_padded(data, most) for data, _ in pairs]
    scatter(output, inputs or None, group=group, group_src=root)
    scatter_object_output_list[0] = to_object(output, sizes[chosen.rank()])
