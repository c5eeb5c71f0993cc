"""What the path of a call follows from, as integers: types, sizes, strides, numbers."""

from __future__ import annotations

import cython
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core._python import pp_object
from cython.cimports.rushlight.core.device import KIND_CPU, KIND_CUDA, Device
from cython.cimports.rushlight.core.dtype import DType, default_dtype
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.switches import switch_bits
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import Operator
from cython.cimports.rushlight.dispatch.signature import asks

from rushlight.core.layout import Layout, MemoryFormat, Size

_ROOM = cython.declare(cython.int, 200)  # integers that describe a call, at most
_ANY = cython.declare(uint64_t, ~cython.cast(uint64_t, 0))


@cython.cfunc
@cython.exceptval(-2, check=False)
def describe(
    op: Operator, slots: pp_object, words: cython.pointer(int64_t), allowed: uint64_t
) -> cython.int:
    """What a call's path follows from, as integers; -1 where that is not all of it."""
    n: cython.int = 1
    i: cython.int
    words[0] = default_dtype().code | (switch_bits() << 32)
    for i in range(op.n_args):
        n = describe_one(cython.cast(object, slots[i]), words, n, allowed)
        if n < 0:
            return -1
    return n


@cython.cfunc
@cython.exceptval(-2, check=False)
def describe_one(
    item: object, words: cython.pointer(int64_t), n: cython.int, allowed: uint64_t
) -> cython.int:
    number: cython.double
    if n + 24 > _ROOM:
        return -1
    if item is None:
        words[n] = 1
        return n + 1
    if isinstance(item, Tensor):
        return describe_tensor(item, words, n, allowed)
    if item is True or item is False:
        words[n] = 3 + (256 if item else 0)
        return n + 1
    if type(item) is int:
        if not -(1 << 62) < item < (1 << 62):
            return -1
        words[n] = 4
        words[n + 1] = item
        return n + 2
    if type(item) is float:
        number = item
        words[n] = 5
        memcpy(cython.address(words[n + 1]), cython.address(number), 8)
        return n + 2
    if type(item) is str:
        return describe_text(item, words, n)
    if isinstance(item, DType):
        words[n] = 7 + (cython.cast(DType, item).code << 8)
        return n + 1
    if isinstance(item, Device):
        if cython.cast(Device, item).kind != KIND_CPU:
            return -1
        if cython.cast(Device, item).index is not None:
            return -1
        words[n] = 10
        return n + 1
    if isinstance(item, (MemoryFormat, Layout)):
        words[n] = 8
        words[n + 1] = cython.cast(int64_t, cython.cast(cython.size_t, id(item)))
        return n + 2
    if type(item) is tuple or type(item) is list or type(item) is Size:
        words[n] = 9 + (len(item) << 8)
        n += 1
        for element in item:
            n = describe_one(element, words, n, allowed)
            if n < 0:
                return -1
        return n
    return -1


@cython.cfunc
@cython.exceptval(-2, check=False)
def describe_text(
    item: str, words: cython.pointer(int64_t), n: cython.int
) -> cython.int:
    """A string, of 64 bytes at most."""
    d: cython.int
    length: cython.Py_ssize_t = 0
    text: cython.p_char
    text = cython.cast(
        cython.p_char, PyUnicode_AsUTF8AndSize(item, cython.address(length))
    )
    if length > 64:
        return -1
    words[n] = 6 + (length << 8)
    for d in range(8):
        words[n + 1 + d] = 0
    memcpy(cython.address(words[n + 1]), text, length)
    return n + 1 + (length + 7) // 8


@cython.cfunc
@cython.exceptval(-2, check=False)
def describe_tensor(
    t: Tensor, words: cython.pointer(int64_t), n: cython.int, allowed: uint64_t
) -> cython.int:
    """A tensor among the arguments."""
    d: cython.int
    if t.ndim_ > 8 or t.keys & ~allowed:
        return -1
    if not t.storage.device.on_host:
        n = describe_place(t, words, n)
        if n < 0:
            return -1
    words[n] = 2 + (t.dtype_.code << 8) + (t.ndim_ << 16) + (t.wrapped_number << 24)
    if type(t) is not Tensor and asks(t):
        return -1
    if t.wants_grad or (t.base is not None and t.base.wants_grad):
        if not state().grad_mode:
            words[n] |= 1 << 25
        elif allowed != _ANY:
            return -1
        else:
            words[n] |= 1 << 26  # kernels refuse what has no gradient
    if t.inference and not state().inference_mode:
        words[n] |= 1 << 27  # which may not be written to
    n += 1
    for d in range(t.ndim_):
        words[n] = t.sizes[d]
        words[n + 1] = t.strides[d]
        n += 2
    return n


@cython.cfunc
@cython.exceptval(-2, check=False)
def describe_place(
    t: Tensor, words: cython.pointer(int64_t), n: cython.int
) -> cython.int:
    """Which device a tensor is on, and whether its elements may be loaded together there."""
    kind: cython.int = t.storage.device.kind
    if kind != KIND_CUDA:
        return -1
    words[n] = 11 + (cython.cast(int64_t, t.storage.device.index) << 8)
    words[n] |= cython.cast(int64_t, cython.cast(cython.size_t, t.pointer()) % 16) << 32
    return n + 1


@cython.cfunc
@cython.exceptval(-2, check=False)
def describe_sharing(
    tensors: list, words: cython.pointer(int64_t), n: cython.int
) -> cython.int:
    """Which of the tensors look at the same memory, and how far apart they begin.

    -1 where storages share bytes that do not know of each other, as two that wrap one
    array: an address in both says nothing of the operand that it was taken from.
    """
    i: cython.int
    k: cython.int
    first: Tensor
    second: Tensor
    start: cython.p_char
    other: cython.p_char
    for i in range(1, len(tensors)):
        second = cython.cast(Tensor, tensors[i])
        for k in range(i):
            first = cython.cast(Tensor, tensors[k])
            if first.storage is second.storage:
                if n + 2 > _ROOM:
                    return -1
                words[n] = 10 + (i << 8) + (k << 24)
                words[n + 1] = second.offset * second.dtype_.itemsize
                words[n + 1] -= first.offset * first.dtype_.itemsize
                n += 2
                break
            start, other = first.storage.data, second.storage.data
            if (
                start < other + second.storage.n_bytes
                and other < start + first.storage.n_bytes
            ):
                return -1
    return n
