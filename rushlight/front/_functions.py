"""Functions of the package that are Python rather than operators."""

from collections.abc import Sequence

from rushlight import _typed_storage
from rushlight._host_streams import Stream
from rushlight.autograd.methods import can_show
from rushlight.autograd.node import expect_other_types
from rushlight.core import dtype as dtypes
from rushlight.core import naming, state
from rushlight.core.dtype import INTEGER, DType
from rushlight.core.dtypes import int64
from rushlight.core.layout import MemoryFormat, contiguous_format
from rushlight.core.tensor import Tensor
from rushlight.core.truth import truth_of_argument
from rushlight.io import interop
from rushlight.io.dlpack import to_dlpack as _to_dlpack
from rushlight.io.interop import from_numpy
from rushlight.operators import call
from rushlight.operators.functions import as_tensor
from rushlight.operators.functions import tensor as make_tensor

legacy_contiguous_format = contiguous_format


class FatalError(Exception):
    """An error that a program can't go on from."""


max_pool1d_with_indices = call.max_pool1d_with_indices

# ---- types


def _expect_dtypes(function, **given):
    """Data types, of which Python's types of numbers are some."""
    for name, value in given.items():
        if not isinstance(value, DType) and value not in (bool, int, float, complex):
            raise naming.wrong_kind(function, name, f"{naming.package}.dtype", value)
    return [dtypes.by_python_type(value) for value in given.values()]


def can_cast(from_, to):
    """Whether values may be converted without changing category downwards.

    Args:
        from_: the type of the values.
        to: the type that they would get.

    >>> torch.can_cast(torch.float64, torch.float32)
    True
    >>> torch.can_cast(torch.float32, torch.int64)
    False
    """
    return dtypes.can_cast(*_expect_dtypes("can_cast", from_=from_, to=to))


def promote_types(type1, type2):
    """The smallest type that holds values of both.

    Args:
        type1, type2: the types.

    >>> import rushlight as rl
    >>> rl.promote_types(rl.uint8, rl.int8)
    rushlight.int16
    """
    return dtypes.promote_types(
        *_expect_dtypes("promote_types", type1=type1, type2=type2)
    )


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A one-dimensional tensor over an object's memory, not a copy.

    Args:
        buffer: an object with the buffer protocol, such as ``bytearray`` or ``mmap``.
        dtype: what the bytes are.
        count: elements to use; all that are there if negative.
        offset: bytes to leave out at the start.
        requires_grad: whether gradients are wanted.

    Raises:
        ValueError: the object has no memory to share, or it is empty or too small.
        TypeError: an argument is of another kind.

    >>> import rushlight as rl
    >>> rl.frombuffer(bytearray([1, 0, 2, 0]), dtype=rl.int16)
    tensor([1, 2], dtype=rushlight.int16)
    """
    (dtype,) = _expect_dtypes("frombuffer", dtype=dtype)
    for name, value in (("count", count), ("offset", offset)):
        if not hasattr(value, "__index__"):
            raise naming.wrong_kind("frombuffer", name, "int", value)
    if not isinstance(requires_grad, bool):
        raise naming.wrong_kind("frombuffer", "requires_grad", "bool", requires_grad)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    options = {"count": count, "offset": offset, "requires_grad": requires_grad}
    return interop.frombuffer(view, dtype=dtype, **options)


# ---- positions


def unravel_index(indices, shape):
    """Coordinates of positions in a flattened tensor of some shape.

    Args:
        indices: positions, of any integer type.
        shape: the sizes of the tensor, or the size of a vector.

    Returns:
        A tensor of the shape of ``indices`` for each dimension.

    Raises:
        TypeError: positions or sizes aren't integers.
        ValueError: a size is negative.
        RuntimeError: positions of a type that does not promote to int64.

    >>> import rushlight as rl
    >>> unravel_index(rl.tensor([3, 5]), (2, 3))
    (tensor([1, 1]), tensor([0, 2]))
    """
    if not isinstance(indices, Tensor):
        raise TypeError(
            f"unravel_index(): argument 'indices' must be Tensor, not "
            f"{type(indices).__name__}"
        )
    if indices.dtype.category != INTEGER:
        raise TypeError(
            f"expected 'indices' to be integer dtype, but got {indices.dtype}"
        )
    if not isinstance(shape, (int, Sequence)):
        raise TypeError(
            f"expected 'shape' to be int or sequence of ints, but got {type(shape)}"
        )
    sizes = [shape] if isinstance(shape, int) else list(shape)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(
                f"expected 'shape' sequence to only contain ints, but got {type(size)}"
            )
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    kind = dtypes.promote_types(indices.dtype, int64)
    indices = indices if indices.dtype is kind else indices.to(kind)
    return tuple(call.unravel_index(indices, [int(n) for n in sizes]))


# ---- memory of others


def to_dlpack(tensor):
    """A capsule that other libraries read the tensor's memory through.

    Args:
        tensor: the tensor.

    >>> x = torch.ones(2)
    >>> torch.from_dlpack(torch.to_dlpack(x)).data_ptr() == x.data_ptr()
    True
    """
    return _to_dlpack(tensor)


# ---- facts about a tensor


def is_inference(input):
    """Whether the tensor was made in inference mode.

    Args:
        input: the tensor.

    >>> with torch.inference_mode():
    ...     x = torch.ones(2)
    >>> torch.is_inference(x)
    True
    """
    return input.is_inference()


def is_distributed(input):
    """Whether the tensor's parts lie in several processes: never.

    Args:
        input: the tensor.

    >>> torch.is_distributed(torch.ones(2))
    False
    """
    return False


def _has_compatible_shallow_copy_type(input, from_):
    """Whether a tensor can show another one's memory, its object staying the same."""
    return can_show(input, from_)


def detach_(input):
    """Takes the tensor out of the graph that made it.

    Args:
        input: the tensor; it must not be a view.

    >>> x = torch.ones(2, requires_grad=True) * 2
    >>> torch.detach_(x).requires_grad
    False
    """
    return input.detach_()


# ---- switches of autograd


def is_anomaly_enabled():
    """Whether errors in backward tell of the forward call."""
    return state.is_anomaly_enabled()


def is_anomaly_check_nan_enabled():
    """Whether NaN in backward is an error while anomalies are looked for."""
    return state.is_anomaly_check_nan_enabled()


def set_anomaly_enabled(enabled, check_nan=True):
    """Looks for anomalies in backward, or no longer.

    Args:
        enabled: whether it does.
        check_nan: whether gradients that are no numbers are errors, too.

    Raises:
        TypeError: one is not a truth value.

    >>> torch.set_anomaly_enabled(False)
    >>> torch.is_anomaly_enabled()
    False
    """
    truth_of_argument("set_anomaly_enabled", "enabled", 1, enabled)
    truth_of_argument("set_anomaly_enabled", "check_nan", 2, check_nan)
    state.set_anomaly(enabled, check_nan)


# ---- control flow that is data


def sym_constrain_range(size, *, min=None, max=None):
    """Promises that a number lies within bounds.

    Args:
        size: the number.
        min, max: the bounds, included; None leaves one open.

    Raises:
        RuntimeError: it does not.

    >>> torch.sym_constrain_range(3, min=1, max=5)
    """
    low = -(1 << 63) if min is None else min
    high = (1 << 63) - 1 if max is None else max
    if high < low:
        raise RuntimeError(
            f"Max must be greater than or equal to min, got min={low} and max={high}"
        )
    from rushlight.ir.symbolic import SymInt

    if isinstance(size, SymInt) and size.follows:
        size.env.elements.within(size, low, high)
        return
    if not low <= size <= high:
        raise RuntimeError(f"Invalid value range for {size} between [{low}, {high}].")


def sym_constrain_range_for_size(size, *, min=None, max=None):
    """Promises that a number is a size within bounds.

    Args:
        size: the number.
        min, max: the bounds, included; None leaves one open.

    Raises:
        RuntimeError: it is not.

    >>> torch.sym_constrain_range_for_size(3, max=5)
    """
    if max is not None and max <= 2:
        raise RuntimeError(
            f"Max value to constrain_range_for_size must be greater than 2. got: {max}"
        )
    sym_constrain_range(size, min=min, max=max)


def sym_fresh_size(expr):
    """A size of which nothing is known yet: outside of a tracer, the number itself.

    Args:
        expr: the number.

    >>> torch.sym_fresh_size(3)
    3
    """
    return expr


# ---- tensors' own names


def dim_order(self, *, ambiguity_check=False):
    """The dimensions from the one with the largest step to the one with the least.

    Args:
        ambiguity_check: refuse where sizes of one, or equal steps, leave several orders;
            or a list of formats of which exactly one has to fit.

    Raises:
        RuntimeError: the order isn't the only one, and was to be.
    """
    if isinstance(ambiguity_check, bool):
        formats = None
    elif isinstance(ambiguity_check, (list, tuple)) and all(
        isinstance(each, MemoryFormat) for each in ambiguity_check
    ):
        formats = list(ambiguity_check)
    else:
        raise TypeError(
            "The ambiguity_check argument must be a bool or a list of memory formats."
        )
    steps = self.stride()
    unclear = any(size == 1 for size in self.shape) or len(set(steps)) < len(steps)
    if ambiguity_check and unclear:
        if formats is None:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one "
                "of the given memory formats."
            )
        if sum(self.is_contiguous(memory_format=each) for each in formats) != 1:
            raise RuntimeError("The tensor does not have unique dim order.")
    return tuple(sorted(range(self.dim()), key=lambda d: -steps[d]))


def _refuse_graph(self, name, what="self", position=0):
    if not isinstance(self, Tensor):
        raise TypeError(
            f"{name}(): argument '{what}' (position {position}) must be Tensor, "
            f"not {type(self).__name__}"
        )
    if self.requires_grad:
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use "
            f"var.detach().{name}() instead."
        )


def _write_numbers(self, numbers):
    fresh = make_tensor(numbers, dtype=self.dtype).reshape(self.shape)
    self.data.copy_(fresh)  # autograd does not hear of what these write
    return self


def apply_(self, callable):
    """Puts what a Python function makes of each element in its place.

    Raises:
        RuntimeError: the tensor requires gradients.
    """
    _refuse_graph(self, "apply_")
    numbers = self.detach().reshape(-1).tolist()
    return _write_numbers(self, [callable(number) for number in numbers])


def _other_operand(self, other, name, what):
    if other.type() != self.type():
        raise TypeError(
            f"{name}: expected {self.type()} for {what} (got {other.type()})"
        )
    return other.detach().expand(self.shape).reshape(-1).tolist()


def map_(self, tensor, callable):
    """Puts what a Python function makes of each pair of elements in the first's place.

    Raises:
        RuntimeError: a tensor requires gradients, or the sizes differ.
    """
    _refuse_graph(self, "map_")
    _refuse_graph(tensor, "map_", "other", 1)
    others = _other_operand(self, tensor, "map_", "'other'")
    numbers = self.detach().reshape(-1).tolist()
    return _write_numbers(self, [callable(*pair) for pair in zip(numbers, others)])


def map2_(self, x, y, callable):
    """`map_` of three tensors' elements."""
    _refuse_graph(self, "map2_")
    _refuse_graph(x, "map2_", "x", 1)
    _refuse_graph(y, "map2_", "y", 2)
    columns = (
        self.detach().reshape(-1).tolist(),
        _other_operand(self, x, "map2_", "argument 'x'"),
        _other_operand(self, y, "map2_", "argument 'y'"),
    )
    return _write_numbers(self, [callable(*row) for row in zip(*columns)])


def module_load(self, other, assign=False):
    """What a module's parameter becomes when it is loaded from another tensor.

    Args:
        other: the tensor from the file.
        assign: take its place rather than its numbers.
    """
    if assign:
        return other.detach()
    return self.detach().copy_(other)


def storage_type(self):
    """The class of the typed storage underneath."""
    _typed_storage.warn_of_removal()
    return _typed_storage.names()[_typed_storage.WORDS[self.dtype.name] + "Storage"]


def record_stream(self, s):
    """Tells the memory's owner of a stream that uses it: nothing, on the CPU.

    Args:
        s: the stream; of the tensor's device.
    """
    if self.is_cuda and hasattr(s, "_queue"):
        from rushlight.cuda.streams import use_in  # not what every program uses

        return use_in(self, s._queue)
    if not isinstance(s, Stream):
        raise RuntimeError("unknown parameter type")


def resize(self, *sizes):
    """The same elements in another shape; deprecated for ``reshape``."""
    listed = len(sizes) == 1 and isinstance(sizes[0], (tuple, list))
    return call.resize(self, list(sizes[0] if listed else sizes))


def resize_as(self, tensor):
    """The same elements in the shape of another tensor; deprecated for ``reshape``."""
    return call.resize_as(self, tensor)


def array_wrap(self, array, context=None, return_scalar=False):
    """What NumPy's functions make of a tensor, as a tensor."""
    if array.dtype == bool:
        array = array.astype("uint8")  # as before there were tensors of truth values
    return from_numpy(array) if array.ndim else as_tensor(array)


def reversed_rows(self):
    """The tensor with its first dimension the other way round."""
    return self if self.dim() == 0 else self.flip(0)


def right_divided(self, *others):
    """``other / self``; of anything else Python is told that there is no answer."""
    if len(others) != 1:
        return NotImplemented
    try:
        return self.reciprocal() * others[0]
    except TypeError:
        return NotImplemented


right_divided.__name__ = "__rdiv__"
reversed_rows.__name__ = "__reversed__"


def to_padded_tensor(self, padding, output_size=None):
    """Refused: nested tensors have a method of their own.

    Raises:
        NotImplementedError: the tensor is not nested.
    """
    raise NotImplementedError(
        "Could not run 'aten::to_padded_tensor' with arguments from the 'CPU' backend: "
        "only nested tensors are filled up\n  remedy: nested.nested_tensor of the parts"
    )


def index(self, positions, dims):
    """Elements at positions along named dimensions; other dimensions stay whole."""
    dims = dims if isinstance(dims, (tuple, list)) else (dims,)
    positions = positions if isinstance(positions, (tuple, list)) else (positions,)
    whole: list = [slice(None)] * self.dim()
    for place, dim in zip(positions, dims):
        whole[dim] = place
    return self[tuple(whole)]


def grad_dtype(self):
    """The type that gradients are kept in: the tensor's own unless set; None for any."""
    return self.__dict__.get("_grad_dtype", self.dtype)


def set_grad_dtype(self, dtype):
    """Lets gradients of a leaf be of another type, or of any.

    Raises:
        RuntimeError: the tensor is no leaf, or holds a gradient of another type.
    """
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if dtype is not None and not isinstance(dtype, DType):
        raise RuntimeError(
            f"grad_dtype must be a torch.dtype or None, but got {type(dtype).__name__}"
        )
    if dtype is not None and self.grad is not None and self.grad.dtype is not dtype:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{dtype}' because there is already a gradient "
            f"assigned with dtype '{self.grad.dtype}'. Please clear the gradient (.grad "
            "= None) before changing grad_dtype."
        )
    expect_other_types()
    self._grad_dtype = dtype


def const_data_ptr(self):
    """The address of the first element, for those who only read."""
    return self.data_ptr()


def methods():
    """Names and values for ``Tensor``."""
    yield from (
        ("dim_order", dim_order),
        ("apply_", apply_),
        ("map_", map_),
        ("map2_", map2_),
        ("module_load", module_load),
        ("storage_type", storage_type),
        ("record_stream", record_stream),
        ("index", index),
        ("is_distributed", is_distributed),
        ("is_nested", False),
        ("_dimI", lambda self: self.sparse_dim()),
        ("_dimV", lambda self: self.dense_dim()),
        ("name", None),
        ("_cdata", property(id)),  # a number of its own, as an address is
        ("to_padded_tensor", to_padded_tensor),
        ("const_data_ptr", const_data_ptr),
        ("grad_dtype", property(grad_dtype, set_grad_dtype)),
        ("resize", resize),
        ("resize_as", resize_as),
        ("__array_wrap__", array_wrap),
        ("__reversed__", reversed_rows),
        ("__rdiv__", right_divided),
    )


def __getattr__(name):
    if name == "Storage":
        return _typed_storage.names()["FloatStorage"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
