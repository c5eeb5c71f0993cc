"""How operator functions run loop kernels: allocate, specialise, launch, check."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.rushlight.core.device import Device
from cython.cimports.rushlight.core.dtype import DType
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.state import ThreadState, notify_readers, state
from cython.cimports.rushlight.core.storage import fetch, following
from cython.cimports.rushlight.core.tensor import Tensor, alias, new_empty
from cython.cimports.rushlight.dispatch.kernel_table import KernelTable
from cython.cimports.rushlight.dispatch.kernels import steps_freely
from cython.cimports.rushlight.dispatch.launchers import grain_for, launcher_of

from rushlight.core.dtype import TYPE_NAMES
from rushlight.core.factories import empty_like
from rushlight.operators.type_groups import COMPLEX, FLOATS, INTEGERS, REAL

# Kernels that only move elements see them as integers of the same width.
MOVERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}


def fresh(like: Tensor, sizes, dtype: DType = None):
    """An uninitialised row-major tensor on the device of ``like``."""
    extents: int64_t[64]
    ndim: cython.int = 0
    for size in sizes:
        if ndim == 64:
            raise RuntimeError("a tensor has at most 64 dimensions")
        extents[ndim] = size
        ndim += 1
    return new_empty(
        ndim,
        extents,
        cython.NULL,
        like.dtype_ if dtype is None else dtype,
        like.storage.device,
    )


def copy_to_write(x: Tensor, read):
    """The row-major tensor that a result begins as: ``x`` again, or ``x`` itself.

    That is where the call changes ``x`` in place, and nothing that is read lies in the
    same memory (see ``writes_large`` of a declaration).
    """
    st: cython.pointer(ThreadState) = state()
    if st.written == cython.cast(cython.p_void, x) and x.row_major:
        st.written = cython.NULL  # what is called from here on makes its copies
        if _IS_UNSHARED.form(x)(x, read):
            return x
    return x.contiguous().clone()


def is_unshared(x: Tensor, read):
    """Whether nothing that is read lies in a tensor's memory."""
    other: Tensor
    for item in read:
        other = item
        if other.storage is x.storage or other.storage.data == x.storage.data:
            return False
    return True


# Kernels of other devices were not written for a result that is also read.
_IS_UNSHARED = cython.declare(
    KernelTable,
    KernelTable(cpu=is_unshared, cuda=lambda *_: False, meta=lambda *_: False),
)


def changed_in_place(function, x: Tensor, *arguments):
    """``function(x, ...)`` where nobody else reads ``x``: it may become the result.

    Where what is called is differentiated or transformed, ``x`` is kept.
    """
    st: cython.pointer(ThreadState) = state()
    if st.included or st.grad_mode or st.forward_ad or x.numel_ < (1 << 14):
        return function(x, *arguments)
    st.written = cython.cast(cython.p_void, x)
    try:
        return function(x, *arguments)
    finally:
        st.written = cython.NULL


def laid_as(x: Tensor, result: Tensor):
    """A result in the layout of what it was made from, gaps left out."""
    if not (x.row_major and result.row_major):
        result = empty_like(x, result.dtype_).copy_(result)
    if not x.row_major:
        return result
    if steps_freely(x):  # where sizes of one leave a choice, it is kept
        return alias(result, x.ndim_, x.sizes, x.strides, result.offset)
    return result


def filled(like: Tensor, sizes, value, dtype: DType = None):
    """A row-major tensor of one value on the device of ``like``."""
    return fresh(like, sizes, dtype).fill_(value)


def name_of(dtype):
    """The dtype's plain name: ``"float32"``."""
    return dtype if isinstance(dtype, str) else dtype.name


def scalar_name(dtype):
    """How PyTorch's messages call a type: ``"Long"``, ``"UInt16"``, ``"Float8_e5m2"``."""
    name = name_of(dtype)
    return TYPE_NAMES.get(name, name)


def require(kernel, dtype: DType, codes, *tensors):
    """Refuses a type that no kernel is there for.

    Args:
        kernel: how PyTorch's message names the kernel.
        codes: the numbers of the types that are fine.
        tensors: operands, for the message.

    Raises:
        NotImplementedError: the type is none of them.
    """
    if dtype.code not in codes:
        lines = "".join(f"\n  operand: {brief(t)}" for t in tensors)
        raise NotImplementedError(
            f"\"{kernel}\" not implemented for '{scalar_name(dtype)}'{lines}\n"
            "  remedy: convert it to another dtype with .to(...)"
        )


def expect(operator, **operands):
    """Refuses operands whose sizes or types are not those that a kernel reads.

    What composes operators hands them what fits; whoever calls one by its own name may
    hand it anything.

    Args:
        operator: whose operands they are.
        operands: by its name each operand, its sizes and its type; None for any.

    Raises:
        RuntimeError: one of them is another.
    """
    for name, (tensor, sizes, dtype) in operands.items():
        if tensor is None:
            continue
        if dtype is not None and tensor.dtype is not dtype:
            raise RuntimeError(
                f"{operator}: expected {name} to have dtype {dtype.name}\n"
                f"  {name}: {brief(tensor)}\n  remedy: convert it with .to(...)"
            )
        if sizes is not None and tuple(tensor.shape) != tuple(sizes):
            raise RuntimeError(
                f"{operator}: expected {name} of sizes {list(sizes)}\n"
                f"  {name}: {brief(tensor)}"
            )


def as_pairs(x):
    """Complex elements as pairs of real ones, in a last dimension; may share memory."""
    return x.contiguous().unsqueeze(-1).view(x.dtype.to_real())


def from_pairs(x, dtype):
    """The inverse of `as_pairs`."""
    return x.view(dtype).squeeze(-1)


def run(
    kernel,
    tensors,
    ints,
    total: int64_t,
    work: int64_t = 1,
    least: int64_t = 1,
    **types,
):
    """Specialises ``kernel`` and runs it over ``[0, total)``, split by work per item.

    Pieces are as long as each other, and none is shorter than ``least`` items. Nothing
    runs for tensors without storage (meta), so one operator function serves both devices.
    """
    if total > 0:
        grain: int64_t = grain_for(work)
        pieces: int64_t = (total + grain - 1) // grain
        grain = max(least, (total + pieces - 1) // pieces)
        launcher_of(tensors[0]).spans(kernel, types, tensors, ints, total, grain, False)


def run_nest(kernel, tensors, ints, elements, outer, work=1, **types):
    """Runs a nest of loops that writes each of so many ``elements`` once.

    An item is one of its ``outer`` rows; on devices of many threads it is an element.
    """
    if elements:
        _RUN_NEST.form(tensors[0])(
            kernel, tensors, ints, elements, outer, work, **types
        )


def _nest_by_rows(kernel, tensors, ints, elements, outer, work, **types):
    run(kernel, tensors, ints, outer, elements // outer * work, **types)


def _nest_by_elements(kernel, tensors, ints, elements, outer, work, **types):
    run(kernel.collapsed, tensors, ints, elements, **types)


_RUN_NEST = cython.declare(
    KernelTable,
    KernelTable(cpu=_nest_by_rows, cuda=_nest_by_elements, meta=_nest_by_rows),
)


def run_whole(kernel, tensors, ints, total: int64_t, **types):
    """Runs ``kernel`` over ``[0, total)`` in one piece: items depend on each other."""
    if total > 0:
        launcher_of(tensors[0]).spans(kernel, types, tensors, ints, total, total, True)


def place_of(tensor: Tensor) -> Device:
    """The device of a tensor's memory, which a stand-in may tell otherwise."""
    return tensor.storage.device


def changed(lists) -> None:
    """Counts a change, that no operator made, of every tensor of some lists."""
    tensor: Tensor
    for tensors in lists:
        for item in tensors:
            tensor = item
            tensor.bump_version()


def host_address(tensor: Tensor):
    """Where a tensor's elements are, for functions of the host that take addresses.

    Raises:
        NotImplementedError: they are not in the host's memory.
    """
    return _ADDRESS.form(tensor)(tensor)


def refuse_address(tensor: Tensor):
    """Refuses a tensor of a device's."""
    raise NotImplementedError(
        f"launch: a kernel of the host's cannot read a tensor on {tensor.storage.device}\n"
        "  remedy: move it with .cpu()"
    )


def address(tensor: Tensor):
    """Where a tensor's elements are, once they are there."""
    if state().included & RECORDING:  # what waits has no memory
        notify_readers()
    if following:
        fetch(tensor.storage)
    return cython.cast(uintptr_t, tensor.pointer())


_ADDRESS = cython.declare(
    KernelTable, KernelTable(cpu=address, cuda=refuse_address, meta=address)
)


def mover(dtype: DType):
    """The integer type that carries elements of ``dtype`` bit for bit, and how many."""
    width: cython.int = dtype.itemsize
    return (MOVERS[width], 1) if width <= 8 else ("int64", width // 8)


def fault_flag(like: Tensor):
    """One int64 of this thread that a kernel overwrites when it meets a bad index."""
    return launcher_of(like).fault_flag(like)


def fault_in(flag: Tensor):
    """The offending index that a kernel reported, or None; the flag is clear again.

    The device is waited for: where there is only an error to raise, see `refuse_fault`.
    """
    return launcher_of(flag).fault_in(flag)


def refuse_fault(flag: Tensor, operator, make, *args):
    """Raises what an index is worth that a kernel reported: when the device is waited for.

    Args:
        operator: its name.
        make: from the index and ``args`` to the exception; of tensors among them it may be
            given the outline, with ``dtype``, ``shape``, ``device`` and ``numel()``.
    """
    launcher_of(flag).refuse_fault(flag, operator, make, args)


def brief(tensor):
    """``float32[3, 4] on cpu``, for error messages."""
    return f"{name_of(tensor.dtype)}{list(tensor.shape)} on {tensor.device}"
