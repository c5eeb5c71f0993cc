"""Copies, fills and conversions of dtype and device."""

from rushlight.codegen.frontend.type_support import ALL_FLOAT8
from rushlight.codegen.language import pointwise
from rushlight.core import dtypes
from rushlight.core.device import Device, backend_for
from rushlight.core.facts import storage_of
from rushlight.core.layout import contiguous_format, preserve_format
from rushlight.core.storage import wrap_address
from rushlight.core.tensor import Tensor
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.kernels import run_pointwise
from rushlight.operators import call as ops
from rushlight.operators.shape.formats import format_of
from rushlight.runtime import has_cuda


@pointwise(error_name="copy_", float8=ALL_FLOAT8, complex_half=True, moved_from=0)
def copy(x):
    """The value itself; loading and storing convert it."""
    return x


def fill(self, value):
    """A copy with one number everywhere."""
    if isinstance(value, Tensor) and value._stand is not None:
        return _spread(self, value)
    return ops.clone(self).fill_(value)


def _spread(self, value):
    """One number for each example of a batch, where the tensor may be of all."""
    return ops.zeros_like(self) + value.to(self.dtype)


def contiguous(self, memory_format):
    """Itself, or a copy in the format."""
    if self.is_contiguous(memory_format):
        return self
    if memory_format is preserve_format:
        raise RuntimeError(
            "preserve memory format is unsupported by the contiguous operator"
        )
    return ops.clone(self, memory_format=memory_format)


def to_options(
    self, dtype, layout, device, pin_memory, non_blocking, copy, memory_format
):
    """Itself where nothing changes, else a converted copy."""
    if device is not None and device.index is None:
        backend = backend_for(device)
        if backend is backend_for(self.device):
            device = backend.place(device)  # the current one is meant
    same = dtype is None or dtype == self.dtype
    same = same and (device is None or device == self.device)
    if same and not copy and memory_format in (None, preserve_format):
        return self
    if same and not copy and memory_format is (format_of(self) or contiguous_format):
        return self
    return ops._to_copy(
        self,
        dtype=dtype,
        device=device,
        non_blocking=bool(non_blocking),
        memory_format=memory_format,
    )


def to_dtype(self, dtype, non_blocking, copy, memory_format):
    """``to`` another dtype."""
    if dtype is self.dtype and not copy and memory_format is None:
        return self
    return to_options(self, dtype, None, None, None, non_blocking, copy, memory_format)


def to_device(self, device, dtype, non_blocking, copy, memory_format):
    """``to`` another device."""
    return to_options(
        self, dtype, None, device, None, non_blocking, copy, memory_format
    )


def to_other(self, other, non_blocking, copy, memory_format):
    """``to`` another tensor's dtype and device."""
    return to_options(
        self, other.dtype, None, other.device, None, non_blocking, copy, memory_format
    )


def type_as(self, other):
    """``to`` another tensor's dtype and device."""
    return to_options(self, other.dtype, None, other.device, None, False, False, None)


def cpu(self, memory_format):
    """``to`` the CPU."""
    device = Device("cpu")
    return to_options(self, None, None, device, None, False, False, memory_format)


def _converter(name):
    def convert(self, memory_format):
        dtype = getattr(dtypes, name)
        return to_options(self, dtype, None, None, None, False, False, memory_format)

    convert.__doc__ = f"``to`` {name}."
    return convert


to_float32 = _converter("float32")
to_float64 = _converter("float64")
to_float16 = _converter("float16")
to_bfloat16 = _converter("bfloat16")
to_int32 = _converter("int32")
to_int64 = _converter("int64")
to_int16 = _converter("int16")
to_int8 = _converter("int8")
to_uint8 = _converter("uint8")
to_bool = _converter("bool")
to_complex64 = _converter("complex64")
to_complex128 = _converter("complex128")


def overwritten(self, src, non_blocking):
    """A tensor like one, with another's elements."""
    return ops.copy_(ops.empty_like(self), src, non_blocking)


def fill_diagonal_(self, fill_value, wrap):
    """Writes the main diagonal; with ``wrap``, again below the square of a tall matrix.

    Raises:
        RuntimeError: fewer than two dimensions, or unequal ones beyond two.
    """
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    rows, columns = self.shape[0], self.shape[1]
    step, offset = sum(self.stride()), self.storage_offset()
    ops.as_strided(self, [min(rows, columns)], [step], offset).fill_(fill_value)
    if wrap and self.ndim == 2 and rows > columns + 1:
        for top in range(columns + 1, rows, columns + 1):
            size = min(columns, rows - top)
            start = offset + top * self.stride(0)
            ops.as_strided(self, [size], [step], start).fill_(fill_value)
    return self


class Locked:
    """Page-locked memory of the host's, given back when nobody has it any more."""

    def __init__(self, backend, n_bytes):
        self.backend, self.n_bytes = backend, n_bytes
        self.address = backend.memory.pin(n_bytes)

    def __del__(self):
        self.backend.memory.unpin(self.address, self.n_bytes)


def _refuse_pinned_device(_, self):
    raise RuntimeError(
        f"cannot pin '{self.type()}' only dense CPU tensors can be pinned"
    )


_refuse_to_pin = KernelTable(
    cpu=lambda *_: None, cuda=_refuse_pinned_device, meta=_refuse_pinned_device
)


def pin_memory(self, device=None):
    """A copy in page-locked memory, which a GPU reads while the host goes on.

    Raises:
        RuntimeError: there is no GPU, or the tensor is on it.
    """
    _refuse_to_pin(self.device, self)
    if not has_cuda():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if is_pinned(self):
        return self
    room = storage_of(self).nbytes()
    if not room:
        return self
    held = Locked(backend_for("cuda"), room)
    storage = wrap_address(held.address, room, held)
    result = ops.empty((0,), dtype=self.dtype).set_(
        storage, self.storage_offset(), self.shape, self.stride()
    )
    return ops.copy_(result, self)


def is_pinned(self, device=None):
    """Whether a tensor lies in page-locked memory."""
    return has_cuda() and _lies_in_locked(self.device, self)


def _host_lies_in_locked(_, self):
    return backend_for("cuda").memory.is_pinned(storage_of(self).data_ptr())


_lies_in_locked = KernelTable(
    cpu=_host_lies_in_locked, cuda=lambda *_: False, meta=lambda *_: False
)


def to_copy_gradient(grad, dtype, device):
    """The gradient in its input's type: what a real input has of a complex one is real."""
    if grad.is_complex() and not dtype.is_complex:
        grad = ops.real(grad)
    return grad.to(dtype=dtype, device=device)
