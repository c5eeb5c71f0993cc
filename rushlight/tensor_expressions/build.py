"""Makes a schedule callable: native kernels, PTX text, or the reference interpreter."""

from __future__ import annotations

import hashlib

from rushlight.core.device import backend_for
from rushlight.core.dtype import all_dtypes
from rushlight.core.factories import empty
from rushlight.core.roles import host
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
        keep = []
        for array, tensor in zip(arrays, arguments):
            check(array, tensor)
        for tensor in self.program.scratch:
            size = tensor.type.itemsize
            for extent in tensor.shape:
                size *= extent
            keep.append(bytearray(size + 64))
        addresses = [address_of(array) for array in arrays]
        check_apart(arguments, addresses)
        addresses += [address_of_bytes(item) for item in keep]
        self.run(addresses)

    def run(self, addresses):
        """Runs the kernels one after the other over arrays at these addresses."""
        if self.target == "python":
            from rushlight.codegen.emit.python import run

            for function, turns, _ in self.program.functions:
                run(function, addresses, [], 0, turns)
            return
        if self.kernels is None:
            self.kernels = [
                native(function) for function, _, _ in self.program.functions
            ]
        for kernel, (_, turns, _) in zip(self.kernels, self.program.functions):
            host.launch.launch(kernel, addresses, (), turns, 1)


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
        for tensor, wanted in zip(tensors, arguments):
            check(tensor, wanted)
        device = tensors[0].device
        if device.type != "cuda" or any(t.device != device for t in tensors):
            listed = ", ".join(str(t.device) for t in tensors)
            raise RuntimeError(
                f"{self!r}: tensors are on {listed}\n"
                "  remedy: all of them on one device of type cuda"
            )
        addresses = [tensor.data_ptr() for tensor in tensors]
        check_apart(arguments, addresses)
        room = [
            empty(item.shape, dtype=DTYPES[item.dtype], device=device)
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
        device_kernel.run_program(
            self.kernels, device, tuple(addresses), self.program.may_refuse
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


def check(array, tensor):
    """Refuses an array of another shape, dtype or layout than declared."""
    shape, dtype = tuple(array.shape), str(array.dtype).rpartition(".")[2]
    if shape != tensor.shape or dtype != tensor.dtype:
        raise ValueError(
            f"{tensor.name} is {tensor.dtype}{list(tensor.shape)}, "
            f"not {dtype}{list(shape)}"
        )
    dense = (
        array.is_contiguous()
        if hasattr(array, "is_contiguous")
        else (array.flags.c_contiguous)
    )
    if not dense:
        raise ValueError(f"{tensor.name}: the array is not row-major and dense")


def check_apart(tensors, addresses):
    """Refuses an array that is computed and passed for another argument too."""
    for number, tensor in enumerate(tensors):
        if tensor.body is not None and addresses.count(addresses[number]) > 1:
            raise ValueError(
                f"{tensor.name} is computed: its array cannot be another argument too"
            )


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
