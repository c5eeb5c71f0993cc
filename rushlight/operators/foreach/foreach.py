"""Operators over lists of tensors: each runs once for every tensor.

A launch costs so little on the host that a loop over the tensors is what a kernel over all
of them would save elsewhere; a device's backend puts the launches together. Overrides,
autograd and transformations see the operator on every tensor, and need to know nothing of
lists.
"""

from rushlight.core.device import backend_for
from rushlight.core.tensor import Tensor
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import scalar_name
from rushlight.operators.shared import require_on_host


def over(name):
    """The operator of a name over lists.

    Every argument that is a list gives each tensor its own value, every other one is
    the same for all; those that the operator takes by keyword alone go by theirs.
    """
    run = getattr(ops, name)
    rows = run.overloads[0].signature.rows
    keywords = tuple(row[0] for row in rows if row[3])
    by_place = len(rows) - len(keywords)

    def function(self, *args):
        return run_each(run, self, args, *keywords[: 1 + len(args) - by_place])

    return function


def over_(name):
    """The same, written into the first list."""
    function = over(name + "_")

    def changing(self, *args):
        function(self, *args)
        return self

    return changing


def run_each(run, tensors, args, *keywords):
    """The results of an operator on every tensor; the last arguments go by keywords."""
    rows = pairs(tensors, args)
    by_place = 1 + len(args) - len(keywords)
    with backend_for(tensors[0].device).launch.together():
        return [
            run(*row[:by_place], **dict(zip(keywords, row[by_place:], strict=True)))
            for row in rows
        ]


def pairs(tensors, args):
    """The arguments of each call.

    Raises:
        RuntimeError: there is no tensor, or a list is longer or shorter than the first.
    """
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    count = len(tensors)
    columns = [tensors]
    for arg in args:
        if not isinstance(arg, (list, tuple)):
            columns.append([arg] * count)
            continue
        if len(arg) != count:
            if arg and not isinstance(arg[0], Tensor):
                raise RuntimeError(
                    "Tensor list must have same number of elements as scalar list."
                )
            raise RuntimeError(
                "Tensor lists must have the same number of tensors, got "
                f"{count} and {len(arg)}"
            )
        columns.append(arg)
    return zip(*columns, strict=True)


def with_one(name, make=over):
    """The operator whose second operand is one tensor of no dimension."""
    function = make(name)

    def checked(self, other, *factor):
        return function(self, single(other), *factor)

    return checked


def with_one_(name):
    """The same, written into the first list."""
    return with_one(name, over_)


def single(other):
    """A tensor of no dimension.

    Raises:
        RuntimeError: it has some.
    """
    if other.ndim:
        raise RuntimeError(
            f"scalar tensor expected to be 0 dim but it has {other.ndim} dimensions and "
            f"{other.numel()} elements."
        )
    return other


def packed(name, make=over):
    """The operator whose numbers come as a vector."""
    function = make(name)

    def unpacked(self, tensor1, tensor2, scalars):
        return function(self, tensor1, tensor2, numbers(scalars, self))

    return unpacked


def packed_(name):
    """The same, written into the first list."""
    return packed(name, over_)


def numbers(scalars, tensors):
    """A vector's elements.

    Raises:
        RuntimeError: it is no vector of as many elements as there are tensors, lies
            elsewhere than in the host's memory or not element by element.
    """
    require_on_host(
        scalars.device, "Expected scalars to be on CPU, got {device.type} instead."
    )
    if not scalars.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous.")
    if scalars.ndim != 1:
        raise RuntimeError(
            "Expected packed scalar Tensor to be of dimension 1. "
            f"Got {scalars.ndim} instead."
        )
    if len(scalars) != len(tensors):
        raise RuntimeError(
            f"Expected length of scalars to match input of length {len(tensors)} "
            f"but got {len(scalars)} instead."
        )
    return scalars.tolist()


def mm_each(self, mat2):
    """The matrix products of the tensors of two lists, pair by pair.

    Raises:
        RuntimeError: there is no tensor, or the lists differ in length.
    """
    if not self or not mat2:
        raise RuntimeError("_foreach_mm requires non-empty tensor lists")
    return [ops.mm(left, right) for left, right in pairs(self, (mat2,))]


def power_of_number_each(self, exponent):
    """One number to the powers of every tensor."""
    return [ops.pow(self, power) for (power,) in pairs(exponent, ())]


def norm_each(self, ord, dtype):
    """The norm of every tensor, all its elements as one vector."""
    return [
        ops.linalg_vector_norm(x, ord, None, False, dtype=dtype)
        for (x,) in pairs(self, ())
    ]


def powsum_each(self, ord, dtype):
    """The sum of every tensor's absolute values to a power.

    Raises:
        NotImplementedError: a tensor is of a type without fractions.
    """
    sums = []
    for (x,) in pairs(self, ()):
        x = x if dtype is None else x.to(dtype)
        if not (x.is_floating_point() or x.is_complex()):
            raise NotImplementedError(
                f"\"powsum_cpu\" not implemented for '{scalar_name(x.dtype)}'"
            )
        sums.append(ops.sum(ops.pow(ops.abs(x), ord)))
    return sums


def max_each(self):
    """The largest element of every tensor.

    Raises:
        RuntimeError: a tensor has no element.
    """
    largest = []
    for (x,) in pairs(self, ()):
        if x.numel() == 0:
            raise RuntimeError(
                "_foreach_max cannot compute the maximum of an empty tensor; "
                "max over zero elements is undefined."
            )
        largest.append(ops.max(x))
    return largest


def clone_each(self, memory_format):
    """A copy of every tensor."""
    return [ops.clone(x, memory_format=memory_format) for (x,) in pairs(self, ())]


def copy_each(self, src, non_blocking):
    """The tensors of another list in the shapes and types of the first."""
    return [
        ops.copy_(ops.empty_like(x), y, non_blocking) for x, y in pairs(self, (src,))
    ]


def zero_each(self):
    """Zeros as every tensor is."""
    return [ops.zeros_like(x) for (x,) in pairs(self, ())]
