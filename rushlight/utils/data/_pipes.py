"""What a loader does for pipes of data: one seed for all workers, a share for each."""

import sys

import rushlight as rl
from rushlight.utils.data.sampler import draw_seed


def _kind(dataset, *names) -> bool:
    # Who has a pipe has imported them.
    module = sys.modules.get("rushlight.utils.data.datapipes.datapipe")
    return module is not None and isinstance(
        dataset, tuple(getattr(module, name) for name in names)
    )


def is_iterable_pipe(dataset) -> bool:
    """Whether samples come one after another out of a pipe."""
    return _kind(dataset, "IterDataPipe")


def ordered(dataset, shuffle):
    """A pipe told whether to shuffle."""
    from rushlight.utils.data.graph_settings import apply_shuffle_settings

    return apply_shuffle_settings(dataset, shuffle=shuffle)


def draw_shared(dataset, generator) -> int | None:
    """The seed that all copies of a pipe have, so that their orders are one.

    Processes of a group agree on that of the first.
    """
    if not is_iterable_pipe(dataset):
        return None
    seed = draw_seed(generator)
    if _in_group():
        shared_seed = rl.tensor(seed)
        rl.distributed.broadcast(shared_seed, src=0)
        seed = int(shared_seed.item())
    return seed


def seeded(dataset, shared: int | None) -> None:
    """Gives the pipes that draw numbers their seeds for a pass."""
    if shared is not None:
        from rushlight.utils.data.graph_settings import apply_random_seed

        apply_random_seed(dataset, rl.Generator().manual_seed(shared))


def shared_out(dataset, workers: int = 1, worker: int = 0) -> None:
    """Tells a copy of a pipe which share is its own: of processes first, then workers."""
    if not _kind(dataset, "IterDataPipe", "MapDataPipe"):
        return
    from rushlight.utils.data.graph_settings import apply_sharding

    size, rank = 1, 0
    if _in_group():
        size, rank = rl.distributed.get_world_size(), rl.distributed.get_rank()
    apply_sharding(dataset, workers * size, worker * size + rank)


def _in_group() -> bool:
    group = sys.modules.get("rushlight.distributed")
    return group is not None and group.is_available() and group.is_initialized()
