"""One elementwise kernel over many tensors at once."""

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.rushlight.backends.cpu.launch import (
    NativeKernel,
    kernel_t,
    parallel_for,
    run_here,
    tell,
    tell_operand,
    watched,
)
from cython.cimports.rushlight.core.keys import (
    DEFERRED,
    KEY_ABSENT,
    KEY_BATCHED,
    KEY_PYTHON,
)
from cython.cimports.rushlight.core.state import state, tell_readers
from cython.cimports.rushlight.core.tensor import Tensor

# Tensors with one of these bits have no memory, or other numbers than it holds.
UNUSUAL = cython.declare(
    uint64_t,
    (cython.cast(uint64_t, 1) << KEY_ABSENT)
    | (cython.cast(uint64_t, 1) << KEY_BATCHED)
    | (cython.cast(uint64_t, 1) << KEY_PYTHON)
    | cython.cast(uint64_t, DEFERRED),
)
# Operators of a thread with this key may wait; see `programs.capture`.
WAITING = cython.declare(uint64_t, cython.cast(uint64_t, 1) << 7)
# Elements in one piece of work, and from how many on the pool joins in.
# As in `dispatch.loops`.
EVERYTHING = cython.declare(cython.int, 1 << 20)
PIECE = cython.declare(int64_t, 16384)
SERIAL = cython.declare(int64_t, 65536)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_pieces(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Runs the kernel over pieces ``[begin, end)``: each a part of one tensor.

    ``data``: the kernel, the scalars, then the tensors' addresses list by list.
    ``ints``: the numbers of lists read, written and of scalars, the widths of elements
    and scalars, the number of tensors, then their sizes and their first pieces.
    """
    operands: cython.p_char[32]
    layout: int64_t[65]
    kernel: kernel_t = cython.cast(kernel_t, data[0])
    lists: int64_t = ints[0]
    outputs: int64_t = ints[1]
    scalars: int64_t = ints[2]
    width: int64_t = ints[3]
    scalar_width: int64_t = ints[4]
    tensors: int64_t = ints[5]
    counts: cython.pointer(cython.const[int64_t]) = ints + 6
    firsts: cython.pointer(cython.const[int64_t]) = counts + tensors
    total: int64_t = lists + outputs + scalars
    k: int64_t
    which: int64_t = 0
    piece: int64_t = begin
    faults: cython.int = 0
    for k in range(total):
        layout[1 + k] = width if k < lists + outputs else 0
        layout[1 + total + k] = 0
    for k in range(scalars):
        operands[lists + outputs + k] = data[1] + k * scalar_width
    while piece < end:
        while which + 1 < tensors and firsts[which + 1] <= piece:
            which += 1
        start: int64_t = (piece - firsts[which]) * PIECE
        left: int64_t = counts[which] - start
        layout[0] = left if left < PIECE else PIECE
        for k in range(lists + outputs):
            operands[k] = data[2 + k * tensors + which] + start * width
        faults |= kernel(operands, layout, 0, 1)
        piece += 1
    return faults


@cython.cfunc
@cython.exceptval(-1, check=False)
def tell_pieces(
    kernel: kernel_t,
    data: cython.pp_char,
    ints: cython.pointer(int64_t),
    pieces: int64_t,
) -> cython.int:
    """Tells of what `run_pieces` does: the kernel, once for each piece."""
    operands: cython.p_char[32]
    layout: int64_t[65]
    tensors: int64_t = ints[5]
    firsts: cython.pointer(int64_t) = ints + 6 + tensors
    both: int64_t = ints[0] + ints[1]
    total: int64_t = both + ints[2]
    k: int64_t
    which: int64_t = 0
    piece: int64_t
    for k in range(total):
        layout[1 + k] = ints[3] if k < both else 0
        layout[1 + total + k] = 0
    for k in range(ints[2]):
        operands[both + k] = data[1] + k * ints[4]
    for piece in range(pieces):
        while which + 1 < tensors and firsts[which + 1] <= piece:
            which += 1
        start: int64_t = (piece - firsts[which]) * PIECE
        layout[0] = min(ints[6 + which] - start, PIECE)
        for k in range(both):
            operands[k] = data[2 + k * tensors + which] + start * ints[3]
        tell(
            kernel, operands, total, layout, 1 + 2 * total, 1, 1, data[1],
            ints[2] * ints[4],
        )  # fmt: skip
    # of which one launch is counted
    return tell(cython.NULL, operands, 0, layout, 0, 1 - pieces, 0, cython.NULL, 0)


def same_layout(lists) -> cython.bint:
    """Whether the tensors are dense, row-major and of equal shapes and dtypes."""
    first: list = lists[0]
    head: Tensor = first[0]
    reference: Tensor
    tensor: Tensor
    i: cython.Py_ssize_t
    d: cython.int
    for tensors in lists:
        for i in range(len(first)):
            reference = first[i]
            tensor = tensors[i]
            if (
                not tensor.row_major
                or (tensor.keys & UNUSUAL) != 0
                or tensor.dtype_ is not head.dtype_
                or (
                    tensor.storage.device is not head.storage.device
                    and tensor.storage.device != head.storage.device
                )
                or tensor.ndim_ != reference.ndim_
            ):
                return False
            for d in range(tensor.ndim_):
                if tensor.sizes[d] != reference.sizes[d]:
                    return False
    return True


@cython.cfunc
@cython.exceptval(-1)
def check_operand(tensor: Tensor, first: Tensor, like: Tensor) -> cython.int:
    """Refuses what a kernel for dense memory of one size and dtype must not touch."""
    if (
        tensor.row_major
        and (tensor.keys & UNUSUAL) == 0
        and tensor.dtype_ is first.dtype_
        and tensor.numel_ == like.numel_
        and tensor.storage.device.on_host
    ):
        return 0
    raise RuntimeError(
        f"The size, dtype or layout of a tensor ({tensor.dtype_.name}, "
        f"{list(tensor.shape)}) must match those of the tensor that is updated with it "
        f"({like.dtype_.name}, {list(like.shape)})"
    )


def launch_each(
    kernel: NativeKernel,
    written: list,
    read: list,
    scalars: tuple,
) -> None:
    """Runs an elementwise kernel over every tensor of some lists, all at once.

    Args:
        kernel: takes outputs, inputs, then scalars.
        written: lists of tensors that the kernel writes in place.
        read: lists of tensors that it reads; those written may be among them.
        scalars: numbers, handed over in float64 for float64 tensors, else in float32.
    """
    if state().included & WAITING:
        tell_readers()
    first: Tensor = written[0][0]
    tensors: int64_t = len(written[0])
    outputs: int64_t = len(written)
    lists: int64_t = len(read)
    n_scalars: int64_t = len(scalars)
    double: cython.bint = first.dtype_.itemsize == 8
    n_data: int64_t = 2 + (outputs + lists) * tensors
    n_ints: int64_t = 6 + 2 * tensors
    if outputs + lists + n_scalars > 32:
        raise ValueError(f"launch_each: {outputs + lists + n_scalars} operands")
    block: cython.p_void = malloc((n_data + n_ints + n_scalars) * 8)
    if block == cython.NULL:
        raise MemoryError(f"launch_each: {tensors} tensors")
    data: cython.pp_char = cython.cast(cython.pp_char, block)
    ints: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), block) + n_data
    doubles: cython.p_double = cython.cast(cython.p_double, ints + n_ints)
    floats: cython.p_float = cython.cast(cython.p_float, doubles)
    k: int64_t
    i: int64_t
    pieces: int64_t = 0
    elements: int64_t = 0
    tensor: Tensor
    try:
        for k in range(n_scalars):
            if double:
                doubles[k] = scalars[k]
            else:
                floats[k] = scalars[k]
        data[0] = cython.cast(cython.p_char, kernel.fn)
        data[1] = cython.cast(cython.p_char, doubles)
        for k in range(outputs + lists):
            group: list = written[k] if k < outputs else read[k - outputs]
            for i in range(tensors):
                tensor = group[i]
                check_operand(tensor, first, written[0][i])
                if watched >= EVERYTHING:
                    tell_operand(tensor)
                data[2 + k * tensors + i] = tensor.pointer()
                if k < outputs:
                    tensor.bump_version()
        ints[0] = lists
        ints[1] = outputs
        ints[2] = n_scalars
        ints[3] = first.dtype_.itemsize
        ints[4] = 8 if double else 4
        ints[5] = tensors
        for i in range(tensors):
            tensor = written[0][i]
            ints[6 + i] = tensor.numel_
            ints[6 + tensors + i] = pieces
            pieces += (tensor.numel_ + PIECE - 1) // PIECE
            elements += tensor.numel_
        if watched >= EVERYTHING:
            tell_pieces(kernel.fn, data, ints, pieces)
        if elements < SERIAL:
            run_here(run_pieces, data, ints, pieces)
        else:
            with cython.nogil:
                parallel_for(run_pieces, data, ints, pieces, 1)
    finally:
        free(block)


def advance(counters: list) -> list:
    """Adds one to each counter, float32 or float64, and returns the new values."""
    if state().included & WAITING:
        tell_readers()
    values: list = []
    tensor: Tensor
    for item in counters:
        tensor = item
        name: str = tensor.dtype_.name
        if tensor.numel_ != 1 or (name != "float32" and name != "float64"):
            raise TypeError(
                f"advance: a step counter is {name} of {tensor.numel_} elements, not "
                "one float32 or float64"
            )
        if name == "float32":
            value: cython.p_float = cython.cast(cython.p_float, tensor.pointer())
            value[0] += 1
            values.append(value[0])
        else:
            wide: cython.p_double = cython.cast(cython.p_double, tensor.pointer())
            wide[0] += 1
            values.append(wide[0])
        tensor.bump_version()
    return values
