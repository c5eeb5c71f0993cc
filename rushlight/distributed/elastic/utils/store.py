"""Values and barriers of processes that share a store, and no group."""

from contextlib import contextmanager
from datetime import timedelta

from rushlight.distributed.errors import DistStoreError

__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]

MEMBERS, LAST, CHECKED = "/num_members", "/last_member", "/checked_in"


@contextmanager
def store_timeout(store, timeout):
    """A store that waits for another time in the block.

    Args:
        store: the store.
        timeout: seconds.
    """
    before = store.timeout
    try:
        store.set_timeout(timedelta(seconds=timeout))
        yield
    finally:
        kept = before if isinstance(before, timedelta) else timedelta(seconds=before)
        store.set_timeout(kept)


def get_all(store, rank, prefix, world_size):
    """The values of all ranks, in their order; waits until each is there.

    Rank 0, which may serve the store, returns when all others have read.

    Args:
        store: the store.
        rank: this process's number.
        prefix: what the keys begin with.
        world_size: the number of processes.
    """
    found = [store.get(f"{prefix}{each}") for each in range(world_size)]
    key = _check_in(store, world_size, f"{prefix}/finished")
    if rank == 0:
        store.wait([key])
    return found


def synchronize(store, data, rank, world_size, key_prefix, timeout=300):
    """Bring each rank's octets to all.

    Args:
        store: the store.
        data: this rank's.
        rank: its number.
        world_size: the number of processes.
        key_prefix: what the keys begin with; used once.
        timeout: seconds to wait.
    """
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def _check_in(store, world_size, prefix):
    """Count this process; the key that is set once all have come."""
    if store.add(prefix + MEMBERS, 1) == world_size:
        store.set(prefix + LAST, "1")
    return prefix + LAST


def barrier(
    store,
    world_size,
    key_prefix,
    barrier_timeout=300,
    rank=None,
    rank_tracing_decoder=None,
    trace_timeout=10,
):
    """Wait until all have come.

    Args:
        store: the store.
        world_size: the number of processes.
        key_prefix: what the keys begin with; used once.
        barrier_timeout: seconds to wait.
        rank: this process's number: with it, an error says who is missing.
        rank_tracing_decoder: gives a rank's name for the error.
        trace_timeout: without effect: every rank tells that it has come at once.

    Raises:
        DistStoreError: not all have come in time.
    """
    if rank is not None:
        store.set(f"{key_prefix}{CHECKED}/{rank}", "1")
    with store_timeout(store, barrier_timeout):
        key = _check_in(store, world_size, key_prefix)
        try:
            store.wait([key])
        except DistStoreError:
            if rank is None:
                raise
            name = rank_tracing_decoder or str
            missing = [
                name(each)
                for each in range(world_size)
                if not store.check([f"{key_prefix}{CHECKED}/{each}"])
            ]
            raise DistStoreError(
                f"Timed out waiting on barrier on rank {rank}, for key prefix: "
                f"{key_prefix} (world_size={world_size}, missing_ranks="
                f"[{', '.join(missing)}], timeout={barrier_timeout})"
            ) from None
