"""Ties the layers together: methods of ``Tensor`` that are not operators."""

from __future__ import annotations

import warnings

from rushlight import _helpers, legacy
from rushlight.autograd import methods as _autograd
from rushlight.core import facts, indexing, interop, naming, pickling, printing, views
from rushlight.core.device import Device, get_default_device
from rushlight.core.dtype import by_python_type, get_default_dtype
from rushlight.core.factories import from_sequence
from rushlight.core.layout import Size, contiguous_format, strided
from rushlight.core.state import silence_overrides
from rushlight.core.subclass import (
    become,
    make_subclass,
    make_wrapper,
    take_dispatch,
)
from rushlight.core.tensor import Tensor, bind_slots, install
from rushlight.dispatch import deferred, python_key
from rushlight.dispatch.disabled import _disabled_torch_dispatch_impl
from rushlight.dispatch.overridable import (
    Attribute,
    method,
    open_functions,
    watch_attributes,
)
from rushlight.ops import call, view


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
    if device is None and not isinstance(data, Tensor):
        device = get_default_device()
    if isinstance(data, legacy.TypedStorage):
        data = data.tolist()
    if isinstance(data, Tensor):
        result = data.detach().clone().to(dtype=dtype or data.dtype)
        if device is not None:
            result = result.to(device)
    elif interop.is_numpy_number(data):
        result = from_sequence(data, dtype, device)
    elif hasattr(data, "__array_interface__") or hasattr(data, "__array__"):
        import numpy

        result = interop.seen_array(numpy.asarray(data)).clone()
        if dtype is not None or device is not None:
            result = result.to(dtype=dtype or result.dtype, device=device)
    else:
        result = from_sequence(data, dtype, device)
    if python_key.active():
        result = call.lift_fresh(result)
    return result.requires_grad_() if requires_grad else result


def as_tensor(data, dtype=None, device=None):
    """``data`` as a tensor, without a copy where the memory can be shared."""
    if device is None and not isinstance(data, Tensor):
        device = get_default_device()
    if isinstance(data, Tensor):
        result = data
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
    if device is None and not isinstance(obj, Tensor):
        device = get_default_device()
    if isinstance(obj, Tensor):
        result = obj
    elif hasattr(obj, "__array_interface__") and getattr(obj, "ndim", 0):
        result = interop.from_numpy(obj)
    elif hasattr(obj, "__dlpack__"):
        result = interop.from_dlpack(obj)
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
        result = (result.detach() if result is obj else result).requires_grad_()
    elif not requires_grad and result.requires_grad:
        result = result.detach()
    return result


def broadcast_shapes(*shapes):
    """The one shape that every given shape expands to.

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
            if not isinstance(size, (int, float, str)):
                raise TypeError(f"sizes are integers, but got {type(size).__name__}")
            if size == common[place]:
                continue
            if common[place] == 1:
                if isinstance(size, str):
                    raise TypeError(
                        "'<' not supported between instances of 'str' and 'int'"
                    )
                if size < 0:
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
        if not isinstance(size, int):
            raise TypeError(f"sizes are integers, but got {type(size).__name__}")
    if any(size >= 1 << 63 for size in common):
        raise ValueError("Overflow when unpacking long long")
    return Size(common)


def is_tensor(obj, /):
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, Tensor)


def numel(input):
    """The number of elements."""
    return input.numel()


def is_floating_point(input):
    """Whether the elements are real floating-point numbers."""
    return input.is_floating_point()


def is_complex(input):
    """Whether the elements are complex numbers."""
    return input.is_complex()


def is_signed(input):
    """Whether the elements' type has negative numbers."""
    return input.is_signed()


def get_device(input):
    """The number of the tensor's device; -1 for the CPU."""
    return input.get_device()


def is_nonzero(input):
    """Whether the one element differs from zero."""
    return bool(input)


def result_type(tensor, other):
    """The type that arithmetic on the two would have."""
    from rushlight.dispatch.kernels import promoted_type

    return promoted_type((tensor, other))


def _legacy_init(self, *args, dtype=None, device=None):
    """``Tensor(2, 3)``: uninitialised sizes; ``Tensor([1, 2])``: data as floats."""
    data = args[0] if len(args) == 1 else None
    if isinstance(data, Tensor):
        source = data
    else:
        source = legacy.construct(get_default_dtype(), args, tensor, device)
    views.set_source(self, source)
    take_dispatch(self)


def _type(self, dtype=None, non_blocking=False):
    """The data type's old name, or a conversion to another type."""
    if dtype is None:
        return legacy.type_name(self)
    return self.to(legacy.dtype_of_type(dtype))


def _new(self, *args, device=None):
    """A tensor of this one's dtype: sizes, or a sequence's numbers."""
    return legacy.construct(self.dtype, args, tensor, device)


# Functions of this module whose calls types and modes may take.
_OPEN = (
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
# Methods that the compiled type brings along.
_CORE_METHODS = (
    "data_ptr",
    "dim",
    "item",
    "numel",
    "requires_grad_",
    "size",
    "stride",
    "untyped_storage",
)
# The others that only say something of a tensor.
_FACTS = (
    "_is_view",
    "element_size",
    "get_device",
    "is_complex",
    "is_contiguous",
    "is_floating_point",
    "is_inference",
    "is_set_to",
    "is_signed",
    "storage_offset",
    "tolist",
)
_HOOK_ATTRIBUTES = {
    "retains_grad": _autograd.retains_grad,
    "_backward_hooks": _autograd.backward_hooks,
    "_post_accumulate_grad_hooks": _autograd.post_accumulate_hooks,
}
_AUTOGRAD_METHODS = (
    "detach_",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "retain_grad",
)


def _methods():
    """Names and functions for ``Tensor``."""
    yield "numpy", lambda self, *, force=False: interop.to_numpy(self, force)
    yield "__dlpack__", interop.to_dlpack
    yield "__dlpack_device__", interop.dlpack_device
    yield "T", Attribute("T", view.reversed_dims)
    yield "mT", Attribute("mT", view.transposed)
    yield "H", Attribute("H", view.matrix_h)
    yield "mH", Attribute("mH", view.matrices_h)
    yield "real", Attribute("real", call.real, _set_real)
    yield "imag", Attribute("imag", call.imag, _set_imag)
    yield "ndimension", Tensor.dim
    yield "nelement", Tensor.numel
    yield "is_conj", deferred.is_conj
    yield "is_neg", deferred.is_neg
    yield "type", _type
    yield "cpu", lambda self, memory_format=None: self.to("cpu")
    yield (
        "cuda",
        lambda self, device=None, non_blocking=False: self.to(
            "cuda" if device is None else device
        ),
    )
    # Kinds of memory that there are elsewhere.
    for kind in "ipu maia mkldnn mps mtia vulkan xla xpu".split():
        yield f"is_{kind}", False
    yield "is_pinned", _is_pinned
    yield "pin_memory", _pinned
    yield "xpu", _xpu
    yield (
        "new_tensor",
        lambda self, data, *, dtype=None, device=None, requires_grad=False: tensor(
            data,
            dtype=dtype or self.dtype,
            device=device or self.device,
            requires_grad=requires_grad,
        ),
    )
    yield "storage", legacy.storage
    yield "_typed_storage", legacy.typed_storage
    yield "new", _new
    yield "set_", legacy.set_
    yield from _helpers.methods()
    yield "__tensor_flatten__", None
    yield "__array_priority__", 1000  # NumPy's numbers leave operators to tensors


def _set_attributes(self, attributes):
    """Gives a tensor another dictionary of attributes."""
    if not isinstance(attributes, dict):
        raise TypeError(
            f"__dict__ must be set to a dictionary, not a '{type(attributes).__name__}'"
        )
    from ctypes import py_object, pythonapi  # the compiled type has no such setter

    put = pythonapi.PyObject_GenericSetDict
    put.argtypes = py_object, py_object, py_object
    put(self, attributes, None)


def _is_pinned(self, device=None):
    """Whether a tensor lies in page-locked memory."""
    from rushlight.ops import conversion  # which brings the kernels' compiler

    return conversion.is_pinned(self)


def _pinned(self, device=None):
    """A copy in page-locked memory; the tensor itself where there is no GPU."""
    import rushlight
    from rushlight.ops import conversion

    return conversion.pin_memory(self) if rushlight.cuda.is_available() else self


def _xpu(self, device=None, non_blocking=False, memory_format=None):
    raise AssertionError("Torch not compiled with XPU enabled")


def _set_real(self, value):
    _write_part(call.real(self), value)


def _set_imag(self, value):
    _write_part(call.imag(self), value)


def _write_part(part, value):
    if isinstance(value, Tensor):
        part.copy_(value)
    else:
        part.fill_(value)


def is_conj(input):
    """Whether the tensor is a conjugate that was put off."""
    return input.is_conj()


def is_neg(input):
    """Whether the tensor is a negative that was put off."""
    return input.is_neg()


# What is about gradients and places, not about values: it stays as it is.
_KEPT_AS_THEY_ARE = frozenset(
    (
        "_base",
        "grad",
        "_grad",
    )
)


def _torch_function(cls, func, types, args=(), kwargs=None):
    """What a class does with a call that it does not take: as for plain tensors.

    Tensors among the results become instances of the class.
    """
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    before = silence_overrides(1)
    try:
        result = func(*args, **(kwargs or {}))
        attribute = getattr(getattr(func, "__self__", None), "__name__", None)
        if attribute in _KEPT_AS_THEY_ARE and func.__name__ == "__get__":
            return result
        return _convert(result, cls)
    finally:
        silence_overrides(before)


def _convert(result, cls):
    """A result, or those in a tuple or list, as instances of a class."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return _as_subclass(result, cls)
    if isinstance(result, (tuple, list)):
        items = [_convert(one, cls) for one in result]
        return type(result)(items)
    return result


def _as_subclass(self, cls):
    """The same tensor, its history included, as an instance of a class.

    Args:
        cls: the class, derived from ``Tensor``.

    Raises:
        TypeError: it is no such class.
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, Tensor):
        raise TypeError(
            f"Creating a new Tensor subclass {cls.__name__} but the raw Tensor object is "
            "already associated to a python object of type Tensor which is not a "
            "subclass of the requested type"
        )
    return become(cls, call.alias(self))


def _make_wrapper_subclass(
    cls,
    size,
    strides=None,
    storage_offset=None,
    memory_format=None,
    dtype=None,
    layout=strided,
    device=None,
    pin_memory=False,
    requires_grad=False,
    dispatch_sizes_strides_policy=None,
    dispatch_device=False,
    dispatch_layout=False,
    _extra_dispatch_keys=None,
    storage_size=None,
):
    """A tensor of a class, with sizes and strides but without memory.

    Args:
        cls: the class; its ``__torch_dispatch__`` gets the operators.
        size: the sizes; ``strides`` by default row by row.
        dtype: the type of the elements, ``layout`` and ``device`` what it says of itself.
        requires_grad: whether gradients flow to it.

    Raises:
        TypeError: the class has no ``__torch_dispatch__``.
    """
    dtype = get_default_dtype() if dtype is None else by_python_type(dtype)
    device = Device("cpu") if device is None else Device(device)
    sizes = tuple(size)
    if strides is None and memory_format not in (None, contiguous_format):
        strides = call.empty(sizes, device="meta", memory_format=memory_format).stride()
    made = make_wrapper(
        cls,
        sizes,
        None if strides is None else tuple(strides),
        storage_offset or 0,
        dtype,
        layout,
        device,
        -1 if storage_size is None else storage_size,
    )
    return made.requires_grad_() if requires_grad else made


def _item(self):
    """The one element, by way of the operator that types and modes see."""
    return call._local_scalar_dense(self)


def bind():
    """Give ``Tensor`` its methods; called once, at import."""
    watch_attributes(Tensor)
    for name in _CORE_METHODS:
        install(name, method(name, getattr(Tensor, name)))
    for name in _FACTS:
        install(name, method(name, getattr(facts, name)))
    for name, function in _methods():
        if function is None:
            continue
        if callable(function) and not name.startswith("__"):
            function = method(name, function)
        install(name, function)
    for name in _AUTOGRAD_METHODS:
        install(name, method(name, getattr(_autograd, name)))
    read_attributes = vars(Tensor)["__dict__"].__get__
    install("__dict__", property(read_attributes, _set_attributes))
    install("name", None)  # PyTorch's has no name either
    install("_stand", None)  # under a transformation: what the tensor stands for
    install("__torch_function__", classmethod(_torch_function))
    install("__torch_dispatch__", classmethod(_disabled_torch_dispatch_impl))
    install("_make_subclass", staticmethod(make_subclass))
    install("_make_wrapper_subclass", staticmethod(_make_wrapper_subclass))
    install("as_subclass", _as_subclass)
    install("backward", method("backward", _autograd.tensor_backward))
    for name, read in _HOOK_ATTRIBUTES.items():
        install(name, Attribute(name, read))
    install("_equal_to_array", interop.equal_to_array)
    bind_slots(
        {
            "getitem": indexing.getitem,
            "setitem": indexing.setitem,
            "iter": indexing.iterate,
            "contains": indexing.contains,
            "repr": printing.tensor_repr,
            "array": interop.to_array,
            "legacy": _legacy_init,
            "deepcopy": pickling.deepcopy_tensor,
            "reduce": pickling.reduce_tensor,
            "grad_fn": _autograd.grad_fn,
            "set_grad": _autograd.set_grad,
            "set_data": _autograd.set_data,
            "require_grad": _autograd.set_requires_grad,
            "dlpack": interop.to_dlpack,
            "item": _item,
        }
    )
    indexing.bind_operators(
        call.select,
        call.slice,
        call.unsqueeze,
        call.alias,
        call.index,
        call.index_put_,
        call.copy_,
        call.fill_,
        tensor,
        call.full,
    )
    python_key.serve()
    open_functions(globals(), _OPEN, naming.package)


bind()
