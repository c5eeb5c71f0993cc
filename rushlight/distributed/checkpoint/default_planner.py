"""Planners that write every value once, and read what this rank has room for."""

import dataclasses
import io
import math
from collections import defaultdict

import rushlight as rl
from rushlight.distributed.checkpoint._nested_dict import flatten_state_dict
from rushlight.distributed.checkpoint._traverse import set_element
from rushlight.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItemType,
)
from rushlight.distributed.checkpoint.planner_helpers import (
    create_read_items,
    create_write_items,
    find_state_dict_object,
    init_state_dict,
    narrow_tensor_by_index,
)
from rushlight.distributed.checkpoint.resharding import boxes_overlap

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_load_plan",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]


class DefaultSavePlanner(SavePlanner):
    """Writes each value once, by the rank that has least to write.

    Args:
        flatten_state_dict: whether values in nested dicts are written each for itself.
        flatten_sharded_tensors: without effect: there are no tensors in shards.
        dedup_replicated_tensors: without effect, as in PyTorch.
        dedup_save_to_lowest_rank: whether the lowest rank that has a value writes it.
        enable_plan_caching: whether plans that have not changed are sent again.
    """

    def __init__(
        self,
        flatten_state_dict=True,
        flatten_sharded_tensors=True,
        dedup_replicated_tensors=None,
        dedup_save_to_lowest_rank=False,
        enable_plan_caching=False,
    ):
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings = {}
        self._enable_plan_caching = enable_plan_caching
        self._cached_plans_key = type(self).__name__

    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        """Begin with a state."""
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self):
        """What this rank could write; without items where it is as last time."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = dataclasses.replace(plan, planner_data=self.mappings)
        self.plan = plan
        self._local_plan = plan
        known = self._cached_save_plan.get(self._cached_plans_key)
        if self._enable_plan_caching and known == plan:
            return SavePlan([], usable=False)
        return plan

    def create_global_plan(self, all_plans):
        """Who writes what, and the metadata of all."""
        if self._enable_plan_caching:
            key = self._cached_plans_key
            known = self._cached_all_plans.get(key, all_plans)
            all_plans = [
                new if new.usable else old for new, old in zip(all_plans, known)
            ]
            self._cached_all_plans[key] = all_plans
        plans = deduplicated(all_plans, self.dedup_save_to_lowest_rank)
        plans, metadata = create_default_global_save_plan(plans)
        if self.flatten_state_dict:
            merged = {}
            for plan in reversed(plans):
                merged.update(plan.planner_data or {})
            metadata = dataclasses.replace(metadata, planner_data=merged)
        faults = plan_faults(plans, metadata)
        if faults:
            summary = "; ".join(faults)
            if len(summary) > 500:
                summary = summary[:500] + "... (truncated)"
            raise ValueError(f"Failed to validate global plan: {summary}")
        self.global_plan, self.metadata = plans, metadata
        return plans, metadata

    def finish_plan(self, new_plan):
        """Take this rank's share."""
        if self._enable_plan_caching:
            self._cached_save_plan[self._cached_plans_key] = self._local_plan
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item):
        """The tensor or the octets of an item."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index):
        """The value that an index means.

        Args:
            index: a ``MetadataIndex``.
        """
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item, object):
        """What is written for a value.

        Args:
            write_item: a ``WriteItem``.
            object: the value.
        """
        if write_item.type is not WriteItemType.BYTE_IO:
            return object
        stream = io.BytesIO()
        rl.save(object, stream)
        return stream


class DefaultLoadPlanner(LoadPlanner):
    """Reads what this rank has room for, from whatever chunks are stored.

    Args:
        flatten_state_dict: whether values in nested dicts are read each for itself.
        flatten_sharded_tensors: without effect: there are no tensors in shards.
        allow_partial_load: whether values that the checkpoint lacks stay as they are.
    """

    def __init__(
        self,
        flatten_state_dict=True,
        flatten_sharded_tensors=True,
        allow_partial_load=False,
    ):
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Begin with a state, and what the checkpoint says."""
        init_state_dict(state_dict)
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata = state_dict, metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self):
        """What this rank reads."""
        return create_default_local_load_plan(
            self.state_dict, self.metadata, not self.allow_partial_load
        )

    def create_global_plan(self, global_plan):
        """The plans as they are: ranks read each for itself."""
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, new_plan):
        """The plan as it is."""
        return new_plan

    def load_bytes(self, read_item, value):
        """Take a value that is no tensor; ``load`` reads it without running a program."""
        name = read_item.dest_index.fqn
        found = rl.load(value)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], found)
        else:
            self.state_dict[name] = found

    def resolve_tensor(self, read_item):
        """The part of a tensor that an item fills."""
        tensor = self.lookup_tensor(read_item.dest_index)
        return self.transform_tensor(read_item, tensor)

    def commit_tensor(self, read_item, tensor):
        """Nothing is left to do: the part is a view."""

    def lookup_tensor(self, index):
        """The tensor, or this rank's part, that an index means.

        Args:
            index: a ``MetadataIndex``.
        """
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item, tensor):
        """The box of it that an item fills.

        Args:
            read_item: a ``ReadItem``.
            tensor: the tensor.
        """
        return narrow_tensor_by_index(tensor, read_item.dest_offsets, read_item.lengths)


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty dict with all that the checkpoint has, or with some names.

    Args:
        keys: the names, or beginnings of names; all without it.
    """

    def __init__(self, keys=None, *args, **kwargs):
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _is_wanted(self, name, metadata):
        if self.keys is None or name in self.keys:
            return True
        path = (metadata.planner_data or {}).get(name, ())
        return any(
            ".".join(map(str, path[:length])) in self.keys
            for length in range(1, len(path) + 1)
        )

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Begin with an empty dict."""
        if state_dict:
            raise AssertionError("not state_dict")
        paths = metadata.planner_data or {}
        for name, value in metadata.state_dict_metadata.items():
            if not self._is_wanted(name, metadata):
                continue
            if isinstance(value, TensorStorageMetadata):
                value = rl.empty(value.size, dtype=value.properties.dtype)
            set_element(state_dict, paths.get(name, (name,)), value)
        super().set_up_planner(state_dict, metadata, is_coordinator)


def create_default_local_load_plan(state_dict, metadata, strict=True):
    """What fills this rank's values.

    Args:
        state_dict: values by name.
        metadata: the checkpoint's.
        strict: whether all of them must be there.

    Raises:
        RuntimeError: one is not.
        ValueError: a tensor has other sizes.
    """
    items = []
    for fqn, value in state_dict.items():
        stored = metadata.state_dict_metadata.get(fqn)
        if stored is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")
            continue
        if (
            isinstance(stored, TensorStorageMetadata)
            and isinstance(value, rl.Tensor)
            and stored.size != value.shape
        ):
            raise ValueError(
                f"Size mismatch between saved {stored.size} and current: "
                f"{value.shape} for {fqn}"
            )
        items += create_read_items(fqn, stored, value)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans):
    """The plans as they are.

    Args:
        all_plans: each rank's.
    """
    return all_plans


def create_default_local_save_plan(state_dict, is_coordinator):
    """What this rank could write: all it has.

    Args:
        state_dict: values by name.
        is_coordinator: without effect here.
    """
    items = []
    for fqn, value in state_dict.items():
        items += create_write_items(fqn, value)
    return SavePlan(items)


def deduplicated(all_plans, lowest_rank=False):
    """The plans with each value, and each chunk, in one of them.

    Args:
        all_plans: each rank's.
        lowest_rank: whether that is the lowest rank that has it, or the one that has
            least to write yet.
    """
    owners, items, load = defaultdict(list), {}, [0] * len(all_plans)
    for rank, plan in enumerate(all_plans):
        for item in plan.items:
            owners[item.index].append(rank)
            items[item.index] = item
    chosen = {}
    for index, ranks in owners.items():
        rank = min(ranks) if lowest_rank else min(ranks, key=load.__getitem__)
        chosen[index] = rank
        load[rank] += items[index].tensor_storage_size() or 1
    return [
        dataclasses.replace(
            plan, items=[item for item in plan.items if chosen[item.index] == rank]
        )
        for rank, plan in enumerate(all_plans)
    ]


def create_default_global_save_plan(all_plans, rewrite_index_hints=True):
    """The plans with the number of each chunk, and the metadata of all.

    Args:
        all_plans: each rank's, with nothing twice.
        rewrite_index_hints: whether numbers are put into the items.
    """
    found, plans = {}, []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name, data = item.index.fqn, item.tensor_data
            if item.type is not WriteItemType.SHARD and name in found:
                raise AssertionError(f"{name}: two ranks write it")
            if item.type is WriteItemType.BYTE_IO:
                found[name] = BytesStorageMetadata()
                items.append(item)
                continue
            tensor = found.setdefault(
                name, TensorStorageMetadata(data.properties, data.size, [])
            )
            if rewrite_index_hints:
                index = dataclasses.replace(item.index, index=len(tensor.chunks))
                item = dataclasses.replace(item, index=index)
            items.append(item)
            tensor.chunks.append(data.chunk)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(found)


def plan_faults(plans, metadata):
    """What is wrong with the chunks of tensors: out of bounds, twice, or missing.

    Args:
        plans: all ranks'.
        metadata: what they come to.
    """
    faults = []
    for name, tensor in metadata.state_dict_metadata.items():
        if isinstance(tensor, BytesStorageMetadata) or not len(tensor.size):
            continue
        chunks = tensor.chunks
        for chunk in chunks:
            inside = all(
                offset >= 0 and size >= 0 and offset + size <= whole
                for offset, size, whole in zip(chunk.offsets, chunk.sizes, tensor.size)
            )
            if not inside:
                faults.append(
                    f"key:{name} has out of bounds chunk: tensor-size:{tensor.size} "
                    f"chunk: {chunk}"
                )
        faults += _overlaps(name, chunks)
        stored = sum(math.prod(chunk.sizes) for chunk in chunks)
        if len(plans) > 1 and stored != math.prod(tensor.size):
            faults.append(
                f"key:{name} invalid fill tensor-volume: {math.prod(tensor.size)} "
                f"chunks-volume: {stored}"
            )
    return faults


def _overlaps(name, chunks):
    """Pairs of chunks with elements in common, met in the order of their beginnings."""
    found, active = [], []
    for chunk in sorted(chunks, key=lambda each: tuple(each.offsets)):
        start = chunk.offsets[0]
        active = [each for each in active if each.offsets[0] + each.sizes[0] > start]
        found += [
            f"key:{name} has overlapping chunks: {chunk} {other}"
            for other in active
            if boxes_overlap(chunk, other)
        ]
        active.append(chunk)
    return found
