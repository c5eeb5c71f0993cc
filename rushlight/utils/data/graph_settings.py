"""What is said to all pipes that a pipe is made of: shares, orders and seeds."""

import inspect
import warnings

import rushlight as rl
from rushlight.utils.data.datapipes.iter.sharding import (
    SHARDING_PRIORITIES,
    _ShardingIterDataPipe,
)
from rushlight.utils.data.graph import DataPipe, DataPipeGraph, traverse_dps

__all__ = [
    "apply_random_seed",
    "apply_sharding",
    "apply_shuffle_seed",
    "apply_shuffle_settings",
    "get_all_graph_pipes",
]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[DataPipe]:
    """The pipes of a graph, each once, the last first."""
    found: dict[int, DataPipe] = {}

    def walk(part):
        for key, (pipe, below) in part.items():
            if key not in found:
                found[key] = pipe
                walk(below)

    walk(graph)
    return list(found.values())


def _has_method(pipe, *names):
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_sharding(
    datapipe: DataPipe,
    num_of_instances: int,
    instance_id: int,
    sharding_group=SHARDING_PRIORITIES.DEFAULT,
) -> DataPipe:
    """Tells the pipes that give a share which share is wanted.

    Args:
        datapipe: the last of the pipes.
        num_of_instances: how many shares there are.
        instance_id: which one.
        sharding_group: of whom: processes of a group, or workers of one.

    Raises:
        RuntimeError: a share would be taken of a share.
    """

    def walk(graph, above):
        for pipe, below in graph.values():
            nearest = above
            if isinstance(pipe, _ShardingIterDataPipe) or _has_method(
                pipe, "apply_sharding"
            ):
                if above is not None:
                    raise RuntimeError(
                        "Sharding twice on a single pipeline is likely unintended and "
                        "will cause data loss. Sharding already applied to "
                        f"{above} while trying to apply to {pipe}"
                    )
                if len(inspect.signature(pipe.apply_sharding).parameters) < 3:
                    pipe.apply_sharding(num_of_instances, instance_id)
                else:
                    pipe.apply_sharding(
                        num_of_instances, instance_id, sharding_group=sharding_group
                    )
                nearest = pipe
            walk(below, nearest)

    walk(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: DataPipe, shuffle: bool | None = None) -> DataPipe:
    """Tells the pipes that shuffle whether to; where none does, one is put behind.

    Args:
        datapipe: the last of the pipes.
        shuffle: whether; None leaves them as they are.
    """
    if shuffle is None:
        return datapipe
    pipes = get_all_graph_pipes(traverse_dps(datapipe))
    shufflers = [pipe for pipe in pipes if _has_method(pipe, "set_shuffle", "set_seed")]
    if shuffle and not shufflers:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. "
            "Adding one at the end. Be aware that the default buffer size might not be "
            "sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_shuffle_seed(datapipe: DataPipe, rng) -> DataPipe:
    """As ``apply_random_seed``, which takes its place."""
    warnings.warn(
        "`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future "
        "releases. Please use `apply_random_seed` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return apply_random_seed(datapipe, rng)


def apply_random_seed(datapipe: DataPipe, rng) -> DataPipe:
    """Gives each pipe that draws numbers a seed of its own.

    Args:
        datapipe: the last of the pipes.
        rng: the generator that the seeds are drawn from.
    """
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _has_method(pipe, "set_seed"):
            seed = rl.empty((), dtype=rl.int64).random_(generator=rng)
            pipe.set_seed(int(seed.item()))
    return datapipe
