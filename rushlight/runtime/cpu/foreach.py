"""One elementwise kernel over many tensors at once."""

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.rushlight.core.keys import (
    DEFERRED,
    KEY_ABSENT,
    KEY_BATCHED,
    KEY_PYTHON,
    OBSERVE_ALL,
    RECORDING,
)
from cython.cimports.rushlight.core.state import notify_readers, state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.runtime.cpu.launch import (
    NativeKernel,
    add_operand_ints,
    kernel_t,
    launch_kernel,
    parallel_for,
    run_here,
    watched,
)

# Tensors with one of these bits have no memory, or other numbers than it holds.
UNUSUAL = cython.declare(
    uint64_t,
    (cython.cast(uint64_t, 1) << KEY_ABSENT)
    | (cython.cast(uint64_t, 1) << KEY_BATCHED)
    | (cython.cast(uint64_t, 1) << KEY_PYTHON)
    | cython.cast(uint64_t, DEFERRED),
)
# Elements in one piece of work, and from how many on the pool joins in.
PIECE = cython.declare(int64_t, 16384)
SERIAL = cython.declare(int64_t, 65536)


Group = cython.struct(
    read=int64_t,  # lists
    written=int64_t,
    scalars=int64_t,
    width=int64_t,  # bytes of an element
    scalar_width=int64_t,
    tensors=int64_t,  # of each list
)
HEAD = cython.declare(int64_t, cython.sizeof(Group) // cython.sizeof(int64_t))
ARRAYS = cython.declare(int64_t, 2)  # where addresses of tensors begin


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
    ``ints``: a `Group`, then for each tensor its size, then for each its first piece.
    """
    operands: cython.p_char[32]
    layout: int64_t[65]
    kernel: kernel_t = cython.cast(kernel_t, data[0])
    group: cython.pointer(cython.const[Group])
    group = cython.cast(cython.pointer(cython.const[Group]), ints)
    both: int64_t = group.read + group.written
    total: int64_t = both + group.scalars
    tensors: int64_t = group.tensors
    width: int64_t = group.width
    counts: cython.pointer(cython.const[int64_t]) = ints + HEAD
    firsts: cython.pointer(cython.const[int64_t]) = counts + tensors
    k: int64_t
    which: int64_t = 0
    piece: int64_t = begin
    faults: cython.int = 0
    for k in range(total):
        layout[1 + k] = width if k < both else 0
        layout[1 + total + k] = 0
    for k in range(group.scalars):
        operands[both + k] = data[1] + k * group.scalar_width
    while piece < end:
        while which + 1 < tensors and firsts[which + 1] <= piece:
            which += 1
        start: int64_t = (piece - firsts[which]) * PIECE
        left: int64_t = counts[which] - start
        layout[0] = left if left < PIECE else PIECE
        for k in range(both):
            operands[k] = data[ARRAYS + k * tensors + which] + start * width
        faults |= kernel(operands, layout, 0, 1)
        piece += 1
    return faults


@cython.cfunc
@cython.exceptval(-1, check=False)
def launch_pieces(
    kernel: kernel_t,
    data: cython.pp_char,
    ints: cython.pointer(int64_t),
    pieces: int64_t,
) -> cython.int:
    """Tells of what `run_pieces` does: the kernel, once for each piece."""
    operands: cython.p_char[32]
    layout: int64_t[65]
    group: cython.pointer(Group) = cython.cast(cython.pointer(Group), ints)
    tensors: int64_t = group.tensors
    counts: cython.pointer(int64_t) = ints + HEAD
    firsts: cython.pointer(int64_t) = counts + tensors
    both: int64_t = group.read + group.written
    total: int64_t = both + group.scalars
    k: int64_t
    which: int64_t = 0
    piece: int64_t
    for k in range(total):
        layout[1 + k] = group.width if k < both else 0
        layout[1 + total + k] = 0
    for k in range(group.scalars):
        operands[both + k] = data[1] + k * group.scalar_width
    for piece in range(pieces):
        while which + 1 < tensors and firsts[which + 1] <= piece:
            which += 1
        start: int64_t = (piece - firsts[which]) * PIECE
        layout[0] = min(counts[which] - start, PIECE)
        for k in range(both):
            operands[k] = data[ARRAYS + k * tensors + which] + start * group.width
        launch_kernel(
            kernel, operands, total, layout, 1 + 2 * total, 1, 1, data[1],
            group.scalars * group.scalar_width,
        )  # fmt: skip
    # of which one launch is counted
    return launch_kernel(
        cython.NULL, operands, 0, layout, 0, 1 - pieces, 0, cython.NULL, 0
    )


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
    kernel: NativeKernel, written: list, read: list, scalars: tuple
) -> None:
    """Runs an elementwise kernel over every tensor of some lists, all at once.

    Args:
        kernel: takes outputs, inputs, then scalars.
        written: lists of tensors that the kernel writes in place.
        read: lists of tensors that it reads; those written may be among them.
        scalars: numbers, handed over in float64 for float64 tensors, else in float32.
    """
    if state().included & RECORDING:
        notify_readers()
    first: Tensor = written[0][0]
    tensors: int64_t = len(written[0])
    outputs: int64_t = len(written)
    lists: int64_t = len(read)
    n_scalars: int64_t = len(scalars)
    double: cython.bint = first.dtype_.itemsize == 8
    n_data: int64_t = ARRAYS + (outputs + lists) * tensors
    n_ints: int64_t = HEAD + 2 * tensors
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
            those: list = written[k] if k < outputs else read[k - outputs]
            for i in range(tensors):
                tensor = those[i]
                check_operand(tensor, first, written[0][i])
                if watched >= OBSERVE_ALL:
                    add_operand_ints(tensor)
                data[ARRAYS + k * tensors + i] = tensor.pointer()
                if k < outputs:
                    tensor.bump_version()
        group: cython.pointer(Group) = cython.cast(cython.pointer(Group), ints)
        group.read, group.written, group.scalars = lists, outputs, n_scalars
        group.width, group.scalar_width = first.dtype_.itemsize, 8 if double else 4
        group.tensors = tensors
        counts: cython.pointer(int64_t) = ints + HEAD
        firsts: cython.pointer(int64_t) = counts + tensors
        for i in range(tensors):
            tensor = written[0][i]
            counts[i] = tensor.numel_
            firsts[i] = pieces
            pieces += (tensor.numel_ + PIECE - 1) // PIECE
            elements += tensor.numel_
        if watched >= OBSERVE_ALL:
            launch_pieces(kernel.fn, data, ints, pieces)
        if elements < SERIAL:
            run_here(run_pieces, data, ints, pieces)
        else:
            with cython.nogil:
                parallel_for(run_pieces, data, ints, pieces, 1)
    finally:
        free(block)


def advance(counters: list) -> list:
    """Adds one to each counter, float32 or float64, and returns the new values."""
    if state().included & RECORDING:
        notify_readers()
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
