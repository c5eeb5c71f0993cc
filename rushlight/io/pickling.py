"""Tensors taken apart for Python's pickle, and copied with all that they hold."""

import copy
import copyreg

from rushlight.core import sparse
from rushlight.core.facts import with_requires_grad
from rushlight.core.layout import sparse_coo, strided
from rushlight.core.state import is_grad_enabled, set_grad_enabled
from rushlight.core.storage import UntypedStorage
from rushlight.core.subclass import dispatched, is_absent, make_wrapper
from rushlight.core.tensor import Tensor
from rushlight.core.warning import warn
from rushlight.core.window import make_tensor


def own_attributes(tensor):
    """What programs have set on a tensor: its tangent stays where it is."""
    return {name: one for name, one in vars(tensor).items() if name != "_tangent"}


def reduce_tensor(tensor):
    """How Python's pickle takes a tensor apart: a window on its storage.

    Tensors of one pickle that share a storage share one when they come back.
    """
    warn_of_hooks(tensor)
    wanted = tensor.requires_grad
    attributes = own_attributes(tensor) or None
    kind = type(tensor)
    if is_absent(tensor) and kind is not Tensor and tensor.layout is strided:
        facts = tensor.storage_offset(), tensor.dtype, tensor.device, wanted
        return (
            rebuild_wrapper,
            (kind, tensor.shape, tensor.stride(), *facts),
            attributes,
        )
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_quantized:
        parts = sparse.parts_of(tensor)
        facts = parts.integers, parts.scale, parts.zero_point, parts.axis
        return rebuild_quantized, facts, attributes
    if tensor.layout is not strided:
        return rebuild_sparse, (*sparse_parts(tensor), wanted), attributes
    geometry = tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())
    parts = kind, tensor.untyped_storage(), *geometry, tensor.dtype, wanted
    return rebuild, parts, attributes


def rebuild_wrapper(kind, sizes, strides, offset, dtype, device, requires_grad):
    """A tensor of a type, without memory of its own; its attributes come after it."""
    made = make_wrapper(
        kind, tuple(sizes), tuple(strides), offset, dtype, strided, device
    )
    return with_requires_grad(made, requires_grad)


def sparse_parts(tensor):
    """Layout, sizes and parts of a sparse tensor, as `rebuild_sparse` takes them."""
    tensor = tensor.detach()
    parts = sparse.parts_of(tensor)
    names = [name for name in type(parts).__slots__ if name != "coalesced"]
    found = {name: getattr(parts, name) for name in names}
    return tensor.layout, tuple(tensor.shape), found, getattr(parts, "coalesced", None)


def rebuild_sparse(layout, sizes, parts, coalesced, requires_grad):
    """The sparse tensor that ``reduce_tensor`` took apart."""
    if layout is sparse_coo:
        result = _make["_sparse_coo_tensor_unsafe"](
            parts["indices"], parts["values"], list(sizes), is_coalesced=coalesced
        )
    else:
        result = _make["_sparse_compressed_tensor_unsafe"](
            parts["compressed"],
            parts["plain"],
            parts["values"],
            list(sizes),
            layout=layout,
        )
    return with_requires_grad(result, requires_grad)


def rebuild_quantized(integers, scale, zero_point, axis):
    """The quantized tensor that ``reduce_tensor`` took apart."""
    if axis is None:
        return _make["_make_per_tensor_quantized_tensor"](integers, scale, zero_point)
    return _make["_make_per_channel_quantized_tensor"](
        integers, scale, zero_point, axis
    )


_make: dict = {}  # operators by name: they come with a higher layer


def bind_makers(makers):
    """Name the operators that make sparse tensors of parts."""
    _make.update(makers)


def reduce_storage(storage):
    """How Python's pickle takes a storage apart: its bytes, or how many on ``meta``."""
    if not storage.device.has_memory:
        return rebuild_storage, (storage.nbytes(), storage.device)
    where = None if storage.device.on_host else storage.device
    return rebuild_storage, (storage.bytes(), where)


def rebuild_storage(contents, device):
    """The storage that ``reduce_storage`` took apart, on the device where it was."""
    if device is None or not device.has_memory:
        return UntypedStorage(contents, device=device)
    here, device_copy = (
        UntypedStorage(contents),
        UntypedStorage(len(contents), device=device),
    )
    device_copy.copy_(here)
    return device_copy


copyreg.pickle(UntypedStorage, reduce_storage)


def warn_of_hooks(tensor):
    """Say of hooks, which no file can hold, that they stay behind."""
    for hook in (tensor._backward_hooks or {}).values():
        if not getattr(hook, "__torch_unserializable__", False):
            warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is "
                "expected, you can decorate the function with "
                "@rushlight.utils.hooks.unserializable_hook to suppress this warning"
            )


def rebuild(kind, storage, offset, sizes, strides, dtype, requires_grad):
    """The tensor that ``reduce_tensor`` took apart."""
    tensor = make_tensor(storage, sizes, strides, offset, dtype)
    if kind is not Tensor:
        tensor = Tensor._make_subclass(kind, tensor)
    return with_requires_grad(tensor, requires_grad)


def copy_storage(storage, memo):
    """The storage's copy; the same one for every tensor of one ``deepcopy``."""
    if id(storage) not in memo:
        meta = not storage.device.has_memory
        memo[id(storage)] = (
            UntypedStorage(storage.nbytes(), device="meta") if meta else storage.clone()
        )
        memo.setdefault(id(memo), []).append(storage)  # its id must stay its own
    return memo[id(storage)]


def cloned_wrapper(tensor):
    """A copy of a tensor without memory, as its type's handler makes it.

    Raises:
        RuntimeError: the handler of ``clone`` gives a tensor of another type.
    """
    recording = is_grad_enabled()
    set_grad_enabled(False)
    try:
        copied = tensor.clone()
    finally:
        set_grad_enabled(recording)
    if type(copied) is not type(tensor):
        raise RuntimeError(
            "The default implementation of __deepcopy__() for wrapper subclasses only "
            "works for subclass types that properly implement clone(), and whose clone() "
            f"gives the same type: {type(tensor).__name__} gives "
            f"{type(copied).__name__}\n"
            "  remedy: handle aten.clone.default in __torch_dispatch__, or define "
            "__deepcopy__"
        )
    return copied


def _of_own_class(tensor, copied):
    """A copy as an instance of the tensor's class, which has to make one of itself.

    Raises:
        RuntimeError: ``new_empty`` gives a tensor of another class.
    """
    fresh = tensor.new_empty([])
    if type(fresh) is not type(tensor):
        raise RuntimeError(
            "The default implementation of __deepcopy__() for non-wrapper subclasses "
            "only works for subclass types that implement new_empty() and for which it "
            f"returns an instance of the same subclass, but of {type(tensor).__name__} "
            f"it returns {type(fresh).__name__}: implement it so, or __deepcopy__() "
            "itself"
        )
    return fresh.set_(copied)


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
    if dispatched(tensor) and is_absent(tensor):
        copied = cloned_wrapper(tensor)
    elif tensor.layout is not strided or tensor.is_quantized:
        plain = type(tensor) is Tensor
        copied = tensor.detach().clone() if plain else cloned_wrapper(tensor)
    else:
        copied = make_tensor(
            copy_storage(tensor.untyped_storage(), memo), tuple(tensor.shape),
            tuple(tensor.stride()), tensor.storage_offset(), tensor.dtype,
        )  # fmt: skip
    copied = copied.conj() if tensor.is_conj() else copied
    copied = copied._neg_view() if tensor.is_neg() else copied
    if type(tensor) is not type(copied):
        copied = _of_own_class(tensor, copied)
    memo[id(tensor)] = copied
    with_requires_grad(copied, tensor.requires_grad)
    if tensor.grad is not None:
        copied.grad = deepcopy_tensor(tensor.grad, memo)
    attributes = own_attributes(tensor)
    if attributes:
        copied.__dict__.update(copy.deepcopy(attributes, memo))
    return copied
