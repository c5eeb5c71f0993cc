"""Memory shared with other libraries by DLPack, an agreed description of an array.

Tensors of the host and of NVIDIA's devices are lent and borrowed without a copy
(https://dmlc.github.io/dlpack/latest). For a device, who takes a tensor names its queue of
work, and that waits for what the current queue was given before.
"""

import cython
from cython.cimports.cpython.pycapsule import (
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyCapsule_New,
    PyCapsule_SetName,
)
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.rushlight.core.device import (
    CPU_DEVICE,
    KIND_CUDA,
    Device,
    as_device,
)
from cython.cimports.rushlight.core.dlpack import (
    DLDataType,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLTensor,
)
from cython.cimports.rushlight.core.dtype import DType
from cython.cimports.rushlight.core.keys import DEFERRED, KEY_CONJUGATE, RECORDING
from cython.cimports.rushlight.core.state import notify_readers, state
from cython.cimports.rushlight.core.storage import Storage, fetch, following, wrap
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.io.interop import Loan, check_on_host, lend

from rushlight.core.device import backend_for
from rushlight.core.dtype import all_dtypes
from rushlight.core.layout import strided
from rushlight.core.window import make_tensor
from rushlight.io.interop import row_major_strides

_DTYPES = all_dtypes()
# DLPack's (code, bits) -> rushlight's name.
DLPACK_TYPES = {
    (6, 8): "bool",
    (1, 8): "uint8",
    (1, 16): "uint16",
    (1, 32): "uint32",
    (1, 64): "uint64",
    (0, 8): "int8",
    (0, 16): "int16",
    (0, 32): "int32",
    (0, 64): "int64",
    (2, 16): "float16",
    (2, 32): "float32",
    (2, 64): "float64",
    (4, 16): "bfloat16",
    (5, 64): "complex64",
    (5, 128): "complex128",
}
_TO_DLPACK = {name: pair for pair, name in DLPACK_TYPES.items()}
CPU, CUDA, CUDA_HOST = 1, 2, 3
DEFAULT_QUEUE = 1  # of a device, in the array API


@cython.cfunc
@cython.exceptval(check=False)
@cython.with_gil
def release(managed: cython.pointer(DLManagedTensor)) -> cython.void:
    free(managed.dl_tensor.shape)
    Py_DECREF(cython.cast(object, managed.manager_ctx))
    free(managed)


@cython.cfunc
@cython.exceptval(check=False)
@cython.with_gil
def release_versioned(managed: cython.pointer(DLManagedTensorVersioned)) -> cython.void:
    free(managed.dl_tensor.shape)
    Py_DECREF(cython.cast(object, managed.manager_ctx))
    free(managed)


@cython.cfunc
@cython.exceptval(check=False)
def drop_capsule(held: object) -> cython.void:
    """Frees what nobody has taken out of the capsule; a taken one has another name."""
    managed: cython.pointer(DLManagedTensor)
    versioned: cython.pointer(DLManagedTensorVersioned)
    if PyCapsule_IsValid(held, b"dltensor"):
        managed = cython.cast(
            cython.pointer(DLManagedTensor), PyCapsule_GetPointer(held, b"dltensor")
        )
        managed.deleter(managed)
    elif PyCapsule_IsValid(held, b"dltensor_versioned"):
        versioned = cython.cast(
            cython.pointer(DLManagedTensorVersioned),
            PyCapsule_GetPointer(held, b"dltensor_versioned"),
        )
        versioned.deleter(versioned)


@cython.cfunc
@cython.exceptval(-1)
def describe(tensor: Tensor, out: cython.pointer(DLTensor)) -> cython.int:
    """Fills in a DLPack tensor; its sizes and strides are a block to be freed."""
    if state().included & RECORDING:
        notify_readers()
    if following:
        fetch(tensor.storage)
    pair = _TO_DLPACK[tensor.dtype_.name]
    i: cython.int
    out.data = tensor.pointer()
    room: cython.pointer(int64_t) = cython.cast(
        cython.pointer(int64_t), calloc(2 * tensor.ndim_ + 1, cython.sizeof(int64_t))
    )
    if room == cython.NULL:
        raise MemoryError("no memory for a tensor's sizes")
    for i in range(tensor.ndim_):
        room[i] = tensor.sizes[i]
        room[tensor.ndim_ + i] = tensor.strides[i]
    place = place_of(tensor)
    out.device.device_type = place[0]
    out.device.device_id = place[1]
    out.ndim = tensor.ndim_
    out.dtype.code = pair[0]
    out.dtype.bits = pair[1]
    out.dtype.lanes = 1
    out.shape = room
    out.strides = room + tensor.ndim_
    out.byte_offset = 0
    return 0


@cython.cfunc
def place_of(tensor: Tensor) -> tuple:
    """DLPack's kind and number of the memory that a tensor is in.

    Raises:
        TypeError: it is neither the host's nor an NVIDIA device's.
    """
    device: Device = tensor.storage.device
    if device.kind == KIND_CUDA:
        return CUDA, device.index
    check_on_host(tensor.storage, "DLPack")
    return CPU, 0


def dlpack_device(tensor: Tensor) -> tuple:
    """DLPack's numbers for the tensor's device."""
    if tensor.keys & DEFERRED:
        raise BufferError("Can't export tensors with the conjugate or negative bit set")
    return place_of(tensor)


def share_by_dlpack(
    tensor: Tensor, stream=-1, max_version=None, dl_device=None, copy=None
):
    """``Tensor.__dlpack__``: `to_dlpack` of a tensor whose memory is all there is to it.

    Raises:
        BufferError: the tensor requires a gradient, puts off its conjugate, is sparse,
            has a type that DLPack lacks, or is wanted on another device.
        TypeError: the queue of a device is no number.
    """
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if tensor.wants_grad:
        raise BufferError(
            "Can't export tensors that require gradient, use tensor.detach()"
        )
    if tensor.keys & (1 << KEY_CONJUGATE):
        raise BufferError("Can't export tensors with the conjugate bit set")
    if tensor.layout is not strided:
        raise BufferError("Can't export tensors with layout other than torch.strided")
    device: Device = tensor.storage.device
    if device.kind == KIND_CUDA and stream != -1:
        if stream == 2:
            raise BufferError("per-thread default stream is not supported.")
        handle = 0 if stream is None or stream == DEFAULT_QUEUE else stream
        backend_for(device).streams.order(device, handle)
    return to_dlpack(tensor, max_version, dl_device, copy)


def to_dlpack(tensor: Tensor, max_version=None, dl_device=None, copy=None):
    """A capsule that lends the tensor's memory to the library that takes it.

    Raises:
        BufferError: the tensor has a type that DLPack lacks, or is wanted on another
            device.
        RuntimeError: it is sparse, and has no memory of its own.
    """
    if tensor.layout is not strided:
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage"
        )
    if tensor.dtype_.name not in _TO_DLPACK:
        raise BufferError(f"{tensor.dtype_.name} tensors cannot be exported by DLPack")
    place = place_of(tensor)
    if dl_device is not None and tuple(dl_device) != place:
        raise BufferError(
            f"to_dlpack: the tensor is on {tensor.storage.device}, which DLPack calls "
            f"{place}, not on {tuple(dl_device)}"
        )
    if copy:
        tensor = tensor.clone()
    if max_version is not None and max_version[0] >= 1:
        return versioned_capsule(tensor)
    managed: cython.pointer(DLManagedTensor) = cython.cast(
        cython.pointer(DLManagedTensor), calloc(1, cython.sizeof(DLManagedTensor))
    )
    if managed == cython.NULL:
        raise MemoryError("no memory for a DLPack tensor")
    describe(tensor, cython.address(managed.dl_tensor))
    managed.deleter = release
    loan: Loan = lend(tensor.storage)
    managed.manager_ctx = cython.cast(cython.p_void, loan)
    Py_INCREF(loan)
    return PyCapsule_New(managed, b"dltensor", drop_capsule)


@cython.cfunc
def versioned_capsule(tensor: Tensor) -> object:
    managed: cython.pointer(DLManagedTensorVersioned) = cython.cast(
        cython.pointer(DLManagedTensorVersioned),
        calloc(1, cython.sizeof(DLManagedTensorVersioned)),
    )
    if managed == cython.NULL:
        raise MemoryError("no memory for a DLPack tensor")
    describe(tensor, cython.address(managed.dl_tensor))
    managed.version.major = 1
    managed.deleter = release_versioned
    loan: Loan = lend(tensor.storage)
    managed.manager_ctx = cython.cast(cython.p_void, loan)
    Py_INCREF(loan)
    return PyCapsule_New(managed, b"dltensor_versioned", drop_capsule)


@cython.final
@cython.cclass
class Borrowed:
    """Another library's memory, given back when the last tensor over it is gone."""

    managed: cython.pointer(DLManagedTensor)
    versioned: cython.pointer(DLManagedTensorVersioned)

    def __dealloc__(self):
        if self.managed != cython.NULL and self.managed.deleter != cython.NULL:
            self.managed.deleter(self.managed)
        if self.versioned != cython.NULL and self.versioned.deleter != cython.NULL:
            self.versioned.deleter(self.versioned)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of any array that speaks DLPack, or of its capsule.

    Args:
        device: where the tensor is to be; where the array is by default.
        copy: give it memory of its own.
        ext_tensor: the array, or its capsule.

    Raises:
        BufferError: the array is in memory of another kind, or of a type that tensors lack.
        RuntimeError: there is no such device.

    >>> import numpy
    >>> import rushlight as rl
    >>> rl.from_dlpack(numpy.arange(3))
    tensor([0, 1, 2])
    """
    shared = over_dlpack(ext_tensor)
    if device is not None:
        shared = shared.to(device)
    return shared.clone() if copy else shared


@cython.cfunc
def over_dlpack(source: object):
    capsule = source
    if hasattr(source, "__dlpack__"):
        asked = queue_for(source)
        try:
            capsule = source.__dlpack__(max_version=(1, 0), **asked)
        except TypeError:
            capsule = source.__dlpack__(**asked)
    held: Borrowed = Borrowed.__new__(Borrowed)
    if PyCapsule_IsValid(capsule, b"dltensor"):
        held.managed = cython.cast(
            cython.pointer(DLManagedTensor), PyCapsule_GetPointer(capsule, b"dltensor")
        )
        PyCapsule_SetName(capsule, b"used_dltensor")
        return borrow(cython.address(held.managed.dl_tensor), held)
    if PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        held.versioned = cython.cast(
            cython.pointer(DLManagedTensorVersioned),
            PyCapsule_GetPointer(capsule, b"dltensor_versioned"),
        )
        PyCapsule_SetName(capsule, b"used_dltensor_versioned")
        if held.versioned.version.major != 1:
            raise BufferError(
                "from_dlpack: DLPack version "
                f"{held.versioned.version.major} is not known"
            )
        return borrow(cython.address(held.versioned.dl_tensor), held)
    raise RuntimeError(
        "from_dlpack: expected an array with __dlpack__, or a DLPack capsule that has "
        f"not been used yet\n  source: {type(source).__name__}"
    )


@cython.cfunc
def queue_for(source: object) -> dict:
    """What an array on a device is told: the queue that is to wait for its own."""
    place = (
        source.__dlpack_device__() if hasattr(source, "__dlpack_device__") else (CPU, 0)
    )
    if place[0] != CUDA:
        return {}
    device = as_device(f"cuda:{place[1]}")
    return {
        "stream": backend_for(device).streams.current_stream(device).handle
        or DEFAULT_QUEUE
    }


@cython.cfunc
def borrow(lent: cython.pointer(DLTensor), owner: object) -> object:
    """The tensor over memory that ``owner`` will give back."""
    kind: DLDataType = lent.dtype
    name = DLPACK_TYPES.get((kind.code, kind.bits))
    device: Device = CPU_DEVICE
    if lent.device.device_type == CUDA:
        device = as_device(f"cuda:{lent.device.device_id}")
    elif lent.device.device_type not in (CPU, CUDA_HOST):
        raise BufferError(
            f"from_dlpack: device type {lent.device.device_type} is neither host memory "
            "nor a card's"
        )
    if name is None or kind.lanes != 1:
        raise BufferError(
            f"from_dlpack: no data type has DLPack's code {kind.code}, {kind.bits} "
            f"bits and {kind.lanes} lanes"
        )
    shape = [lent.shape[i] for i in range(lent.ndim)]
    strides = row_major_strides(shape)
    if lent.strides != cython.NULL:
        strides = [lent.strides[i] for i in range(lent.ndim)]
    dtype: DType = _DTYPES[name]
    reach = 0
    if 0 not in shape:
        reach = 1 + sum([(n - 1) * step for n, step in zip(shape, strides)])
    start: cython.p_char = cython.cast(cython.p_char, lent.data) + lent.byte_offset
    storage: Storage = wrap(start, reach * dtype.itemsize, owner, device)
    return make_tensor(storage, shape, strides, 0, dtype)
