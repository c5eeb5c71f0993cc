"""Makes a schedule callable: native kernels, PTX text, or the reference interpreter."""

from __future__ import annotations

import hashlib
from math import prod

from rushlight.core.device import backend_for
from rushlight.core.dtype import all_dtypes
from rushlight.core.factories import empty
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.rewrite import evaluate
from rushlight.tensor_expressions.expressions import Size
from rushlight.tensor_expressions.lower import lower

DTYPES = all_dtypes()


class Built:
    """A schedule's kernels; called with arrays in the order of its arguments.

    Takes row-major NumPy arrays or tensors of exactly the declared shapes and dtypes,
    and writes into those that are computed.
    """

    def __init__(self, program, target):
        self.program, self.target = program, target
        self.kernels = None

    def __repr__(self):
        names = ", ".join(function.name for function, _, _ in self.program.functions)
        return f"<built for {self.target}: {names}>"

    def __call__(self, *arrays):
        arguments = self.program.arguments
        if len(arrays) != len(arguments):
            raise TypeError(
                f"{self!r} takes {len(arguments)} arrays, not {len(arrays)}"
            )
        keep, sizes = [], check_all(arrays, self.program)
        for tensor in self.program.scratch:
            count = prod(numbers_of(tensor.shape, sizes))
            keep.append(bytearray(tensor.type.itemsize * count + 64))
        for array, tensor in zip(arrays, arguments):
            check_host(array, tensor)
        addresses = [address_of(array) for array in arrays]
        check_apart(arguments, arrays)
        addresses += [address_of_bytes(item) for item in keep]
        self.run(addresses, sizes)

    def run(self, addresses, sizes):
        """Runs the kernels one after the other over arrays at these addresses.

        Args:
            sizes: the values of the open ones, by name.
        """
        ints = tuple(sizes.values())
        if self.target == "python":
            from rushlight.codegen.emit.python import run

            for function, turns, _ in self.program.functions:
                run(function, addresses, ints, 0, number_of(turns, sizes))
            return
        if self.kernels is None:
            self.kernels = [
                native(function) for function, _, _ in self.program.functions
            ]
        for kernel, (_, turns, _) in zip(self.kernels, self.program.functions):
            host.launch.launch(kernel, addresses, ints, number_of(turns, sizes), 1)


class BuiltOnDevice:
    """A schedule's kernels on an NVIDIA device; called with tensors that are there.

    What a kernel refuses is told when it is done, so that a program with indices that are
    data waits for it.
    """

    def __init__(self, program):
        self.program, self.kernels = program, None

    def __repr__(self):
        names = ", ".join(function.name for function, _, _ in self.program.functions)
        return f"<built for cuda: {names}>"

    def __call__(self, *tensors):
        arguments = self.program.arguments
        if len(tensors) != len(arguments):
            raise TypeError(
                f"{self!r} takes {len(arguments)} tensors, not {len(tensors)}"
            )
        sizes = check_all(tensors, self.program)
        device = tensors[0].device
        if device.type != "cuda" or any(t.device != device for t in tensors):
            listed = ", ".join(str(t.device) for t in tensors)
            raise RuntimeError(
                f"{self!r}: tensors are on {listed}\n"
                "  remedy: all of them on one device of type cuda"
            )
        addresses = [tensor.data_ptr() for tensor in tensors]
        check_apart(arguments, tensors)
        room = [
            empty(
                numbers_of(item.shape, sizes), dtype=DTYPES[item.dtype], device=device
            )
            for item in self.program.scratch
        ]
        addresses += [item.data_ptr() for item in room]
        device_kernel = backend_for("cuda").roles().device_kernel
        if self.kernels is None:
            native, threads = device_kernel.native, self.program.threads
            self.kernels = [
                (
                    native(f.name, digest_of(f), lambda f=f: f),
                    turns,
                    threads.get(f.name),
                )
                for f, turns, _ in self.program.functions
            ]
        kernels = [
            (kernel, number, threads)
            for kernel, turns, threads in self.kernels
            if (number := number_of(turns, sizes))
        ]
        device_kernel.run_program(
            *(kernels, device, tuple(addresses), tuple(sizes.values())),
            self.program.may_refuse,
        )


def digest_of(function):
    """What a kernel is known by: its text."""
    return hashlib.blake2b(str(function).encode(), digest_size=16).digest()


class BuiltText:
    """A schedule's kernels as text for a device: grid-stride kernels, or of a grid.

    Attributes:
        text: the assembly of all kernels.
        launches: for each kernel its name, how many turns or blocks its grid divides, and
            how many threads a block has, or None where any number will do.
    """

    def __init__(self, program, text):
        self.program, self.text = program, text
        self.launches = [
            (f.name, turns, program.threads.get(f.name))
            for f, turns, _ in program.functions
        ]

    def __call__(self, *arrays):
        raise RuntimeError(
            "a kernel built for ptx runs on an NVIDIA device: load .text "
            "with the driver and launch .launches in order"
        )


def native(function):
    """The native kernel of a function, from the cache where it is there."""
    from rushlight.codegen.emit.llvm import emit

    return host.code_cache.native_text(function.name, emit(function))


def number_of(size, sizes):
    """A size as a number, where open ones have values."""
    return evaluate(size, sizes) if isinstance(size, ir.Expr) else size


def numbers_of(shape, sizes):
    """A shape as numbers."""
    return tuple(number_of(size, sizes) for size in shape)


def check_all(arrays, program):
    """Looks at the arrays of a call; the values of open sizes, by name.

    Raises:
        TypeError: one is no array.
        ValueError: one has another shape, dtype or layout than declared.
    """
    sizes = {size.name: None for size in program.sizes}
    for array, tensor in zip(arrays, program.arguments):
        if not hasattr(array, "shape"):
            raise TypeError(
                f"{tensor.name} is a tensor or an array, not {type(array).__name__}"
            )
        pairs = [*zip(tensor.shape, array.shape)]
        if tensor.strides is not None:
            pairs += zip(tensor.strides, strides_of(array))
        for size, found in pairs:
            if isinstance(size, Size) and sizes[size.name] is None:
                sizes[size.name] = int(found)
    for array, tensor in zip(arrays, program.arguments):
        check(array, tensor, sizes)
    return sizes


def check(array, tensor, sizes):
    """Refuses an array of another shape, dtype or layout than declared."""
    shape, dtype = tuple(array.shape), str(array.dtype).rpartition(".")[2]
    known = None not in sizes.values()
    if not known or shape != numbers_of(tensor.shape, sizes) or dtype != tensor.dtype:
        wanted = ", ".join(map(str, tensor.shape))
        found = ", ".join(f"{n} is {v}" for n, v in sizes.items() if v is not None)
        raise ValueError(
            f"{tensor.name} is {tensor.dtype}[{wanted}], not {dtype}{list(shape)}"
            + (f", where {found}" if found else "")
        )
    if tensor.strides is not None:
        wanted, found = numbers_of(tensor.strides, sizes), strides_of(array)
        if wanted != found:
            raise ValueError(f"{tensor.name} has strides {wanted}, not {found}")
        return
    dense = (
        array.is_contiguous()
        if hasattr(array, "is_contiguous")
        else (array.flags.c_contiguous)
    )
    if not dense:
        raise ValueError(f"{tensor.name}: the array is not row-major and dense")


def strides_of(array):
    """How many elements apart the neighbours along each dimension of an array lie."""
    if hasattr(array, "data_ptr"):
        return tuple(array.stride())
    return tuple(step // array.itemsize for step in array.strides)


def check_host(array, tensor):
    """Refuses an array that is not in the host's memory.

    Raises:
        RuntimeError: it is on another device.
    """
    device = getattr(array, "device", None)  # NumPy's arrays may say "cpu"
    if getattr(device, "type", "cpu") != "cpu":
        raise RuntimeError(
            f"{tensor.name}: the tensor is on {device}, and the function is built for the "
            'host\n  remedy: te.build(..., target="cuda"), or tensor.cpu()'
        )


def check_apart(tensors, arrays):
    """Refuses an array that is computed and may not be, or shares elements with another."""
    ranges = [memory_of(array) for array in arrays]
    for tensor, array, (begin, end) in zip(tensors, arrays, ranges):
        if tensor.body is None:
            continue
        if sum(begin < last and first < end for first, last in ranges) > 1:
            raise ValueError(
                f"{tensor.name} is computed: its array cannot share elements with another "
                "argument's"
            )
        frozen = hasattr(array, "flags") and not array.flags.writeable
        if frozen or getattr(array, "requires_grad", False):
            why = (
                "is read-only"
                if frozen
                else "requires grad, which this does not record"
            )
            raise ValueError(f"{tensor.name} is computed, and its array {why}")


def memory_of(array):
    """Where an array's elements begin and end in memory."""
    begin = address_of(array)
    if 0 in array.shape:
        return begin, begin
    size = array.element_size() if hasattr(array, "element_size") else array.itemsize
    steps = [(n - 1) * step * size for n, step in zip(array.shape, strides_of(array))]
    ends = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
    return begin + ends[0], begin + ends[1] + size


def address_of(array):
    """Where the elements of a tensor or NumPy array start."""
    return array.data_ptr() if hasattr(array, "data_ptr") else array.ctypes.data


def address_of_bytes(block):
    """The first address in a byte block that vectors may be aligned to."""
    import ctypes

    start = ctypes.addressof((ctypes.c_char * len(block)).from_buffer(block))
    return -(-start // 64) * 64


def build(schedule, arguments, target="llvm", name="main"):
    """Compiles a schedule for ``"llvm"`` (this host), ``"cuda"``, ``"python"`` or ``"ptx"``.

    On a device the threads share what `Stage.bind` says, or what `Stage.parallel` marks;
    stages that nobody scheduled have all their elements divided among them.

    Args:
        schedule: what `create_schedule` gave.
        arguments: the tensors that the caller passes, inputs and outputs.
        target: what it runs on; ``"ptx"`` gives the text of kernels.
        name: of the function.

    Raises:
        ValueError: there is no such target.

    >>> from rushlight import te
    >>> x = te.placeholder((1024,), name="x")
    >>> y = te.compute((1024,), lambda i: x[i] * 2.0, name="y")
    >>> te.build(te.create_schedule(y), [x, y])
    <built for llvm: main>
    """
    program = lower(schedule, arguments, name, target)
    if target == "cuda":
        return BuiltOnDevice(program)
    if target in ("llvm", "python"):
        return Built(program, target)
    if target == "ptx":
        from rushlight.codegen.emit import ptx

        return BuiltText(program, ptx.emit(*(f for f, _, _ in program.functions)))
    raise ValueError(
        f"build: no target {target!r}; there are llvm, cuda, ptx and python"
    )
