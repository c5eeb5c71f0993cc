"""Makes a schedule callable: native kernels, PTX text, or the reference interpreter."""

from __future__ import annotations

from rushlight.core.roles import host
from rushlight.tensor_expressions.lower import lower


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


class BuiltText:
    """A schedule's kernels as text for a device: one grid-stride kernel each.

    Attributes:
        text: the assembly of all kernels.
        launches: pairs of kernel name and how many turns its grid divides.
    """

    def __init__(self, program, text):
        self.program, self.text = program, text
        self.launches = [(f.name, turns) for f, turns, _ in program.functions]

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
    """Compiles a schedule for ``"llvm"`` (this host), ``"python"`` or ``"ptx"``.

    >>> from rushlight import te
    >>> x = te.placeholder((1024,), name="x")
    >>> y = te.compute((1024,), lambda i: x[i] * 2.0, name="y")
    >>> te.build(te.create_schedule(y), [x, y])
    <built for llvm: main>
    """
    program = lower(schedule, arguments, name)
    if target in ("llvm", "python"):
        return Built(program, target)
    if target == "ptx":
        from rushlight.codegen.emit import ptx

        return BuiltText(program, ptx.emit(*(f for f, _, _ in program.functions)))
    raise ValueError(f"build: no target {target!r}; there are llvm, ptx and python")
