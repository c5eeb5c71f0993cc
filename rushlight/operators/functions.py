"""Functions that are not operators: tensors of data, common shapes, what a tensor is."""

import functools
import warnings

from rushlight.core import naming
from rushlight.core.device import get_default_device
from rushlight.core.dtype import by_python_type, get_default_dtype, promote_types
from rushlight.core.factories import from_sequence
from rushlight.core.facts import with_requires_grad
from rushlight.core.layout import Size
from rushlight.core.naming import wrong_kind
from rushlight.core.state import OverridesScope, is_transforming
from rushlight.core.storage import UntypedStorage
from rushlight.core.tensor import Tensor
from rushlight.core.warning import warn
from rushlight.dispatch import python_key
from rushlight.dispatch.kernels import promoted_type
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.dispatch.overridable import open_plain
from rushlight.io import dlpack, interop
from rushlight.operators import call
from rushlight.runtime import pinned


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A fresh tensor that copies ``data``.

    Args:
        data: numbers, nested sequences, an array or a tensor.
        dtype: the type of the elements; by default what the data suggest.

    Raises:
        ValueError: sequences of one level differ in length.

    >>> tensor([[1, 2], [3, 4]]).shape
    rushlight.Size([2, 2])
    """
    if dtype is not None:
        dtype = by_python_type(dtype)
    if device is None and not _has_place(data):
        device = get_default_device()
    if python_key.active() and _has_open_number(data):
        result = _of_open_numbers(data, dtype, device)
        return result.requires_grad_() if requires_grad else result
    memory = _over_storage(data, dtype)
    if memory is not None:
        result = memory.to(device)
    elif isinstance(data, Tensor):
        warn_of_copy("torch.tensor")
        with OverridesScope(2):  # nobody is asked, and the copy is of no type
            result = data.detach().clone().to(dtype=dtype or data.dtype)
            if device is not None:
                result = result.to(device)
    elif interop.is_numpy_number(data):
        result = from_sequence(data, dtype, device)
    elif hasattr(data, "__cuda_array_interface__"):
        shared = interop.over_cuda_array(data)
        result = shared.clone().to(dtype=dtype or shared.dtype, device=device)
    elif hasattr(data, "__array_interface__") or hasattr(data, "__array__"):
        import numpy

        result = interop.seen_array(numpy.asarray(data)).clone()
        if dtype is not None or device is not None:
            result = result.to(dtype=dtype or result.dtype, device=device)
    else:
        result = from_sequence(data, dtype, device)
    if python_key.active():
        result = call.lift_fresh(result)
    elif is_transforming():
        result = call.lift_fresh_copy(result)  # a value of the transform's own
    result = pinned(result) if pin_memory else result
    return with_requires_grad(result, requires_grad)


def _is_symbolic(number):
    """Whether a number stands for any: a size of a program that is recorded, say."""
    return hasattr(type(number), "_as_argument") and not isinstance(number, int)


def _has_open_number(data):
    if isinstance(data, (list, tuple)):
        return any(map(_has_open_number, data))
    return _is_symbolic(data)


def _of_open_numbers(data, dtype, device):
    """A tensor of numbers that are stacked by steps: some are not known."""
    if isinstance(data, (list, tuple)):
        rows = [_of_open_numbers(one, dtype, device) for one in data]
        kind = functools.reduce(promote_types, [one.dtype for one in rows])
        return call.stack([one.to(kind) for one in rows])
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    known = data._as_argument() if _is_symbolic(data) else data
    kind = dtype or from_sequence(known, None, None).dtype
    return call.scalar_tensor(data, dtype=kind, device=device)


def warn_of_copy(name):
    """Says how a tensor is copied without this function."""
    warn(
        "To copy construct from a tensor, it is recommended to use "
        "sourceTensor.detach().clone() or "
        f"sourceTensor.detach().clone().requires_grad_(True), rather than {name}"
        "(sourceTensor)."
    )


def _has_place(data):
    """Whether data are where they are, whatever the default device is: on a device, say."""
    if isinstance(data, (list, tuple, int, float)):
        return False
    if isinstance(data, Tensor) or hasattr(data, "__cuda_array_interface__"):
        return True
    return (
        hasattr(data, "__dlpack_device__") and data.__dlpack_device__()[0] != dlpack.CPU
    )


def _over_storage(data, dtype):
    """A tensor over the memory of a storage, typed or not; None for anything else.

    Raises:
        RuntimeError: the storage's type is not the tensor's.
    """
    if getattr(data, "_is_typed_storage", False):
        dtype = dtype or get_default_dtype()
        if data.dtype is not dtype:
            wanted, found = TYPE_NAMES[dtype.name], TYPE_NAMES[data.dtype.name]
            raise RuntimeError(
                f"Expected a Storage of type {wanted} or an UntypedStorage, but got "
                f"{found}\n  remedy: dtype={data.dtype}"
            )
        data = data.untyped()
    if not isinstance(data, UntypedStorage):
        return None
    if dtype is None and not data.nbytes():  # of no elements no type is seen
        dtype = get_default_dtype()
    return interop.of_storage(data, dtype)


def as_tensor(data, dtype=None, device=None):
    """``data`` as a tensor, without a copy where the memory can be shared.

    Args:
        data: a tensor, a number, nested sequences of numbers, or an array.
        dtype: the data type; by default that of the data.
        device: where the result lies; by default where the data are.

    >>> as_tensor([1, 2], dtype=rl.float32)
    tensor([1., 2.])
    """
    if device is None and not _has_place(data):
        device = get_default_device()
    if python_key.active() and _has_open_number(data):
        return _of_open_numbers(data, dtype, device)
    memory = _over_storage(data, dtype)
    if memory is not None:
        result = memory
    elif isinstance(data, Tensor):
        result = data
    elif hasattr(data, "__cuda_array_interface__"):
        result = interop.over_cuda_array(data)
    elif hasattr(data, "__array_interface__") and not interop.is_numpy_number(data):
        import numpy

        result = interop.from_numpy(numpy.asarray(data))
    else:
        return tensor(data, dtype=dtype, device=device)
    if dtype is not None and result.dtype is not dtype:
        result = result.to(dtype)
    return result if device is None else result.to(device)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """``obj`` as a tensor that shares its memory where it can.

    Args:
        obj: a tensor, an array, an object with a buffer, numbers or sequences.
        copy: True for memory of its own, False to refuse a copy.
        requires_grad: whether the result does, by default as ``obj``, which warns
            where that is True.

    Raises:
        ValueError: a copy is needed and was refused.

    >>> asarray([1, 2])
    tensor([1, 2])
    """
    dtype = None if dtype is None else by_python_type(dtype)
    shared = True
    if device is None and not _has_place(obj):
        device = get_default_device()
    memory = _over_storage(obj, dtype)
    if memory is not None:
        result = memory
    elif isinstance(obj, Tensor):
        result = obj
    elif hasattr(obj, "__array_interface__") and getattr(obj, "ndim", 0):
        result = interop.from_numpy(obj)
    elif hasattr(obj, "__cuda_array_interface__"):
        result = interop.over_cuda_array(obj)
    elif hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        result = dlpack.from_dlpack(obj)
    elif interop.is_numpy_number(obj):
        shared, result = False, tensor(obj)  # of its own type, then cast
    elif interop.has_buffer(obj):
        result = interop.frombuffer(obj, dtype=dtype or get_default_dtype())
    else:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        shared, result = False, tensor(obj, dtype=dtype, device=device)
    wanted = dtype or result.dtype
    if copy is False and wanted is not result.dtype:
        raise ValueError(
            f"can't alias tensor with dtype '{result.dtype}' into dtype '{wanted}'."
        )
    result = result.to(dtype=wanted, device=device)
    if shared and copy:
        result = result.clone()
    if requires_grad is None:
        requires_grad = getattr(obj, "requires_grad", False)
        if requires_grad:
            warnings.warn(
                "asarray: requires_grad was not given and is taken from the tensor; "
                "pass requires_grad=False for a result outside the graph",
                stacklevel=2,
            )
    if requires_grad and not result.requires_grad:
        result = with_requires_grad(result.detach() if result is obj else result)
    elif not requires_grad and result.requires_grad:
        result = result.detach()
    return result


def _is_open(size):
    """Whether a size is a symbol of a program, whose module few programs import."""
    if type(size) is int:
        return False
    from rushlight.ir.symbolic import SymInt

    return isinstance(size, SymInt)


def broadcast_shapes(*shapes):
    """The one shape that every given shape expands to.

    Args:
        shapes: sizes each.

    Raises:
        RuntimeError: something is no shape, or two sizes differ and neither is 1.
        ValueError: a size is negative.
        TypeError: a size is no integer.

    >>> broadcast_shapes((5, 1, 3), (4, 1))
    rushlight.Size([5, 4, 3])
    """
    listed = [(s,) if isinstance(s, int) else s for s in shapes if s is not None]
    for shape in listed:
        if not isinstance(shape, (tuple, list, str, bytes, range)):
            raise RuntimeError(
                "Input shapes should be of type ints, a tuple of ints, or a list of "
                f"ints, got {shape}"
            )
    common = [1] * max(map(len, listed), default=0)
    for at, shape in enumerate(listed):
        for place in range(-1, -1 - len(shape), -1):
            size = shape[place]
            if not isinstance(size, (int, float, str, tuple, list)) and not _is_open(
                size
            ):
                raise TypeError(f"sizes are integers, but got {type(size).__name__}")
            if size == common[place]:
                continue
            if common[place] == 1:
                if isinstance(size, (str, tuple, list)):
                    raise TypeError(
                        f"'<' not supported between instances of '{type(size).__name__}' "
                        "and 'int'"
                    )
                if not _is_open(size) and size < 0:
                    raise ValueError(
                        "Attempting to broadcast a dimension with negative length!"
                    )
                common[place] = size
            elif size != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {size} at {place}! "
                    f"Mismatching argument at index {at} had {shape}; but expected "
                    f"shape should be broadcastable to {common}"
                )
    for size in common:
        if not isinstance(size, int) and not _is_open(size):
            raise TypeError(f"sizes are integers, but got {type(size).__name__}")
    if any(isinstance(size, int) and size >= 1 << 63 for size in common):
        raise ValueError("Overflow when unpacking long long")
    return Size(common)


def is_tensor(obj, /):
    """Whether ``obj`` is a tensor.

    Args:
        obj: any value.

    >>> is_tensor(1.0)
    False
    """
    return isinstance(obj, Tensor)


def numel(input):
    """The number of elements.

    Args:
        input: the tensor.

    >>> numel(rl.ones(2, 3))
    6
    """
    if not isinstance(input, Tensor):
        raise wrong_kind("numel", "input", "Tensor", input)
    return input.numel()


def is_floating_point(input):
    """Whether the elements are real floating-point numbers.

    Args:
        input: the tensor.

    >>> is_floating_point(rl.tensor([1.0]))
    True
    """
    if not isinstance(input, Tensor):
        raise wrong_kind("is_floating_point", "input", "Tensor", input)
    return input.is_floating_point()


def is_complex(input):
    """Whether the elements are complex numbers.

    Args:
        input: the tensor.

    >>> is_complex(rl.tensor([1j]))
    True
    """
    if not isinstance(input, Tensor):
        raise wrong_kind("is_complex", "input", "Tensor", input)
    return input.is_complex()


def is_signed(input):
    """Whether the elements' type has negative numbers.

    Args:
        input: the tensor.

    >>> is_signed(rl.zeros(1, dtype=rl.uint8))
    False
    """
    return input.is_signed()


def get_device(input):
    """The number of the tensor's device; -1 for the CPU.

    Args:
        input: the tensor.

    >>> torch.get_device(torch.ones(2))
    -1
    """
    return input.get_device()


def is_nonzero(input):
    """Whether the one element differs from zero.

    Args:
        input: a tensor of one element.

    >>> is_nonzero(rl.tensor([2.0]))
    True
    """
    return bool(input)


def result_type(tensor, other):
    """The type that arithmetic on the two would have.

    Args:
        tensor: a tensor or a number.
        other: another one.

    >>> result_type(rl.tensor([1, 2]), 1.0)
    rushlight.float32
    """
    for name, value in (("tensor", tensor), ("other", other)):
        if not isinstance(value, (Tensor, int, float, complex)):
            raise wrong_kind("result_type", name, "Tensor or Number", value)
    return promoted_type((tensor, other))


def is_conj(input):
    """Whether the tensor is a conjugate that was put off.

    Args:
        input: the tensor.

    >>> torch.is_conj(torch.tensor([1j]).conj())
    True
    """
    return input.is_conj()


def is_neg(input):
    """Whether the tensor is a negative that was put off.

    Args:
        input: the tensor.

    >>> torch.is_neg(torch.tensor([1j]).conj().imag)
    True
    """
    return input.is_neg()


# What the package itself calls: no type and no mode takes it.
plain_tensor = tensor
# Functions of this module whose calls types and modes may take.
_OVERRIDABLE = (
    "as_tensor",
    "asarray",
    "get_device",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_neg",
    "is_nonzero",
    "is_signed",
    "numel",
    "result_type",
    "tensor",
)
open_plain(
    globals(), _OVERRIDABLE, naming.package, modal=("as_tensor", "asarray", "tensor")
)
