"""What tensors say of themselves, and nested lists of their elements."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.dtype import COMPLEX, FLOATING
from cython.cimports.rushlight.core.elements import read_element
from cython.cimports.rushlight.core.geometry import is_channels_last, wrap_dim
from cython.cimports.rushlight.core.keys import (
    DEFERRED,
    KEY_ABSENT,
    KEY_BATCHED,
    KEY_PYTHON,
)
from cython.cimports.rushlight.core.state import notify_readers
from cython.cimports.rushlight.core.storage import Storage
from cython.cimports.rushlight.core.tensor import Tensor

from rushlight.core.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    preserve_format,
    sparse_coo,
    strided,
)
from rushlight.core.naming import checked


def storage_of(tensor: Tensor) -> Storage:
    """What ``untyped_storage`` gives, of a tensor that stands for another as well."""
    return tensor.storage


def with_requires_grad(tensor: Tensor, wanted=True) -> Tensor:
    """A fresh tensor whose gradients are wanted or not; no transform refuses this."""
    if wanted:
        tensor.requires_grad = True
    return tensor


def bump_version(tensor: Tensor):
    """Counts an in-place change that no operator made."""
    tensor.bump_version()


@cython.cfunc
@cython.exceptval(-1, check=False)
def without_strides(self: Tensor) -> cython.bint:
    """Whether a tensor is sparse; what a wrapper says of itself goes for it."""
    no_memory: cython.bint = (self.keys >> KEY_ABSENT) & 1
    if not no_memory or (self.keys >> KEY_PYTHON) & 1:
        return False
    return self.layout is not strided


def is_contiguous(self: Tensor, memory_format=contiguous_format):
    """Whether elements lie row by row (or in ``memory_format``)."""
    if without_strides(self):
        return refuse_compressed(self, "is_contiguous")
    if memory_format is contiguous_format or memory_format is preserve_format:
        return self.row_major
    if memory_format is channels_last:
        return self.ndim_ == 4 and is_channels_last(4, self.sizes, self.strides)
    if memory_format is channels_last_3d:
        return self.ndim_ == 5 and is_channels_last(5, self.sizes, self.strides)
    raise RuntimeError(f"is_contiguous does not support memory format {memory_format}")


def refuse_compressed(self: Tensor, what):
    """False of tensors of coordinates, which have places in no order.

    Raises:
        RuntimeError: the tensor is a compressed one.
    """
    if self.layout is sparse_coo:
        return False
    name = str(self.layout).rpartition("_")[2].upper()
    raise RuntimeError(f"Sparse {name} tensors do not have {what}")


def stride(self: Tensor, dim=None):
    """All strides in elements, or the stride of one dimension."""
    if without_strides(self):
        refuse_compressed(self, "strides")
        return (0,) * self.ndim_ if dim is None else 0
    if dim is None:
        return tuple([self.strides[i] for i in range(self.ndim_)])
    return self.strides[wrap_dim(checked("stride", dim), self.ndim_, False)]


_ADDRESS = Tensor.data_ptr


def data_ptr(self: Tensor):
    """The address of the first element; 0 where there is none.

    Raises:
        RuntimeError: the tensor is sparse, and has no memory of its own.
    """
    if without_strides(self):
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage"
        )
    return _ADDRESS(self)


def storage_offset(self: Tensor):
    """Elements between the storage's start and the first element."""
    return self.offset


def element_size(self: Tensor):
    """Bytes of one element."""
    return self.dtype_.itemsize


def get_device(self: Tensor):
    """The device's index; -1 on the CPU."""
    index = self.storage.device.index
    return -1 if index is None else index


def is_floating_point(self: Tensor):
    """Whether the data type is a real floating-point type."""
    return self.dtype_.category == FLOATING


def is_complex(self: Tensor):
    """Whether the data type is complex."""
    return self.dtype_.category == COMPLEX


def is_signed(self: Tensor):
    """Whether the data type has negative values."""
    return self.dtype_.is_signed


def is_inference(self: Tensor):
    """Whether the tensor was made in inference mode."""
    return self.inference


def is_set_to(self: Tensor, tensor: Tensor):
    """Whether both are the same window on the same storage."""
    return (
        self.storage is tensor.storage
        and self.offset == tensor.offset
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


def _is_view(self: Tensor):
    return self.base is not None


def tolist(self: Tensor):
    """Nested lists of Python numbers; a number for no dimensions."""
    if (self.keys >> KEY_BATCHED) & 1:
        return self._stand.read("tolist")
    if self.dtype.name.startswith("q"):
        raise RuntimeError("load_scalar: invalid type")
    if (self.keys >> KEY_PYTHON) & 1 or (self.keys >> KEY_ABSENT) & 1:
        raise RuntimeError(
            ".tolist() is not supported for tensor subclasses, got "
            f"{type(self).__name__}"
        )
    if not self.storage.device.has_memory and self.numel_:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if not self.storage.device.on_host:
        return self.cpu().tolist()
    if self.ndim_ == 0 or self.keys & DEFERRED:
        return self.clone().tolist() if self.ndim_ else self.item()
    notify_readers()
    return nested_list(self, 0, self.pointer())


@cython.cfunc
def nested_list(t: Tensor, dim: cython.int, data: cython.p_char) -> list:
    step: int64_t = t.strides[dim] * t.dtype_.itemsize
    code: cython.int = t.dtype_.code
    i: int64_t
    if dim == t.ndim_ - 1:
        return [read_element(code, data + i * step) for i in range(t.sizes[dim])]
    return [nested_list(t, dim + 1, data + i * step) for i in range(t.sizes[dim])]
