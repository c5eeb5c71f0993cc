"""Save a state from all ranks: each writes its part, and all fail or none."""

import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

from rushlight.distributed.checkpoint.default_planner import DefaultSavePlanner
from rushlight.distributed.checkpoint.filesystem import FileSystemWriter
from rushlight.distributed.checkpoint.staging import (
    AsyncStager,
    DefaultStager,
    StagingOptions,
)
from rushlight.distributed.checkpoint.stateful import Stateful
from rushlight.distributed.checkpoint.utils import Together, open_storage
from rushlight.distributed.subgroups import new_group
from rushlight.distributed.world import get_process_group_ranks, is_initialized

__all__ = [
    "AsyncCheckpointerType",
    "AsyncSaveResponse",
    "async_save",
    "save",
    "save_state_dict",
]


class AsyncCheckpointerType(Enum):
    """Where the writing of ``async_save`` goes on: on a thread, in both cases."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """A checkpoint on its way: its copy, and its writing."""

    staging_completion: Future
    upload_completion: Future


def save_state_dict(
    state_dict,
    storage_writer,
    process_group=None,
    coordinator_rank=0,
    no_dist=False,
    planner=None,
):
    """The older name of ``save``.

    Args:
        state_dict: the state.
        storage_writer: where it goes.
        process_group: the ranks; all without it.
        coordinator_rank: the one that decides.
        no_dist: whether this process saves alone.
        planner: who writes what.
    """
    warnings.warn(
        "`save_state_dict` is deprecated and will be removed in future versions."
        "Please use `save` instead.",
        FutureWarning,
        stacklevel=2,
    )
    storage_writer.reset()
    together = Together(process_group, not no_dist, coordinator_rank)
    return _save(state_dict, storage_writer, together, planner)


def _is_alone(no_dist):
    alone = no_dist or not is_initialized()
    if alone and not no_dist:
        warnings.warn(
            "torch.distributed is disabled, unavailable or uninitialized, assuming the "
            "intent is to save in a single process.",
            stacklevel=3,
        )
    return alone


def save(
    state_dict,
    *,
    checkpoint_id=None,
    storage_writer=None,
    planner=None,
    process_group=None,
    no_dist=False,
    use_collectives=True,
):
    """Save a state from all ranks: tensors that are spread, each rank its part.

    Args:
        state_dict: values by name; of a ``Stateful`` its ``state_dict()``.
        checkpoint_id: the folder.
        storage_writer: where it goes; a ``FileSystemWriter`` of the folder without it.
        planner: who writes what; a ``DefaultSavePlanner`` without it.
        process_group: the ranks; all without it.
        no_dist: whether this process saves alone.
        use_collectives: whether the ranks agree on who writes what; without, each
            writes all it has, and metadata of its own.

    Returns:
        The checkpoint's ``Metadata``.

    Raises:
        CheckpointException: it failed on some rank; nothing has changed on the disk.
    """
    together = Together(process_group, not _is_alone(no_dist))
    writer = open_storage(storage_writer, FileSystemWriter, checkpoint_id)
    return _save(_states(state_dict), writer, together, planner, use_collectives)


def _states(state_dict):
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }


def _save(state_dict, writer, together, planner=None, use_collectives=True):
    planner = DefaultSavePlanner() if planner is None else planner
    made = {}

    def local_step():
        planner.set_up_planner(
            state_dict=state_dict,
            storage_meta=writer.storage_meta(),
            is_coordinator=together.is_coordinator,
        )
        writer.set_up_storage_writer(
            together.is_coordinator, rank=together.rank, use_collectives=use_collectives
        )
        return writer.prepare_local_plan(planner.create_local_plan())

    def global_step(all_plans):
        plans, made["metadata"] = planner.create_global_plan(all_plans)
        return writer.prepare_global_plan(plans)

    def write():
        plan = planner.finish_plan(central)
        return writer.write_data(plan, planner).wait()

    def finish(results):
        writer.finish(metadata=made["metadata"], results=results)
        return made["metadata"]

    try:
        if use_collectives:
            central = together.reduce_scatter("plan", local_step, global_step)
            return together.all_reduce("write", write, finish)
        central = global_step([local_step()])[0]
        metadata = finish([write()])
    except BaseException:
        if hasattr(writer, "abandon"):
            writer.abandon()
        raise
    together.barrier()
    return metadata


_writing: dict = {}  # group -> the group of its own that threads of async_save use


def _group_of_threads(process_group):
    """A group of the same ranks: the program's collectives go on meanwhile."""
    found = _writing.get(process_group)
    if found is None or found._channel is None and found.size() > 1:
        ranks = get_process_group_ranks(process_group)
        found = new_group(ranks, group_desc="checkpoint", sort_ranks=False)
        _writing[process_group] = found
    return found


def async_save(
    state_dict,
    *,
    checkpoint_id=None,
    storage_writer=None,
    planner=None,
    process_group=None,
    async_checkpointer_type=AsyncCheckpointerType.THREAD,
    async_stager=None,
    no_dist=False,
    use_collectives=True,
):
    """Copy a state, and save the copy while the program goes on.

    Args:
        state_dict: values by name; of a ``Stateful`` its ``state_dict()``.
        checkpoint_id: the folder.
        storage_writer: where it goes; a ``FileSystemWriter`` of the folder without it.
        planner: who writes what; a ``DefaultSavePlanner`` without it.
        process_group: the ranks; all without it.
        async_checkpointer_type: a thread writes, whichever is given.
        async_stager: makes the copy.
        no_dist: whether this process saves alone.
        use_collectives: whether the ranks agree on who writes what.

    Returns:
        A future of the checkpoint's ``Metadata``; where the stager gives a future too,
        an ``AsyncSaveResponse`` of both.
    """
    alone = _is_alone(no_dist)
    if async_stager is None:
        is_stager = isinstance(storage_writer, AsyncStager)
        plain = StagingOptions(False, False, False, False)
        async_stager = storage_writer if is_stager else DefaultStager(plain)
    staged = async_stager.stage(_states(state_dict))
    group = None if alone else _group_of_threads(process_group)
    pool = ThreadPoolExecutor(1, thread_name_prefix="rushlight-checkpoint")

    def write():
        state = staged.result() if isinstance(staged, Future) else staged
        writer = open_storage(storage_writer, FileSystemWriter, checkpoint_id)
        together = Together(group, not alone)
        return _save(state, writer, together, planner, use_collectives)

    written = pool.submit(write)
    pool.shutdown(wait=False)
    if isinstance(staged, Future):
        return AsyncSaveResponse(staged, written)
    if async_stager.should_synchronize_after_execute:
        async_stager.synchronize_staging()
    return written
