"""Load a state into the tensors of all ranks, whoever has written it."""

import warnings

from rushlight.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)
from rushlight.distributed.checkpoint.filesystem import FileSystemReader
from rushlight.distributed.checkpoint.stateful import Stateful
from rushlight.distributed.checkpoint.utils import Together, open_storage
from rushlight.distributed.world import is_initialized

__all__ = ["load", "load_state_dict"]


def load_state_dict(
    state_dict,
    storage_reader,
    process_group=None,
    coordinator_rank=0,
    no_dist=False,
    planner=None,
):
    """The older name of ``load``.

    Args:
        state_dict: what is filled.
        storage_reader: where it comes from.
        process_group: the ranks; all without it.
        coordinator_rank: the one that decides.
        no_dist: whether this process loads alone.
        planner: who reads what.
    """
    warnings.warn(
        "`load_state_dict` is deprecated and will be removed in future versions. "
        "Please use `load` instead.",
        FutureWarning,
        stacklevel=2,
    )
    storage_reader.reset()
    together = Together(process_group, not no_dist, coordinator_rank)
    _load(state_dict, storage_reader, together, planner)


def load(
    state_dict,
    *,
    checkpoint_id=None,
    storage_reader=None,
    planner=None,
    process_group=None,
    no_dist=False,
):
    """Fill a state in place: of tensors that are spread, each rank reads its part.

    The checkpoint may have been written by another number of ranks, with tensors spread
    in another way. Values that are no tensors are put into the dict.

    Args:
        state_dict: what is filled; of a ``Stateful`` its ``state_dict()``, which its
            ``load_state_dict`` gets back.
        checkpoint_id: the folder.
        storage_reader: where it comes from; a ``FileSystemReader`` without it.
        planner: who reads what; a ``DefaultLoadPlanner`` without it.
        process_group: the ranks; all without it.
        no_dist: whether this process loads alone.

    Raises:
        CheckpointException: it failed on some rank.
    """
    alone = no_dist or not is_initialized()
    if alone:
        warnings.warn(
            "torch.distributed is disabled, unavailable or uninitialized, assuming the "
            "intent is to load in a single process.",
            stacklevel=2,
        )
    reader = open_storage(storage_reader, FileSystemReader, checkpoint_id)
    keys = sorted(state_dict)
    states = {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in ((key, state_dict[key]) for key in keys)
    }
    _load(states, reader, Together(process_group, not alone), planner)
    for key in keys:
        if isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(states[key])
        else:
            state_dict[key] = states[key]


def _metadata(reader, rank):
    """The checkpoint's metadata and True; or this rank's own, and False."""
    try:
        return reader.read_metadata(), True
    except FileNotFoundError as error:
        try:
            return reader.read_metadata(rank=rank), False
        except (FileNotFoundError, TypeError):
            raise error from None


def _load(state_dict, reader, together, planner=None):
    planner = DefaultLoadPlanner() if planner is None else planner
    shared = True

    def local_step():
        nonlocal shared
        metadata, shared = _metadata(reader, together.rank)
        planner.set_up_planner(state_dict, metadata, together.is_coordinator)
        reader.set_up_storage_reader(
            metadata,
            together.is_coordinator,
            rank=together.rank,
            use_collectives=shared,
        )
        return reader.prepare_local_plan(planner.create_local_plan())

    def global_step(all_plans):
        return reader.prepare_global_plan(planner.create_global_plan(all_plans))

    def read():
        plan = planner.finish_plan(central)
        reader.read_data(plan, planner).wait()

    central = together.reduce_scatter("plan", local_step, global_step)
    together.all_gather("read", read)


def _load_state_dict_from_keys(
    keys=None, *, checkpoint_id=None, storage_reader=None, process_group=None
):
    """The values of some names, or of all, whole on every rank.

    Args:
        keys: the names, or beginnings of names; all without it.
        checkpoint_id: the folder.
        storage_reader: where it comes from.
        process_group: the ranks; all without it.
    """
    alone = not is_initialized()
    found: dict = {}
    planner = _EmptyStateDictLoadPlanner({keys} if isinstance(keys, str) else keys)
    reader = open_storage(storage_reader, FileSystemReader, checkpoint_id)
    _load(found, reader, Together(process_group, not alone), planner)
    return found
