"""Copies, fills and joins: the compiled part of what moves values about."""

from __future__ import annotations

from functools import partial

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core._python import p_object
from cython.cimports.rushlight.core.device import CPU_DEVICE, Device, backend_of
from cython.cimports.rushlight.core.dtype import CODE_BOOL, COMPLEX, FLOATING, DType
from cython.cimports.rushlight.core.elements import write_element, write_wrapped
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
from cython.cimports.rushlight.dispatch.kernel_table import KernelTable
from cython.cimports.rushlight.dispatch.loops import (
    Call,
    bind_tiled_copy,
    run_call,
    run_on_device,
)
from cython.cimports.rushlight.runtime.cpu.launch import (
    NativeKernel,
    parallel_for,
    watched,
)

from rushlight.core.factories import empty, empty_like, from_sequence
from rushlight.core.layout import strided
from rushlight.core.storage import copy_span
from rushlight.core.warning import warn_once
from rushlight.dispatch import loops
from rushlight.dispatch.operands import of_two_devices
from rushlight.operators.registry import call as ops

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
            bind_tiled_copy(made.fn, partial(tiled_transpose, target.itemsize))
    return kernel


def tiled_transpose(width):
    """The kernel for copies of tiles that lie along other loops than their source."""
    from rushlight.kernels.transpose.tiled_copy import turning_kernel

    return turning_kernel(width)


loops.bind_transpose(tiled_transpose)


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
def move(target: Tensor, source: Tensor, non_blocking: cython.bint = False):
    """Convert and broadcast one tensor's values into another."""
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
    if target.numel_ == 0:
        return
    copies: Copies = copies_of(target)
    copies.move(target, source, same, non_blocking)


@cython.cclass
class Copies:
    """Values moved on devices whose backend is asked: by its kernels, if it runs any.

    Other backends move bytes and nothing else: what changes their type or their order
    happens on the host.
    """

    def compiles(self, t):
        """Whether generated kernels run where a tensor is."""
        return backend_of(t.storage.device).launch.compiles()

    def reaches(self, target, source):
        """Whether a kernel of the target's device reads the source."""
        where: Device = target.storage.device
        return where == source.storage.device and self.compiles(target)

    def run(self, call, source, target, value):
        """Runs the copy of a prepared call."""
        device: Device = target.storage.device
        call.values[0] = cython.cast(p_object, value)
        kernel = backend_of(device).launch.specialize(
            copy_source(), (source.name,), (target.dtype_.name,), source.name
        )
        run_on_device(kernel, device, call)
        return 0

    def move(self, target, source, same, non_blocking):
        """Converts and broadcasts values of a size that fits."""
        call: Call
        copies_of(source).refuse_source()
        if source.dtype_.category == COMPLEX and loses_imaginary(target.dtype_):
            warn_once("Casting complex values to real discards the imaginary part")
        if not self.reaches(target, source):
            move_across(target, source, non_blocking)
            return 0
        aim(cython.address(call), target)
        call.is_tensor[0] = True
        call.flat = same and target.row_major and source.row_major
        describe(cython.address(call.operands[1]), source)
        self.run(cython.address(call), source.dtype_, target, source)
        return 0

    def refuse_source(self):
        """Refuses to give values that there are none of."""
        return 0

    def host_copy(self, t):
        """The tensor, or the same window on a copy of its storage on the host."""
        window: Tensor = same_window(t)
        window.storage = cython.cast(object, t.storage).cpu()
        window.keys = keys_for(CPU_DEVICE)
        return window

    def take(self, target, here, non_blocking):
        """Writes what a tensor of the host's holds."""
        if target.row_major:
            dense: Tensor = new_empty(
                target.ndim_, target.sizes, cython.NULL, target.dtype_, CPU_DEVICE
            )
            move(dense, here)
            move_across(target, dense, non_blocking)
            return 0
        window: Tensor = self.host_copy(target)  # what lies between its elements stays
        move(window, here)
        copy_span(target.storage, 0, window.storage, 0, target.storage.n_bytes)
        return 0

    def put(self, target, value):
        """Writes one number everywhere."""
        call: Call
        number: cython.p_char = cython.cast(cython.p_char, call.scalars)
        kind: DType = target.dtype_
        if target.numel_ == 0:
            check_number(kind, value)
            return 0
        if not self.compiles(target):
            move_across(target, from_sequence(value, kind, None))
            return 0
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
        self.run(cython.address(call), kind, target, value)
        return 0

    def fill(self, result, value):
        """Writes a number into a new tensor; a backend without kernels may have its own."""
        if self.compiles(result):
            self.put(result, value)
        else:
            ops.fill_(result, value)
        return 0

    def convert(self, result, source, non_blocking):
        """Writes a tensor's values into a new one."""
        ops.copy_(result, source, non_blocking)
        return 0

    def join(self, out, parts, axis):
        """Writes tensors behind one another along a dimension."""
        call: Call
        part: Tensor
        at: int64_t = 0
        compiled: cython.bint = self.compiles(out)
        device: Device = out.storage.device
        for one in parts:
            part = one
            if part.numel_ == 0:
                continue
            if part.storage.device is not device and part.storage.device != device:
                raise RuntimeError(of_two_devices(device, part.storage.device, "cat"))
            if not compiled:
                move_across(out.narrow(axis, at, part.sizes[axis]), part)
                at += part.sizes[axis]
                continue
            aim(cython.address(call), out)
            call.sizes[axis] = part.sizes[axis]
            call.numel = part.numel_
            call.operands[0].data += at * out.strides[axis] * out.dtype_.itemsize
            call.operands[0].sizes = part.sizes
            call.is_tensor[0] = True
            call.flat = axis == 0 and out.row_major and part.row_major
            describe(cython.address(call.operands[1]), part)
            self.run(cython.address(call), part.dtype_, out, part)
            at += part.sizes[axis]
        return 0


JOINED_ROWS = cython.declare(
    int64_t, 1 << 16
)  # bytes worth a thread, or rows at a time
JOINED_ROW = cython.declare(int64_t, 256)  # bytes of a row worth a call


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def copy_rows(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Writes rows of joined tensors in the order of memory: caches write whole pages back.

    ``data``: the result, then the parts. ``ints``: how many, then the bytes of rows of each.
    """
    k: int64_t
    row: int64_t
    width: int64_t = 0
    for k in range(1, ints[0]):
        width += ints[k]
    to: cython.p_char = data[0] + begin * width
    for row in range(begin, end):
        for k in range(1, ints[0]):
            memcpy(to, data[k] + row * ints[k], ints[k])
            to += ints[k]
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def join_rows(out: Tensor, parts: list, axis: cython.int) -> cython.int:
    """Joins row-major tensors of one type by `copy_rows`; 0 where that is no gain."""
    part: Tensor
    d: cython.int
    rows: int64_t = 1
    n: int64_t = 1 + len(parts)
    size: int64_t = out.numel_ * out.dtype_.itemsize
    for d in range(axis):
        rows *= out.sizes[d]
    if rows < 2 or not out.row_major or size < rows * len(parts) * JOINED_ROW:
        return 0
    for one in parts:
        part = one
        if (
            not part.row_major
            or part.dtype_ is not out.dtype_
            or part.storage.device is not out.storage.device
        ):
            return 0
    room: cython.p_void = malloc(n * (cython.sizeof(cython.p_char) + 8))
    if room == cython.NULL:
        raise MemoryError(f"cat: {n - 1} tensors")
    data: cython.pp_char = cython.cast(cython.pp_char, room)
    ints: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), data + n)
    try:
        data[0], ints[0], d = out.pointer(), n, 1
        for one in parts:
            part = one
            data[d] = part.pointer()
            ints[d] = part.numel_ * part.dtype_.itemsize // rows
            d += 1
        with cython.nogil:
            parallel_for(copy_rows, data, ints, rows, JOINED_ROWS * rows // size + 1)
    finally:
        free(room)
    return 1


@cython.final
@cython.cclass
class HostCopies(Copies):
    """The host's, whose machine code is called on the pool."""

    def compiles(self, t):
        return True

    def reaches(self, target, source):
        return copies_of(source) is self

    def run(self, call, source, target, value):
        run_call(native_copy(source, target.dtype_).fn, call)
        return 0

    def join(self, out, parts, axis):
        if watched or not join_rows(out, parts, axis):
            Copies.join(self, out, parts, axis)
        return 0

    def host_copy(self, t):
        return t

    def take(self, target, here, non_blocking):
        move(target, here)
        return 0

    def convert(self, result, source, non_blocking):
        if copies_of(source) is self:
            move(result, source)
        else:
            ops.copy_(result, source, non_blocking)
        return 0


@cython.final
@cython.cclass
class MetaCopies(Copies):
    """Nothing is written where there are no elements, and nothing can be read."""

    def move(self, target, source, same, non_blocking):
        return 0

    def refuse_source(self):
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    def put(self, target, value):
        return 0

    def fill(self, result, value):
        return 0

    def join(self, out, parts, axis):
        return 0


_COPIES = cython.declare(
    KernelTable, KernelTable(cpu=HostCopies(), cuda=Copies(), meta=MetaCopies())
)
copy_forms: object = _COPIES  # the same for modules that are not compiled


@cython.cfunc
def copies_of(tensor: Tensor) -> Copies:
    return cython.cast(Copies, _COPIES.form(tensor))


@cython.cfunc
def move_across(target: Tensor, source: Tensor, non_blocking: cython.bint = False):
    """Moves between devices, or where a backend has no kernels."""
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
            non_blocking,
        )
        return
    here: Tensor = copies_of(source).host_copy(source)
    copies_of(target).take(target, here, non_blocking)


def copy_(self: Tensor, src: Tensor, non_blocking=False):
    """Converts and broadcasts ``src`` into ``self``.

    Raises:
        RuntimeError: the sizes do not fit, or elements of ``self`` share memory.
    """
    if self is src:
        return self
    refuse_internal_overlap(self)
    refuse_partial_overlap(self, src)
    move(self, src, non_blocking)
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
    copies: Copies = copies_of(target)
    copies.put(target, value)


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
    copies_of(result).fill(result, value)
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
    like: Tensor,
    value: object,
    dtype: object,
    layout: object,
    device: object,
    memory_format: object,
) -> Tensor:
    result: Tensor = empty_like(like, dtype, layout, device, None, memory_format)
    return fill_new(result, value)


def zeros_like(
    self: Tensor,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    memory_format=None,
):
    """Zeros of the same sizes; in another layout, nothing is written down."""
    if layout is not None and layout is not strided:
        kind = self.dtype_ if dtype is None else dtype
        place = self.storage.device if device is None else device
        return ops.empty(self.shape, dtype=kind, layout=layout, device=place)
    return constant_like(self, 0, dtype, None, device, memory_format)


def ones_like(
    self: Tensor,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    memory_format=None,
):
    """Ones of the same sizes."""
    return constant_like(self, 1, dtype, layout, device, memory_format)


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
    copies_of(result).convert(result, self, non_blocking)
    return result
