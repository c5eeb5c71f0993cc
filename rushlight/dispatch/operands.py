"""The operands of one elementwise call: their common type, shape, device and layout."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core._python import p_object
from cython.cimports.rushlight.core.device import CPU_DEVICE, Device
from cython.cimports.rushlight.core.dtype import (
    BOOLEAN,
    CODE_BFLOAT16,
    CODE_FLOAT16,
    COMPLEX,
    FLOATING,
    DType,
    default_dtype,
    dtype_of,
    promote_codes,
)
from cython.cimports.rushlight.core.elements import write_element, write_wrapped
from cython.cimports.rushlight.core.geometry import is_dense
from cython.cimports.rushlight.core.iteration import (
    Operand,
    broadcast_operands,
    output_strides,
)
from cython.cimports.rushlight.core.keys import KEY_ABSENT
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.dispatch.loops import Call

# What a number operand is stored as, by the compute type's code.
_SCALAR_CODE = cython.declare(cython.int[64])
for _code in range(64):
    _SCALAR_CODE[_code] = _code
for _code in (23, 24, 25, 26):
    _SCALAR_CODE[_code] = 6


@cython.cfunc
@cython.exceptval(-2, check=False)
def combine(higher: cython.int, lower: cython.int) -> cython.int:
    """Common type of operands of which the first kind outranks the second."""
    a: DType
    b: DType
    if higher < 0:
        return lower
    if lower < 0:
        return higher
    a = dtype_of(higher)
    b = dtype_of(lower)
    if a.category == COMPLEX:
        return higher
    if a.category < FLOATING and b.category == COMPLEX:
        return lower
    if a.category == FLOATING:
        if b.category == COMPLEX:
            return a.to_complex().code
        return higher
    if a.category == BOOLEAN or b.category >= FLOATING:
        return promote_codes(higher, lower)
    return higher


@cython.cfunc
@cython.exceptval(-2, check=False)
def code_of_number(value: object) -> cython.int:
    """The type that a Python number stands for in promotion."""
    if type(value) is float:
        return default_dtype().code
    if isinstance(value, bool):
        return 11
    if isinstance(value, int):
        return 4
    if isinstance(value, complex):
        return default_dtype().to_complex().code
    return default_dtype().code


@cython.cfunc
@cython.exceptval(-1, check=False)
def promote_call(call: cython.pointer(Call), promoting: cython.uint) -> cython.int:
    """The type that the call computes in, from tensors, 0-dim tensors and numbers."""
    dim: cython.int = -1
    zero: cython.int = -1
    wrapped: cython.int = -1
    i: cython.int
    code: cython.int
    t: Tensor
    for i in range(call.n):
        if not (promoting >> i) & 1:
            continue
        if not call.is_tensor[i]:
            code = code_of_number(cython.cast(object, call.values[i]))
            wrapped = code if wrapped < 0 else promote_codes(wrapped, code)
            continue
        t = cython.cast(Tensor, cython.cast(object, call.values[i]))
        code = t.dtype_.code
        if t.wrapped_number:
            if t.dtype_.category == FLOATING:
                code = default_dtype().code
            elif t.dtype_.category == COMPLEX:
                code = default_dtype().to_complex().code
            wrapped = code if wrapped < 0 else promote_codes(wrapped, code)
        elif t.ndim_ > 0:
            dim = code if dim < 0 else promote_codes(dim, code)
        else:
            zero = code if zero < 0 else promote_codes(zero, code)
    code = combine(dim, combine(zero, wrapped))
    return default_dtype().code if code < 0 else code


@cython.cfunc
@cython.exceptval(-1, check=False)
def add_operand(call: cython.pointer(Call), value: object) -> cython.int:
    """Append an input: a tensor's geometry, or a number to be filled in later."""
    i: cython.int = call.n
    operand: cython.pointer(Operand)
    t: Tensor
    if i + call.n_out >= 12:
        raise RuntimeError("an elementwise operator takes at most 12 operands")
    operand = cython.address(call.operands[call.n_out + i])
    call.values[i] = cython.cast(p_object, value)
    call.n = i + 1
    if isinstance(value, Tensor):
        t = cython.cast(Tensor, value)
        if (t.keys >> KEY_ABSENT) & 1:
            raise NotImplementedError(
                "a tensor without memory of its own has no elements"
            )
        call.is_tensor[i] = True
        operand.data = t.pointer()
        operand.ndim = t.ndim_
        operand.sizes = t.sizes
        operand.strides = t.strides
        operand.itemsize = t.dtype_.itemsize
        return 0
    call.is_tensor[i] = False
    operand.ndim = 0
    operand.data = cython.NULL
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def examine(call: cython.pointer(Call), name: str) -> cython.int:
    """Shape, device and uniformity of the inputs."""
    first: Tensor = None
    t: Tensor
    device: Device = None
    i: cython.int
    d: cython.int
    call.flat = True
    for i in range(call.n):
        if not call.is_tensor[i]:
            continue
        t = cython.cast(Tensor, cython.cast(object, call.values[i]))
        if device is None:
            device = t.storage.device
            call.device_kind = device.kind
        elif t.storage.device is not device and (
            t.storage.device.kind != call.device_kind
            or (not device.on_host and t.storage.device.index != device.index)
        ):
            device = check_devices(call, device, t, name)
            call.device_kind = device.kind
        if first is None:
            if t.row_major:
                first = t
            else:
                call.flat = False
        elif call.flat:
            if t.row_major and t.ndim_ == first.ndim_:
                for d in range(t.ndim_):
                    if t.sizes[d] != first.sizes[d]:
                        call.flat = False
                        break
            else:
                call.flat = False
    if first is None:
        call.flat = False
    if call.flat:
        call.ndim = first.ndim_
        for d in range(first.ndim_):
            call.sizes[d] = first.sizes[d]
        call.numel = first.numel_
        return 0
    try:
        call.ndim = broadcast_operands(
            cython.address(call.operands[call.n_out]), call.n, call.sizes
        )
    except RuntimeError as error:
        raise RuntimeError(f"{error}{describe(call, name)}") from None
    call.numel = 1
    for d in range(call.ndim):
        call.numel *= call.sizes[d]
    return 0


@cython.cfunc
def describe(call: cython.pointer(Call), name: str) -> str:
    """A line for the operator and one for each operand that is a tensor."""
    t: Tensor
    i: cython.int
    lines: str = f"\n  operator: {name}"
    for i in range(call.n):
        if call.is_tensor[i]:
            t = cython.cast(Tensor, cython.cast(object, call.values[i]))
            lines += (
                f"\n  operand {i}: {t.dtype_.name}{list(t.shape)} on {t.storage.device}"
            )
    return lines


def share_device_type(*tensors) -> bool:
    """Whether the devices of some tensors are of one type."""
    return len({tensor.device.type for tensor in tensors}) == 1


def of_two_devices(first, second, name: str) -> str:
    """What is said of tensors of two devices; PyTorch has other words where one is meta."""
    if first.has_memory and second.has_memory:
        words = (
            "Expected all tensors to be on the same device, but found at least two "
            f"devices, {first} and {second}!"
        )
    else:
        words = f"Tensor on device {second} is not on the expected device {first}!"
    return f"{words}\n  operator: {name}"


@cython.cfunc
def check_devices(
    call: cython.pointer(Call), device: Device, t: Tensor, name: str
) -> Device:
    """One device for all, apart from numbers in 0-dim CPU tensors."""
    if t.ndim_ == 0 and t.storage.device.on_host:
        return device
    for i in range(call.n):
        if call.is_tensor[i]:
            other: Tensor = cython.cast(Tensor, cython.cast(object, call.values[i]))
            if other.storage.device is device and (other.ndim_ or device.kind):
                raise RuntimeError(
                    f"{of_two_devices(device, t.storage.device, name)}\n"
                    "  remedy: move one of them with .to(device)"
                )
    return t.storage.device


@cython.cfunc
@cython.exceptval(check=False)
def number_code(compute: cython.int, wide: cython.bint) -> cython.int:
    """The type that a number operand is stored in."""
    if wide and (compute == 5 or compute == 15):
        return 6
    return _SCALAR_CODE[compute]


@cython.cfunc
@cython.exceptval(-1, check=False)
def store_numbers(
    call: cython.pointer(Call), wide: cython.uint, strict: cython.uint
) -> cython.int:
    """Write number operands, in the compute type, where the kernel reads them."""
    i: cython.int
    code: cython.int
    at: cython.p_char
    for i in range(call.n):
        if not call.is_tensor[i]:
            code = number_code(call.compute, (wide >> i) & 1)
            at = cython.cast(cython.p_char, cython.address(call.scalars[2 * i]))
            call.operands[call.n_out + i].data = at
            call.operands[call.n_out + i].itemsize = dtype_of(code).itemsize
            if (strict >> i) & 1 and not (
                strict & HALVES_ROUND
                and (code == CODE_FLOAT16 or code == CODE_BFLOAT16)
            ):
                write_element(code, at, cython.cast(object, call.values[i]))
            else:
                write_wrapped(code, at, cython.cast(object, call.values[i]))
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def set_output(call: cython.pointer(Call), k: cython.int, t: Tensor) -> cython.int:
    operand: cython.pointer(Operand) = cython.address(call.operands[k])
    operand.data = t.pointer()
    operand.ndim = t.ndim_
    operand.sizes = t.sizes
    operand.strides = t.strides
    operand.itemsize = t.dtype_.itemsize
    if not t.row_major:
        call.flat = False
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def strides_of_result(
    call: cython.pointer(Call),
    promoting: cython.uint,
    swapped: cython.bint,
    copied: cython.bint,
    shaped: cython.uint,
    strides: cython.pointer(int64_t),
) -> cython.bint:
    """The strides that suit the inputs; True where they are row-major.

    An input of another type than is computed in counts as its copy in that type does,
    which is dense; the numbers of ``shaped`` count as tensors of no dimension.
    """
    tensors: Operand[12]
    dense: int64_t[768]
    at: cython.pointer(int64_t)
    i: cython.int
    k: cython.int
    n: cython.int = 0
    t: Tensor
    for k in range(call.n):
        i = 1 - k if swapped and k < 2 else k
        if not call.is_tensor[i]:
            if (shaped >> i) & 1:
                tensors[n].ndim = 0
                n += 1
            continue
        t = cython.cast(Tensor, cython.cast(object, call.values[i]))
        tensors[n] = call.operands[call.n_out + i]
        if (
            copied or ((promoting >> i) & 1 and t.dtype_.code != call.compute)
        ) and not is_dense(t.ndim_, t.sizes, t.strides):
            at = cython.address(dense[64 * n])
            output_strides(cython.address(tensors[n]), 1, t.ndim_, t.sizes, at)
            tensors[n].strides = at
        n += 1
    if shaped & BESIDE_NUMBER:
        tensors[n].ndim = 0
        n += 1
    plain: cython.bint = output_strides(tensors, n, call.ndim, call.sizes, strides)
    if plain or not (copied and shaped & BESIDE_NUMBER):
        return plain
    for i in range(call.ndim):  # a step of several, whose last has no number
        dense[i] = strides[i]
    tensors[0].strides = dense
    return output_strides(tensors, 1, call.ndim, call.sizes, strides)


@cython.cfunc
def laid_out(call: cython.pointer(Call), code: cython.int, device: Device) -> Tensor:
    """A result laid out as the inputs are."""
    strides: int64_t[64]
    if call.flat or strides_of_result(call, 0, False, False, 0, strides):
        return new_empty(call.ndim, call.sizes, cython.NULL, dtype_of(code), device)
    return new_empty(call.ndim, call.sizes, strides, dtype_of(code), device)


@cython.cfunc
def device_of_call(call: cython.pointer(Call)) -> Device:
    i: cython.int
    best: Device = None
    t: Tensor
    for i in range(call.n):
        if call.is_tensor[i]:
            t = cython.cast(Tensor, cython.cast(object, call.values[i]))
            if best is None or best.on_host:
                best = t.storage.device
    return CPU_DEVICE if best is None else best


@cython.cfunc
@cython.exceptval(check=False)
def same_sizes(t: Tensor, call: cython.pointer(Call)) -> cython.bint:
    """Whether a tensor has the sizes of the result: others are broadcast to it."""
    d: cython.int
    if t.ndim_ != call.ndim:
        return False
    for d in range(call.ndim):
        if t.sizes[d] != call.sizes[d]:
            return False
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_growth(t: Tensor, call: cython.pointer(Call)) -> cython.int:
    """An output that is an input too is not given another shape."""
    i: cython.int
    k: cython.int
    for i in range(call.n):
        if call.is_tensor[i] and cython.cast(object, call.values[i]) is t:
            raise RuntimeError(
                f"output with shape {list(t.shape)} doesn't match the broadcast "
                f"shape {[call.sizes[k] for k in range(call.ndim)]}"
            )
    return 0
