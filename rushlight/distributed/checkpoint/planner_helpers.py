"""Items of plans, from values and from what a checkpoint says of them."""

import io

import rushlight as rl
from rushlight.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from rushlight.distributed.checkpoint.planner import (
    BytesIOWriteData,
    LoadItemType,
    ReadItem,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from rushlight.distributed.checkpoint.resharding import boxes_overlap, overlap
from rushlight.distributed.tensor import DTensor
from rushlight.distributed.tensor._utils import compute_local_shape_and_global_offset

__all__ = [
    "create_read_items",
    "create_read_items_for_chunk_list",
    "create_write_items",
    "find_state_dict_object",
    "init_state_dict",
    "local_chunks",
    "narrow_tensor_by_index",
]


def local_chunks(value):
    """The boxes of a tensor that this rank has.

    Args:
        value: a tensor.

    Raises:
        ValueError: it is none.
    """
    if hasattr(value, "__create_chunk_list__"):
        return value.__create_chunk_list__()
    if isinstance(value, DTensor):
        if value.device_mesh.get_coordinate() is None:
            return []
        sizes, offsets = compute_local_shape_and_global_offset(
            value.shape, value.device_mesh, value.placements
        )
        return [ChunkStorageMetadata(rl.Size(offsets), rl.Size(sizes))]
    if isinstance(value, rl.Tensor):
        return [ChunkStorageMetadata(rl.Size([0] * value.dim()), value.shape)]
    raise ValueError(
        "Unsupported Type, expecting one of [Tensor, DTensor, ShardedTensor] "
        f",but got {type(value)}"
    )


def create_write_items(fqn, value):
    """What this rank would write of a value.

    Args:
        fqn: its name.
        value: a tensor, or anything that ``save`` takes.
    """
    if hasattr(value, "__create_write_items__"):
        return value.__create_write_items__(fqn, value)
    if not isinstance(value, rl.Tensor):
        index = MetadataIndex(fqn)
        return [WriteItem(index, WriteItemType.BYTE_IO, BytesIOWriteData(0))]
    spread = isinstance(value, DTensor)
    kind = WriteItemType.SHARD if spread else WriteItemType.TENSOR
    own = value.to_local() if spread else value
    properties = TensorProperties.create_from_tensor(own)
    return [
        WriteItem(
            index=MetadataIndex(fqn, chunk.offsets),
            type=kind,
            tensor_data=TensorWriteData(chunk, properties, value.shape),
        )
        for chunk in local_chunks(value)
    ]


def create_read_items_for_chunk_list(fqn, checkpoint_md, local_chunks):
    """What fills the boxes of a tensor from the chunks that are stored.

    Args:
        fqn: its name.
        checkpoint_md: what the checkpoint says of it, a ``TensorStorageMetadata``.
        local_chunks: the boxes.
    """
    items = []
    for number, wanted in enumerate(local_chunks):
        for index, stored in enumerate(checkpoint_md.chunks):
            if not boxes_overlap(stored, wanted):
                continue
            storage_offsets, dest_offsets, lengths = overlap(stored, wanted)
            items.append(
                ReadItem(
                    type=LoadItemType.TENSOR,
                    dest_index=MetadataIndex(fqn, wanted.offsets, number),
                    dest_offsets=rl.Size(dest_offsets),
                    storage_index=MetadataIndex(fqn, stored.offsets, index),
                    storage_offsets=rl.Size(storage_offsets),
                    lengths=rl.Size(lengths),
                )
            )
    return items


def create_read_items(fqn, metadata, value):
    """What this rank reads to fill a value.

    Args:
        fqn: its name.
        metadata: what the checkpoint says of it.
        value: what is filled.

    Raises:
        ValueError: the checkpoint has a tensor, and the value is none.
    """
    if isinstance(metadata, BytesStorageMetadata):
        index, one = MetadataIndex(fqn), rl.Size((0,))
        return [ReadItem(LoadItemType.BYTE_IO, index, one, index, one, one)]
    try:
        chunks = local_chunks(value)
    except ValueError as error:
        raise ValueError(
            f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but "
            f"found {type(metadata)}"
        ) from error
    return create_read_items_for_chunk_list(fqn, metadata, chunks)


def find_state_dict_object(state_dict, index):
    """The value, or this rank's part of the tensor, that an index means.

    Args:
        state_dict: values by name.
        index: a ``MetadataIndex``.

    Raises:
        ValueError: there is none.
    """
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    value = state_dict[index.fqn]
    if hasattr(value, "__get_tensor_shard__"):
        return value.__get_tensor_shard__(index)
    if isinstance(value, DTensor):
        return value.to_local()
    if isinstance(value, rl.Tensor):
        if index.offset is not None and any(index.offset):
            raise ValueError(
                f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: "
                f"'{index.offset}'"
            )
    return value


def narrow_tensor_by_index(tensor, offsets, sizes):
    """A box of a tensor, as a view.

    Args:
        tensor: the tensor.
        offsets: where the box begins in each dimension.
        sizes: how long it is.
    """
    for dim, (offset, size) in enumerate(zip(offsets, sizes)):
        if size < tensor.shape[dim]:
            tensor = tensor.narrow(dim, offset, size)
    return tensor


def init_state_dict(value):
    """The same values, with memory for tensors that are on ``meta``.

    Args:
        value: nested dicts, lists and tuples; dicts are changed in place.
    """
    if isinstance(value, DTensor):
        if value.device.type != "meta":
            return value
        own = rl.empty_like(value.to_local(), device=value.device_mesh.device_type)
        return DTensor.from_local(
            own,
            value.device_mesh,
            value.placements,
            run_check=False,
            shape=value.size(),
            stride=value.stride(),
        )
    if isinstance(value, rl.Tensor):
        return rl.empty_like(value, device="cpu") if value.is_meta else value
    if isinstance(value, dict):
        for key, inner in value.items():
            value[key] = init_state_dict(inner)
    elif isinstance(value, (list, tuple)) and not isinstance(value, io.BytesIO):
        made = [init_state_dict(inner) for inner in value]
        return value if all(a is b for a, b in zip(made, value)) else type(value)(made)
    return value
