"""Makes a schedule callable: native kernels, PTX text, or the reference interpreter."""

import hashlib
from math import prod

from rushlight.core.device import backend_for
from rushlight.core.dtype import all_dtypes
from rushlight.core.factories import empty
from rushlight.core.roles import host
from rushlight.tensor_expressions.arrays import (
    check_all,
    check_host,
    number_of,
    numbers_of,
)
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
        for array, tensor in zip(arrays, arguments):
            check_host(array, tensor)
        addresses, sizes = check_all(arrays, self.program)
        keep = [
            bytearray(t.type.itemsize * prod(numbers_of(t.shape, sizes)) + 64)
            for t in self.program.scratch
        ]
        addresses += map(address_of_bytes, keep)
        self.run(addresses, sizes)

    def run(self, addresses, sizes):
        """Runs the kernels one after the other over arrays at these addresses.

        Args:
            sizes: the values of the open ones, by name.
        """
        ints = tuple(sizes.values())
        if self.target == "python":
            from rushlight.codegen.emit.python import run

            for function, trip_counts, _ in self.program.functions:
                run(function, addresses, ints, 0, number_of(trip_counts, sizes))
            return
        if self.kernels is None:
            self.kernels = [
                native(function) for function, _, _ in self.program.functions
            ]
        for kernel, (_, trip_counts, _) in zip(self.kernels, self.program.functions):
            host.launch.launch(
                kernel, addresses, ints, number_of(trip_counts, sizes), 1
            )


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
        addresses, sizes = check_all(tensors, self.program)
        device = tensors[0].device
        if device.type != "cuda" or any(t.device != device for t in tensors):
            listed = ", ".join(str(t.device) for t in tensors)
            raise RuntimeError(
                f"{self!r}: tensors are on {listed}\n"
                "  remedy: all of them on one device of type cuda"
            )
        room = [
            empty(
                numbers_of(item.shape, sizes), dtype=DTYPES[item.dtype], device=device
            )
            for item in self.program.scratch
        ]
        addresses += [item.data_ptr() for item in room]
        device_kernel = backend_for("cuda").roles().device_kernel
        if self.kernels is None:
            native, program = device_kernel.native, self.program
            self.kernels = [
                (
                    native(f.name, digest_of(f), lambda f=f: f),
                    trip_counts,
                    program.threads.get(f.name),
                    program.shared.get(f.name, 0),
                )
                for f, trip_counts, _ in program.functions
            ]
        kernels = [
            (kernel, number, *block)
            for kernel, trip_counts, *block in self.kernels
            if (number := number_of(trip_counts, sizes))
        ]
        device_kernel.run_program(
            *(kernels, device, tuple(addresses), tuple(sizes.values())),
            self.program.may_refuse,
        )


def digest_of(function):
    """What a kernel is known by: its text."""
    return hashlib.blake2b(str(function).encode(), digest_size=16).hexdigest()


class BuiltText:
    """A schedule's kernels as text for a device: grid-stride kernels, or of a grid.

    Attributes:
        text: the assembly of all kernels.
        launches: for each kernel its name, how many turns or blocks its grid divides, and
            how many threads a block has, or None where any number will do.
        shared: by the names of kernels, bytes of shared memory that a launch asks for.
    """

    def __init__(self, program, text):
        self.program, self.text, self.shared = program, text, program.shared
        self.launches = [
            (f.name, trip_counts, program.threads.get(f.name))
            for f, trip_counts, _ in program.functions
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
