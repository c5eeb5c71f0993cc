"""Groups of some of the processes."""

from rushlight.distributed.process_group import ProcessGroup
from rushlight.distributed.world import (
    GroupMember,
    backend_for,
    get_process_group_ranks,
    make_group,
    world,
)

__all__ = ["new_group", "new_subgroups", "new_subgroups_by_enumeration"]


def _chosen_ranks(ranks, sort_ranks):
    whole = world.membership().ranks
    if ranks is None:
        return list(whole)
    ranks = sorted(ranks) if sort_ranks else list(ranks)
    if len(ranks) > len(whole):
        raise ValueError(
            "the new group's world size should be less or equal to the world size set "
            "by init_process_group"
        )
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"Duplicate ranks in new_group: {ranks}")
    if any(not 0 <= each < len(whole) for each in ranks):
        raise ValueError(
            "The new group's rank should be within the world_size set by "
            "init_process_group"
        )
    return ranks


def new_group(
    ranks=None,
    timeout=None,
    backend=None,
    pg_options=None,
    use_local_synchronization=False,
    group_desc=None,
    device_id=None,
    sort_ranks=True,
):
    """Make a group of some of the processes; every process calls it alike.

    Args:
        ranks: their global ranks; all without it.
        timeout: how long a collective may take, a ``timedelta``; as the default group.
        backend: as the default group without it.
        pg_options: options of a backend: a ``ProcessGroupNCCL.Options``.
        use_local_synchronization: whether its members alone call it.
        group_desc: what it is for.
        device_id: the device of this process: NCCL connects it at once.
        sort_ranks: whether its ranks go in the order of the global ones.

    Returns:
        The group; ``GroupMember.NON_GROUP_MEMBER`` where this process is not in it.
    """
    membership = world.membership()
    ranks = _chosen_ranks(ranks, sort_ranks)
    backend = membership.backend if backend is None else backend_for(backend)
    name = str(world.count)
    if use_local_synchronization:
        name = "local/" + "_".join(map(str, ranks))
        name += f"/{sum(m.name.startswith(name) for m in world.members.values())}"
    else:
        world.count += 1
    rank = world.default.rank()
    if rank not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    timeout = world.default._timeout if timeout is None else timeout
    made = make_group(
        world.store, ranks, rank, backend, name, timeout, device_id, pg_options
    )
    made.group_desc = group_desc or "undefined"
    return made


def new_subgroups(
    group_size=None,
    group=None,
    timeout=None,
    backend=None,
    pg_options=None,
    group_desc=None,
):
    """Divide all processes into groups of one size, of neighbouring ranks.

    Args:
        group_size: the size of each.
        group: the group that is divided; all processes without it.
        timeout: how long a collective may take.
        backend: as the default group without it.
        pg_options: options of a backend.
        group_desc: what they are for.

    Returns:
        The group that this process is in, and a list of all.

    Raises:
        ValueError: the size does not divide the number of processes.
    """
    if group_size is None:
        raise ValueError("Default value for group_size is not available without GPUs")
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    ranks = get_process_group_ranks(group)
    if group_size > len(ranks):
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size "
            f"({len(ranks)})"
        )
    if len(ranks) % group_size:
        raise ValueError(
            f"The world size ({len(ranks)}) must be divisible by "
            f"'group_size={group_size}'"
        )
    parts = [ranks[i : i + group_size] for i in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list,
    timeout=None,
    backend=None,
    pg_options=None,
    group_desc=None,
):
    """Divide processes into groups that share none.

    Args:
        ranks_per_subgroup_list: the global ranks of each.
        timeout: how long a collective may take.
        backend: as the default group without it.
        pg_options: options of a backend.
        group_desc: what they are for.

    Returns:
        The group that this process is in, or None, and a list of all.

    Raises:
        ValueError: a rank is in two.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    groups, own, seen = [], None, {}
    for number, ranks in enumerate(ranks_per_subgroup_list):
        for rank in ranks:
            if rank in seen:
                raise ValueError(
                    f"Rank {rank} has appeared in both subgroup "
                    f"{ranks_per_subgroup_list[seen[rank]]} and {ranks}"
                )
            seen[rank] = number
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(made)
        if isinstance(made, ProcessGroup):
            own = made
    return own, groups
