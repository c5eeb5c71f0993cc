"""A group's kernel as a launch on a device whose backend compiles: a device.

What a group computes is the host's expression; the backend says how that is launched. A
`Launch` holds all that is the same each time, and a program hands it addresses and numbers.
"""

import ctypes
from math import prod

from rushlight.codegen.frontend.nest import STRIDED, arrange
from rushlight.core.device import backend_for
from rushlight.core.dtype import all_dtypes
from rushlight.core.tensor import Tensor

MOST_INTEGERS = 64  # of one launch
MOST_NUMBERS = 12
WIDTH = 8  # the bytes of an integer


class TooMany(Exception):
    """A group has more operands, or loops, than kernels have."""


class Launch:
    """A kernel of a program on another device than the host.

    Args:
        device: where it runs.
        operands: for each of the kernel's pointers a place and a shift, or a number: a
            tensor of one element, or ``("number", index, code)`` for a parameter.

    Attributes:
        numbers: bytes, or a parameter's index and its type, for each that is one.
        varies: whether some are parameters.
    """

    def __init__(self, device, operands):
        self.device, self.backend = device, backend_for(device)
        self.operands = operands
        found = [(k, number_of(one)) for k, one in enumerate(operands)]
        self.positions = [k for k, one in found if one is not None]
        self.numbers = [one for _, one in found if one is not None]
        self.varies = any(type(one) is tuple for one in self.numbers)
        if len(self.numbers) > MOST_NUMBERS:
            raise TooMany

    def words(self, params, width):
        """The numbers as bytes, each filled up to a width."""
        made = b""
        for one in self.numbers:
            if type(one) is tuple:
                one = bytes(one[1](params[one[0]]))
            made += one.ljust(width, b"\0")
        return made


class Elements(Launch):
    """A kernel that goes element by element.

    Args:
        sizes: of the loops, innermost first.
        strides: for each operand its byte steps along them.
    """

    def __init__(self, kernel, device, operands, sizes, strides):
        super().__init__(device, operands)
        if len(sizes) * (1 + len(operands)) > MOST_INTEGERS:
            raise TooMany
        self.kernel, self.sizes, self.total = kernel, tuple(sizes), prod(sizes)
        alone = set(self.positions)
        self.strides = tuple(
            None if k in alone else tuple(row) for k, row in enumerate(strides)
        )

    def __call__(self, addresses, params):
        self.backend.launch.run_elements(
            *(self.kernel, self.device, addresses, self.sizes, self.strides),
            *(self.words(params, 16), self.total),
        )


class Rows(Launch):
    """A kernel over rows; its numbers are the last of its integers.

    Args:
        found: the loops; see `rushlight.codegen.frontend.nest.arrange`.
        length: how many values a row has.
    """

    def __init__(self, kernel, device, operands, found, length):
        super().__init__(device, operands)
        if len(found.integers) + len(self.numbers) > MOST_INTEGERS:
            raise TooMany
        self.kernel, self.integers = kernel, tuple(found.integers)
        self.rows, self.length = found.rows, length
        self.strided = found.key[1] == STRIDED
        first = len(self.integers)
        self.held = tuple((k, first + n) for n, k in enumerate(self.positions))

    def __call__(self, addresses, params):
        words = memoryview(self.words(params, WIDTH)).cast("q")
        self.backend.launch.run_rows(
            *(self.kernel, self.device, tuple(a or 0 for a in addresses)),
            *(
                (*self.integers, *words),
                self.rows,
                self.length,
                self.strided,
                self.held,
            ),
        )


def number_of(operand):
    """A number's bytes, or a parameter's index and type; None for what is in memory."""
    if isinstance(operand, Tensor):
        size = operand.dtype.itemsize
        return bytes(operand.untyped_storage().tolist()[:size])
    if operand[0] != "number":
        return None
    _, index, code = operand
    wide = code == all_dtypes()["float64"].code
    return index, ctypes.c_double if wide else ctypes.c_float


def elements_of(source, types, choices, device, operands, loops):
    """The launch of a kernel that goes element by element.

    Args:
        source: the kernel's description.
        types: the dtypes of inputs and outputs.
        choices: what it computes in, and its compile-time arguments.
        operands: see `Launch`, outputs first.
        loops: sizes, innermost first, and each operand's steps along them.
    """
    kernel = backend_for(device).launch.specialize(source, *types, *choices)
    sizes, strides = loops
    if not sizes:
        sizes, strides = [1], [[0]] * len(operands)
    return Elements(kernel, device, operands, sizes, strides)


def rows_of(source, types, device, operands, group, strides, items):
    """The launch of a group's nest of loops.

    Args:
        strides: each operand's byte steps over the group's sizes.
        items: bytes of an element of each.

    Raises:
        TooMany: a row has too many loops.
    """
    along = [group.sizes[d] for d in group.axes]
    kept = [d for d in range(len(group.sizes)) if d not in group.axes]
    order = [*kept, *group.axes]
    found = arrange(
        [group.sizes[d] for d in kept],
        along,
        [[row[d] for d in order] for row in strides],
        items,
        len(types[1]),
    )
    if found is None:
        raise TooMany
    kernel = backend_for(device).launch.specialize(source, *types, types[0], found)
    return Rows(kernel, device, operands, found, prod(along))
