"""Tensors taken apart for Python's pickle, and copied with all that they hold."""

import copy

from rushlight.core import interop
from rushlight.core.storage import UntypedStorage
from rushlight.core.tensor import Tensor
from rushlight.core.window import make_tensor


def reduce_tensor(tensor):
    """How Python's pickle takes a tensor apart: bytes, type, sizes and attributes."""
    data = None
    if tensor.device.type != "meta":
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
        data = bytes(interop.buffer_of(plain))
    geometry = tuple(tensor.shape), tensor.dtype, tensor.requires_grad
    return rebuild, (type(tensor), data, *geometry), dict(tensor.__dict__) or None


def rebuild(kind, data, shape, dtype, requires_grad):
    """The tensor that ``reduce_tensor`` took apart."""
    if data is None:
        strides = interop.row_major_strides(shape)
        size = dtype.itemsize * (shape[0] * strides[0] if shape else 1)
        storage = UntypedStorage(size, device="meta")
        tensor = make_tensor(storage, shape, strides, 0, dtype)
    else:
        tensor = interop.from_buffer(bytearray(data), dtype, shape)
    if kind is not Tensor:
        tensor = Tensor._make_subclass(kind, tensor)
    return tensor.requires_grad_(requires_grad)


def copy_storage(storage, memo):
    """The storage's copy; the same one for every tensor of one ``deepcopy``."""
    if id(storage) not in memo:
        meta = storage.device.type == "meta"
        memo[id(storage)] = (
            UntypedStorage(storage.nbytes(), device="meta") if meta else storage.clone()
        )
        memo.setdefault(id(memo), []).append(storage)  # its id must stay its own
    return memo[id(storage)]


def deepcopy_tensor(tensor, memo):
    """A copy with a storage of its own; copies of views of one storage share one.

    Raises:
        RuntimeError: the tensor was computed: its history is not copied.
    """
    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the "
            "deepcopy protocol at the moment. If you were attempting to deepcopy a "
            "module, this may be because of a tensor stored in it that has a grad_fn: "
            "detach it first."
        )
    copied = make_tensor(
        copy_storage(tensor.untyped_storage(), memo), tuple(tensor.shape),
        tuple(tensor.stride()), tensor.storage_offset(), tensor.dtype,
    )  # fmt: skip
    copied = copied.conj() if tensor.is_conj() else copied
    copied = copied._neg_view() if tensor.is_neg() else copied
    if type(tensor) is not Tensor:
        copied = Tensor._make_subclass(type(tensor), copied)
    memo[id(tensor)] = copied
    copied.requires_grad_(tensor.requires_grad)
    if tensor.grad is not None:
        copied.grad = deepcopy_tensor(tensor.grad, memo)
    if tensor.__dict__:
        copied.__dict__.update(copy.deepcopy(tensor.__dict__, memo))
    return copied
