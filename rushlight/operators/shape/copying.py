"""Copies, fills and joins: the compiled part of what moves values about."""

from __future__ import annotations

from functools import partial

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.device import CPU_DEVICE, Device, backend_of
from cython.cimports.rushlight.core.dtype import CODE_BOOL, COMPLEX, FLOATING, DType
from cython.cimports.rushlight.core.elements import write_element, write_wrapped
from cython.cimports.rushlight.core.geometry import (
    __builtin_add_overflow,
    wrap_dim,
)
from cython.cimports.rushlight.core.iteration import Operand
from cython.cimports.rushlight.core.overlap import (
    refuse_internal_overlap,
    refuse_partial_overlap,
)
from cython.cimports.rushlight.core.tensor import (
    Tensor,
    keys_for,
    new_empty,
    same_window,
)
from cython.cimports.rushlight.dispatch.loops import (
    Call,
    run_call,
    run_on_device,
    turn_tiles,
)
from cython.cimports.rushlight.runtime.cpu.launch import NativeKernel

from rushlight.core.dtype import promote_types
from rushlight.core.factories import empty, empty_like, from_sequence
from rushlight.core.layout import strided
from rushlight.core.storage import copy_span
from rushlight.core.warning import warn_once
from rushlight.dispatch import loops
from rushlight.operators.registry import call as ops
from rushlight.operators.shape.formats import format_of

_SOURCE = cython.declare(object, None)
_NATIVE = cython.declare(dict, {})


@cython.cfunc
def native_copy(source: DType, target: DType) -> NativeKernel:
    """The kernel that loads one type and stores another."""
    key = source.code * 64 + target.code
    kernel = _NATIVE.get(key)
    if kernel is None:
        kernel = copy_source().specialize((source.name,), (target.name,), source.name)
        kernel = _NATIVE.setdefault(key, kernel)
        if source is target and target.itemsize in (4, 8):
            made: NativeKernel = kernel
            turn_tiles(made.fn, partial(turned_copy, target.itemsize))
    return kernel


def turned_copy(width):
    """The kernel for copies of tiles that lie along other loops than their source."""
    from rushlight.kernels.transpose.tiled_copy import turning_kernel

    return turning_kernel(width)


loops.bind_turning(turned_copy)


@cython.cfunc
def copy_source() -> object:
    """The elementwise copy, from which each backend makes its kernels."""
    global _SOURCE
    if _SOURCE is None:
        from rushlight.operators.shape.conversion import copy

        _SOURCE = copy
    return _SOURCE


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_copy(
    call: cython.pointer(Call), source: DType, target: Tensor, value: object
) -> cython.int:
    """Runs the copy of a prepared call, on the host or where its memory is."""
    device: Device = target.storage.device
    if device.on_host:
        run_call(native_copy(source, target.dtype_).fn, call)
        return 0
    call.values[0] = cython.cast(cython.pointer(PyObject), value)
    kernel = backend_of(device).launch.specialize(
        copy_source(), (source.name,), (target.dtype_.name,), source.name
    )
    run_on_device(kernel, device, call)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def has_compiled_kernels(device: Device) -> cython.bint:
    """Whether the device runs generated kernels: the host, and some backends."""
    return device.on_host or backend_of(device).launch.compiles()


@cython.cfunc
@cython.exceptval(-1, check=False)
def describe(operand: cython.pointer(Operand), t: Tensor) -> cython.int:
    operand.data = t.pointer()
    operand.ndim = t.ndim_
    operand.sizes = t.sizes
    operand.strides = t.strides
    operand.itemsize = t.dtype_.itemsize
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def aim(call: cython.pointer(Call), target: Tensor) -> cython.int:
    """Loop over the elements of ``target``, which is written."""
    d: cython.int
    call.n = 1
    call.n_out = 1
    call.ndim = target.ndim_
    call.numel = target.numel_
    for d in range(target.ndim_):
        call.sizes[d] = target.sizes[d]
    describe(cython.address(call.operands[0]), target)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def loses_imaginary(kind: DType) -> cython.bint:
    """Whether complex numbers lose a part there; as truth values both count."""
    return kind.category < COMPLEX and kind.code != CODE_BOOL


@cython.cfunc
def move(target: Tensor, source: Tensor):
    """Convert and broadcast one tensor's values into another."""
    call: Call
    d: cython.int
    shift: cython.int = target.ndim_ - source.ndim_
    fits: cython.bint = shift >= 0
    same: cython.bint = shift == 0
    for d in range(source.ndim_ if fits else 0):
        if source.sizes[d] != target.sizes[shift + d]:
            same = False
            fits = fits and source.sizes[d] == 1
    if not fits:
        raise RuntimeError(
            f"The size of tensor a ({list(target.shape)}) must match the size of tensor "
            f"b ({list(source.shape)}): the source cannot be expanded to the target\n"
            f"  target: {target.dtype_.name}{list(target.shape)}\n"
            f"  source: {source.dtype_.name}{list(source.shape)}"
        )
    if target.numel_ == 0 or not target.storage.device.has_memory:
        return
    if not source.storage.device.has_memory:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if source.dtype_.category == COMPLEX and loses_imaginary(target.dtype_):
        warn_once("Casting complex values to real discards the imaginary part")
    where: Device = target.storage.device
    source_device: Device = source.storage.device
    if not (source_device.on_host and where.on_host) and (
        source_device.kind != where.kind
        or source_device.index != where.index
        or not has_compiled_kernels(where)
    ):
        move_across(target, source)
        return
    aim(cython.address(call), target)
    call.is_tensor[0] = True
    call.flat = same and target.row_major and source.row_major
    describe(cython.address(call.operands[1]), source)
    run_copy(cython.address(call), source.dtype_, target, source)


@cython.cfunc
def move_across(target: Tensor, source: Tensor):
    """The same where a device other than the host has one of them.

    Its backend moves bytes and nothing else: what changes their type or their order
    happens on the host.
    """
    size: cython.size_t = target.numel_ * target.dtype_.itemsize
    if (
        source.dtype_ is target.dtype_
        and source.row_major
        and target.row_major
        and source.numel_ == target.numel_
    ):
        copy_span(
            target.storage,
            target.offset * target.dtype_.itemsize,
            source.storage,
            source.offset * source.dtype_.itemsize,
            size,
        )
        return
    here: Tensor = on_host(source)
    if target.storage.device.on_host:
        move(target, here)
    elif target.row_major:
        dense: Tensor = new_empty(
            target.ndim_, target.sizes, cython.NULL, target.dtype_, CPU_DEVICE
        )
        move(dense, here)
        move_across(target, dense)
    else:
        window: Tensor = on_host(target)  # what lies between its elements stays
        move(window, here)
        copy_span(target.storage, 0, window.storage, 0, target.storage.n_bytes)


@cython.cfunc
def on_host(t: Tensor) -> Tensor:
    """The tensor, or the same window on a copy of its storage on the host."""
    if t.storage.device.on_host:
        return t
    window: Tensor = same_window(t)
    window.storage = cython.cast(object, t.storage).cpu()
    window.keys = keys_for(CPU_DEVICE)
    return window


def copy_(self: Tensor, src: Tensor, non_blocking=False):
    """Converts and broadcasts ``src`` into ``self``.

    Raises:
        RuntimeError: the sizes do not fit, or elements of ``self`` share memory.
    """
    if self is src:
        return self
    refuse_internal_overlap(self)
    refuse_partial_overlap(self, src)
    move(self, src)
    return self


def clone(self: Tensor, memory_format=None):
    """A copy with the same strides where they are dense, or in the format asked for."""
    result: Tensor
    if self.row_major and memory_format is None:
        result = new_empty(
            self.ndim_, self.sizes, self.strides, self.dtype_, self.storage.device
        )
    else:
        result = empty_like(self, None, None, None, None, memory_format)
    move(result, self)
    return result


@cython.cfunc
def put_number(target: Tensor, value: object):
    """Write one number everywhere."""
    call: Call
    number: cython.p_char = cython.cast(cython.p_char, call.scalars)
    kind: DType = target.dtype_
    if not target.storage.device.has_memory:
        return
    if target.numel_ == 0:
        check_number(kind, value)
        return
    if not has_compiled_kernels(target.storage.device):
        move_across(target, from_sequence(value, kind, None))
        return
    if target.numel_ == 1 and kind.category == FLOATING and kind.itemsize <= 2:
        # a single one is rounded, as an assigned element is, and may become infinite
        write_wrapped(kind.code, number, value)
    else:
        write_element(kind.code, number, value)
    aim(cython.address(call), target)
    call.is_tensor[0] = False
    call.flat = target.row_major
    call.operands[1].ndim = 0
    call.operands[1].itemsize = kind.itemsize
    call.operands[1].data = number
    run_copy(cython.address(call), kind, target, value)


def check_number(dtype: DType, value):
    """Refuses a number that a type does not hold.

    Raises:
        RuntimeError: the number is beyond the type's range.
    """
    number: cython.double[2]
    write_element(dtype.code, cython.cast(cython.p_char, number), value)


def fill_(self: Tensor, value):
    """Writes one number everywhere.

    Raises:
        RuntimeError: the value is a tensor with dimensions.
    """
    if isinstance(value, Tensor):
        if cython.cast(Tensor, value).ndim_ > 0:
            raise RuntimeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{value.ndim} dimensions."
            )
        refuse_internal_overlap(self)
        if cython.cast(Tensor, value).storage is self.storage:
            value = clone(
                value
            )  # it may be written before it is read for the last time
        move(self, value)
        return self
    put_number(self, value)
    return self


def zero_(self: Tensor):
    """Writes zeros."""
    put_number(self, 0)
    return self


@cython.cfunc
def fill_new(result: Tensor, value: object) -> Tensor:
    """A new tensor with one number everywhere."""
    if not result.storage.device.has_memory or has_compiled_kernels(
        result.storage.device
    ):
        put_number(result, value)
    else:
        ops.fill_(result, value)
    return result


@cython.cfunc
def constant(size: object, value: object, dtype: object, device: object) -> Tensor:
    result: Tensor = empty(size, dtype, None, device)
    return fill_new(result, value)


def zeros(size, dtype=None, layout=None, device=None, pin_memory=None):
    """Zeros."""
    if layout is not None and layout is not strided:
        return empty(size, dtype, layout, device)
    return constant(size, 0, dtype, device)


def ones(size, dtype=None, layout=None, device=None, pin_memory=None):
    """Ones."""
    return constant(size, 1, dtype, device)


@cython.cfunc
def constant_like(
    like: Tensor, value: object, dtype: object, device: object, memory_format: object
) -> Tensor:
    result: Tensor = empty_like(like, dtype, None, device, None, memory_format)
    return fill_new(result, value)


def zeros_like(
    self: Tensor,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    memory_format=None,
):
    """Zeros of the same sizes."""
    return constant_like(self, 0, dtype, device, memory_format)


def ones_like(
    self: Tensor,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    memory_format=None,
):
    """Ones of the same sizes."""
    return constant_like(self, 1, dtype, device, memory_format)


def to_copy(
    self: Tensor,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    non_blocking=False,
    memory_format=None,
):
    """A converted copy."""
    result: Tensor = empty_like(self, dtype, None, device, None, memory_format)
    if result.storage.device.on_host and self.storage.device.on_host:
        move(result, self)
        return result
    return ops.copy_(result, self)


@cython.cfunc
@cython.exceptval(-1, check=False)
def join_sizes(
    parts: list, dim: cython.int, sizes: cython.pointer(int64_t)
) -> cython.int:
    """Sizes of the joined tensor, checked."""
    first: Tensor = parts[0]
    part: Tensor
    d: cython.int
    number: cython.int = 0
    for d in range(first.ndim_):
        sizes[d] = first.sizes[d]
    sizes[dim] = 0
    for one in parts:
        part = one
        if part.ndim_ != first.ndim_:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim_} and "
                f"{part.ndim_}"
            )
        for d in range(first.ndim_):
            if d != dim and part.sizes[d] != first.sizes[d]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected "
                    f"size {first.sizes[d]} but got size {part.sizes[d]} for tensor "
                    f"number {number} in the list."
                )
        if __builtin_add_overflow(
            sizes[dim], part.sizes[dim], cython.address(sizes[dim])
        ):
            raise RuntimeError(
                f"numel: integer addition overflow: the tensors have more than 2 ** 63 "
                f"elements along dimension {dim}"
            )
        number += 1
    return 0


@cython.cfunc
def common_dtype(tensors: object) -> DType:
    best: DType = None
    t: Tensor
    position: cython.int = 0
    for one in tensors:
        t = one
        if t.ndim_ == 0:
            raise RuntimeError(
                f"zero-dimensional tensor (at position {position}) cannot be concatenated"
            )
        if best is None:
            best = t.dtype_
        elif t.dtype_ is not best:
            best = promote_types(best, t.dtype_)
        position += 1
    return best


def cat(tensors, dim):
    """Copies every tensor to its place; empty vectors are passed over.

    Raises:
        RuntimeError: no tensors, or sizes that differ beside ``dim``.
    """
    sizes: int64_t[64]
    call: Call
    part: Tensor
    out: Tensor
    at: int64_t = 0
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    dtype: DType = common_dtype(tensors)
    parts: list = [
        t
        for t in tensors
        if cython.cast(Tensor, t).ndim_ != 1 or cython.cast(Tensor, t).sizes[0] != 0
    ]
    axis: cython.int = 0  # empty vectors alone are joined whatever the dimension is
    if parts:
        part = parts[0]
        axis = wrap_dim(dim, part.ndim_)
    else:
        parts = list(tensors)[:1]
    join_sizes(parts, axis, sizes)
    out = joined(parts, axis, sizes, dtype)
    if not out.storage.device.has_memory or out.numel_ == 0:
        return out
    for one in parts:
        part = one
        if part.numel_ == 0:
            continue
        aim(cython.address(call), out)
        call.sizes[axis] = part.sizes[axis]
        call.numel = part.numel_
        call.operands[0].data += at * out.strides[axis] * dtype.itemsize
        call.operands[0].sizes = part.sizes
        call.is_tensor[0] = True
        call.flat = axis == 0 and out.row_major and part.row_major
        describe(cython.address(call.operands[1]), part)
        if has_compiled_kernels(out.storage.device):
            run_copy(cython.address(call), part.dtype_, out, part)
        else:
            move_across(out.narrow(axis, at, part.sizes[axis]), part)
        at += part.sizes[axis]
    return out


@cython.cfunc
def joined(
    parts: list, axis: cython.int, sizes: cython.pointer(int64_t), dtype: DType
) -> Tensor:
    """The result's memory: channels-last where the strides of all the parts are."""
    first: Tensor = parts[0]
    d: cython.int = first.ndim_ - 1
    if (d == 3 or d == 4) and first.strides[d] >= first.strides[1]:
        formats = {format_of(one) for one in parts}
        if len(formats) == 1 and None not in formats:
            return empty(
                [sizes[i] for i in range(first.ndim_)],
                dtype,
                None,
                first.storage.device,
                None,
                formats.pop(),
            )
    return new_empty(first.ndim_, sizes, cython.NULL, dtype, first.storage.device)
