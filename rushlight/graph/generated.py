"""What the text of a compiled program calls: kernels, expressions, windows on memory.

A program's text (`rushlight.graph.output_code`) is Python that runs with the package
installed. Its kernels are functions of symbolic values, which call the expressions of
operators; they become the machine code that the program itself launches.
"""

import ctypes
from time import perf_counter

from rushlight.core.dtype import all_dtypes
from rushlight.core.factories import from_sequence, wrapped_number
from rushlight.core.facts import storage_of
from rushlight.core.geometry import broadcast_sizes
from rushlight.core.storage import UntypedStorage
from rushlight.core.tensor import Tensor
from rushlight.core.window import make_tensor
from rushlight.dispatch.dispatcher import packets
from rushlight.graph import capture  # first: the others lean on modules that lean on it
from rushlight.graph.constant_folding import fold_norm
from rushlight.graph.epilogues import Fold
from rushlight.graph.fused_node import Member, Said
from rushlight.graph.fusion import MOVES, Group, launch_of, moved
from rushlight.graph.kernel_resolution import pointwise_kernel
from rushlight.graph.program import run_steps
from rushlight.graph.reduction_nodes import Along, along
from rushlight.graph.steps import bytes_needed
from rushlight.graph.tape import Tape
from rushlight.operators.matmul import matmul_epilogue
from rushlight.operators.matmul.linear_packed import pack_weight

NUMBERS = ("float32", "float64")  # what kernels are passed as numbers
_members: list = []  # of the kernels that are being traced, the innermost last


class Traced:
    """A value in a kernel: where it comes from, and the name of its dtype."""

    def __init__(self, key, kind):
        self.key, self.kind = key, kind


class Expression:
    """An operator's expression: called in a kernel, it is one of the kernel's steps."""

    def __init__(self, op):
        self.op = op

    def __call__(self, *values, compute=None, out=None, static=(), **options):
        """The result for some values, or a tuple of them.

        Args:
            values: of the kernel.
            compute: names of the dtypes that each is computed in, by default its own.
            out: names of the results' dtypes, by default one like the first value's.
            static: arguments that the expression is specialised for.
            options: of a reduction or norm; see `reduction_nodes.along`.
        """
        members = _members[-1]
        kinds = tuple([value.kind for value in values])
        compute, out = compute or kinds, out or kinds[:1]
        source = self.source(len(values), options)
        made = [Traced((len(members), k), kind) for k, kind in enumerate(out)]
        member = Member(
            *(Said(self.op), source, list(values), kinds, tuple(out)),
            *(tuple(compute), tuple(static), made, ()),
        )
        member.in_keys = [value.key for value in values]
        member.out_keys = [value.key for value in made]
        members.append(member)
        return made[0] if len(made) == 1 else tuple(made)

    def source(self, count, options):
        """The expression that it stands for."""
        if self.op.name in MOVES:
            return moved
        kernel = pointwise_kernel(self.op)
        if kernel is not None and not options:
            return kernel.source
        return along(self.op, count, **options)


class Named:
    """Expressions of operators by the names that these have: ``op.aten.add.Tensor``."""

    def __init__(self, names=()):
        self._names = names

    def __getattr__(self, name):
        names = (*self._names, name)
        if len(names) < 3:
            return Named(names)
        namespace, base, overload = names
        return Expression(getattr(packets()[namespace, base], overload))


op = Named()


class Kernel:
    """A kernel of a program: what its function says of each element, or of each row.

    Args:
        function: of a value for each operand that is read, annotated with dtypes; what it
            returns is stored, as its ``return`` annotation says.
        dims: the dimensions that it reduces; None where it goes element by element.
    """

    def __init__(self, function, dims=None):
        hints = dict(function.__annotations__)
        results = hints.pop("return")
        results = results if isinstance(results, tuple) else (results,)
        self.function, self.dims = function, dims
        self.in_types = tuple([kind.name for kind in hints.values()])
        self.out_types = tuple([kind.name for kind in results])
        self.traced = self.launches = None

    @property
    def __name__(self):
        return self.function.__name__

    def trace(self):
        """The steps, the keys of what is read and those of what is stored."""
        if self.traced is None:
            values = [Traced(("x", k), kind) for k, kind in enumerate(self.in_types)]
            _members.append([])
            try:
                made = self.function(*values)
            finally:
                members = _members.pop()
            made = made if isinstance(made, tuple) else (made,)
            for member in members:
                member.axes = self.dims if isinstance(member.source, Along) else None
            self.traced = (
                *(members, [value.key for value in values]),
                [value.key for value in made],
            )
        return self.traced

    def __call__(self, *operands):
        """Computes; what is stored comes first, then what is read: tensors and numbers."""
        capture.flush()  # operands have addresses then
        numbers = [one for one in operands if self.is_number(one)]
        key = tuple(map(_look_of, operands))
        self.launches = self.launches or {}
        if key not in self.launches:
            self.launches[key] = self.launch(operands)
        tape = Tape()
        tape.params.extend(numbers)
        addresses = (ctypes.c_void_p * len(operands))()
        for k, one in enumerate(operands):
            addresses[k] = one.data_ptr() if isinstance(one, Tensor) else None
        run_steps([self.launches[key]], tape, ctypes.addressof(addresses))

    @staticmethod
    def is_number(one):
        """Whether an operand is a number and not in memory."""
        return not isinstance(one, Tensor)

    def launch(self, operands):
        """The step that launches it for operands of some looks."""
        members, inputs, outputs = self.trace()
        tensors = [one for one in operands if isinstance(one, Tensor)]
        sizes = tuple(broadcast_sizes([tuple(one.shape) for one in tensors]))
        group = Group(sizes, self.dims, members)
        strides, bases, numbers = [], [], 0
        kinds = (*self.out_types, *self.in_types)
        for k, (one, kind) in enumerate(zip(operands, kinds, strict=True)):
            if isinstance(one, Tensor):
                strides.append(_byte_strides(one, len(sizes)))
                bases.append((k, 0))
                continue
            strides.append([0] * len(sizes))
            dtype = all_dtypes()[kind]
            if kind in NUMBERS:
                bases.append(("number", numbers, dtype.code))
            else:
                bases.append(from_sequence(one, dtype, None))
            numbers += 1
        kernel = inputs, outputs, self.in_types, self.out_types
        return launch_of(group, kernel, strides, bases, tensors[0].device)


def _look_of(one):
    """What a launch hangs on of an operand."""
    if isinstance(one, Tensor):
        return tuple(one.shape), one.stride(), one.dtype, one.device
    return type(one), one


def _byte_strides(tensor, count):
    """A tensor's byte strides over as many dimensions as its kernel has."""
    item = tensor.dtype.itemsize
    own = [
        0 if size == 1 else stride * item
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    ]
    return [0] * (count - len(own)) + own


def elementwise_kernel(function):
    """A kernel that goes element by element; see `Kernel`."""
    return Kernel(function)


def row_kernel(dims):
    """A decorator that makes a kernel over rows along some dimensions; see `Kernel`."""
    return lambda function: Kernel(function, tuple(dims))


class Epilogue(Kernel):
    """What a product or convolution does with its sums before it stores them.

    Attributes:
        name: by which the operator finds it.
    """

    @property
    def name(self):
        """The name that the operator is given."""
        fold = Fold(*self.trace())
        joined = fold.joined
        made = matmul_epilogue.EpilogueSpec(fold, joined.digest, joined.name)
        return matmul_epilogue.name(made)


def epilogue(function):
    """What stands behind a product or convolution in its kernel; see `Epilogue`."""
    return Epilogue(function)


def reinterpret_tensor(tensor, sizes, strides, offset=0, dtype=None):
    """A window on a tensor's memory.

    Args:
        tensor: any tensor on that memory.
        sizes, strides: of the window, in its elements.
        offset: of its first element, from the start of the storage.
        dtype: of its elements, by default the tensor's.
    """
    dtype = tensor.dtype if dtype is None else dtype
    return make_tensor(storage_of(tensor), sizes, strides, offset, dtype)


def empty_strided(sizes, strides, dtype, n_bytes, device="cpu"):
    """Memory for a program's own values: a window at the start of so many bytes."""
    storage = UntypedStorage(n_bytes, device=device)
    return make_tensor(storage, sizes, strides, 0, dtype)


def as_given(tensor, sizes, strides, offset, dtype):
    """An argument of a program as a plain tensor, of the look that the program is for.

    Raises:
        ValueError: its memory is smaller.
    """
    held = tensor.untyped_storage().nbytes()
    if held < bytes_needed(sizes, strides, offset, dtype):
        raise ValueError(
            f"the program is for {dtype} of sizes {sizes} and strides {strides} at offset "
            f"{offset}, which is more than the {held} bytes of the given tensor"
        )
    return reinterpret_tensor(tensor, sizes, strides, offset, dtype)


def rand_strided(sizes, strides, offset, dtype, device="cpu"):
    """An example of an argument: normal numbers, or zeros of what is no float."""
    n_bytes = bytes_needed(sizes, strides, offset, dtype)
    # all of the storage: windows may show an element at several places, or leave some out
    whole = empty_strided((n_bytes // dtype.itemsize,), (1,), dtype, n_bytes, device)
    whole = whole.normal_() if dtype.is_floating_point else whole.zero_()
    return reinterpret_tensor(whole, sizes, strides, offset)


def save_arguments(path, storages):
    """Keeps the bytes of a program's arguments, one after the other.

    Args:
        path: of the file.
        storages: the arguments'.
    """
    with open(path, "wb") as file:
        for storage in storages:
            flat = make_tensor(
                storage, (storage.nbytes(),), (1,), 0, all_dtypes()["uint8"]
            )
            flat = flat.cpu()
            file.write(ctypes.string_at(flat.data_ptr(), storage.nbytes()))


def saved_arguments(path, *looks):
    """The arguments that were kept beside a program's text.

    Args:
        path: of the file.
        looks: for each argument sizes, strides, offset, dtype, bytes of its storage, and
            where it is, if not on the host.
    """
    made = []
    with open(path, "rb") as file:
        for sizes, strides, offset, dtype, n_bytes, *device in looks:
            content = file.read(n_bytes)
            flat = empty_strided((n_bytes,), (1,), all_dtypes()["uint8"], n_bytes)
            ctypes.memmove(flat.data_ptr(), content, len(content))
            flat = flat.to(*device) if device else flat
            made.append(reinterpret_tensor(flat, sizes, strides, offset, dtype))
    return made


def benchmark_compiled_module(call, get_args, times=10, repeat=10):
    """Prints and gives the seconds that a program's call takes: the least of some means."""
    means = []
    for _ in range(repeat):
        batches = [get_args() for _ in range(times)]
        begun = perf_counter()
        for args in batches:
            call(args)
        means.append((perf_counter() - begun) / times)
    print(f"{min(means):.6f}")
    return min(means)


__all__ = [
    "Kernel",
    "as_given",
    "benchmark_compiled_module",
    "elementwise_kernel",
    "empty_strided",
    "epilogue",
    "fold_norm",
    "op",
    "pack_weight",
    "rand_strided",
    "reinterpret_tensor",
    "row_kernel",
    "save_arguments",
    "saved_arguments",
    "wrapped_number",
]
