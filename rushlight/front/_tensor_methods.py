"""Ties the layers together: methods of ``Tensor`` that are not operators."""

import contextlib

from rushlight import _functions, _typed_storage
from rushlight.autograd import methods as _autograd
from rushlight.autograd.grad_mode import enable_grad
from rushlight.core import facts, indexing, naming
from rushlight.core.device import Device
from rushlight.core.dtype import by_python_type, get_default_dtype
from rushlight.core.facts import with_requires_grad
from rushlight.core.layout import Size, contiguous_format, strided
from rushlight.core.slots import bind_slots
from rushlight.core.state import OverridesScope
from rushlight.core.subclass import (
    become,
    has_dispatch,
    make_subclass,
    make_wrapper,
)
from rushlight.core.tensor import Tensor, install
from rushlight.core.warning import quiet
from rushlight.dispatch import deferred, python_key
from rushlight.dispatch.disabled import (
    _disabled_torch_dispatch_impl,
    _disabled_torch_function_impl,
)
from rushlight.dispatch.overridable import (
    Attribute,
    method,
    watch_attributes,
)
from rushlight.io import dlpack, interop, pickling, printing
from rushlight.operators import call
from rushlight.operators.functions import plain_tensor, tensor, warn_of_copy
from rushlight.operators.shape import view

_LEGACY_NAMES = {"data", "size", "other", "storage"}


def _legacy_new(cls, *args, device=None, **named):
    """``Tensor(2, 3)``: uninitialised sizes; ``Tensor([1, 2])``: data as floats.

    A tensor is shown as it is, its history included.

    Raises:
        TypeError: an argument of a name that it does not have, or beside another.
        RuntimeError: a device that is not the host.
    """
    strange = named and (args or len(named) > 1 or not named.keys() <= _LEGACY_NAMES)
    if strange or len(args) > 1 and isinstance(args[0], Tensor):
        got = [type(value).__name__ for value in args]
        got += [f"{name}={type(value).__name__}" for name, value in named.items()]
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({', '.join(got)})"
        )
    for name, value in named.items():
        args = (Size(value),) if name == "size" else (value,)
    if device is not None and Device(device).type != "cpu":
        raise RuntimeError(
            "legacy constructor expects device type: cpu but device type: "
            f"{Device(device).type} was passed"
        )
    data = args[0] if len(args) == 1 else None
    if isinstance(data, Tensor):
        with enable_grad():
            source = call.alias(data)
    else:
        source = _typed_storage.construct(get_default_dtype(), args, tensor, "cpu")
    return source if cls is Tensor else become(cls, source)


def _type(self, dtype=None, non_blocking=False):
    """The data type's old name, or a conversion to another type."""
    if dtype is None:
        return _typed_storage.type_name(self)
    return self.to(_typed_storage.dtype_of_type(dtype))


def _new(self, *args, device=None):
    """A tensor of this one's dtype: sizes, or a sequence's numbers."""
    return _typed_storage.construct(self.dtype, args, tensor, device)


# Methods that the compiled type brings along.
_CORE_METHODS = (
    "dim",
    "item",
    "numel",
    "requires_grad_",
    "size",
    "untyped_storage",
)
# The others that only say something of a tensor.
_FACTS = (
    "_is_view",
    "data_ptr",
    "element_size",
    "get_device",
    "is_complex",
    "is_contiguous",
    "is_floating_point",
    "is_inference",
    "is_set_to",
    "is_signed",
    "storage_offset",
    "stride",
    "tolist",
)
_HOOK_ATTRIBUTES = {
    "retains_grad": _autograd.retains_grad,
    "_backward_hooks": _autograd.backward_hooks,
    "_post_accumulate_grad_hooks": _autograd.post_accumulate_hooks,
}
# Methods that PyTorch has in Python: handlers see what was left out, too.
_SPELLED = frozenset(
    (
        "backward",
        "index",
        "module_load",
        "register_hook",
        "register_post_accumulate_grad_hook",
        "resize_as",
        "storage",
        "storage_type",
    )
)
# Methods that Python and NumPy call, which handlers see nevertheless.
_SEEN_SPECIALS = frozenset(("__array_wrap__", "__rdiv__", "__reversed__"))
_AUTOGRAD_METHODS = (
    "detach_",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "retain_grad",
)


def _methods():
    """Names and functions for ``Tensor``."""
    yield "numpy", _numpy
    yield "__dlpack__", dlpack.share_by_dlpack
    yield "__dlpack_device__", dlpack.dlpack_device
    name = "__cuda_array_interface__"
    yield name, Attribute(name, interop.cuda_array_interface)
    yield "T", Attribute("T", view.reversed_dims)
    yield "mT", Attribute("mT", view.transposed)
    yield "H", Attribute("H", view.matrix_h)
    yield "mH", Attribute("mH", view.matrices_h)
    yield "_grad", Attribute("_grad", _quiet_grad, _set_grad)
    yield "real", Attribute("real", call.real, _set_real)
    yield "imag", Attribute("imag", call.imag, _set_imag)
    yield "ndimension", Tensor.dim
    yield "nelement", Tensor.numel
    yield "is_conj", deferred.is_conj
    yield "is_neg", deferred.is_neg
    yield "type", _type
    yield "cpu", _cpu
    yield "cuda", _cuda
    # Kinds of memory that there are elsewhere.
    for kind in "ipu maia mkldnn mps mtia vulkan xla xpu".split():
        yield f"is_{kind}", False
    yield "pin_memory", _pinned
    yield "xpu", _xpu
    yield "new_tensor", _new_tensor
    yield "storage", _typed_storage.storage
    yield "_typed_storage", _typed_storage.typed_storage
    yield "new", _new
    yield "set_", _typed_storage.set_
    yield from _functions.methods()
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


def _pinned(self, device=None):
    """A copy in page-locked memory, which a GPU reads while the host goes on."""
    from rushlight.operators.shape import conversion

    return conversion.pin_memory(self)


def _numpy(self, *, force=False):
    """A NumPy array over the tensor's memory.

    Args:
        force: whether a copy is made where there is no such array: of tensors that
            require gradients, lie on a GPU, or whose conjugation has been put off.

    Raises:
        RuntimeError: the tensor requires gradients.
        TypeError: it lies on another device, or NumPy has no such dtype.

    >>> torch.tensor([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    return interop.to_numpy(self, force)


def _cpu(self, memory_format=None):
    """The tensor on the CPU: itself where it lies there, else a copy.

    >>> torch.tensor([1.0, 2.0]).cpu().device
    device(type='cpu')
    """
    return self.to("cpu")


def _cuda(self, device=None, non_blocking=False):
    """The tensor on a GPU: itself where it lies there, else a copy.

    Args:
        device: the GPU; by default the current one.
        non_blocking: whether the call may return before the copy is done.

    Raises:
        RuntimeError: there is no GPU.
    """
    device = "cuda" if device is None else device
    return self.to(device, non_blocking=non_blocking)


def _new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A tensor of new data with this tensor's dtype and device.

    Args:
        data: a number, nested sequences of numbers, an array or a tensor; it is copied.
        dtype: the data type, where it is another one.
        device: the device, where it is another one.
        requires_grad: whether autograd records it.

    >>> torch.tensor([1.0]).new_tensor([2, 3])
    tensor([2., 3.])
    """
    block = contextlib.nullcontext()
    if isinstance(data, Tensor):
        warn_of_copy("tensor.new_tensor")
        block = quiet()
    with block:
        return tensor(
            data,
            dtype=dtype or self.dtype,
            device=device or self.device,
            requires_grad=requires_grad,
        )


def _xpu(self, device=None, non_blocking=False, memory_format=None):
    """Raises: there is no backend for Intel's GPUs."""
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


def _quiet_grad(self):
    """The gradient, without the warning of what is no leaf."""
    with quiet():
        return self.grad


def _set_grad(self, value):
    self.grad = value


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
    with OverridesScope(1) as before:
        if before and _is_foreign(func):  # it would ask again without end
            raise _refusal_of_foreign(func)
        result = func(*args, **(kwargs or {}))
        attribute = getattr(getattr(func, "__self__", None), "__name__", None)
        if attribute in _KEPT_AS_THEY_ARE and func.__name__ == "__get__":
            return result
        return _convert(result, cls)


def _is_foreign(func):
    """Whether a function is PyTorch's own, imported beside this package."""
    if naming.package == "torch":
        return False
    owners = (
        func,
        getattr(func, "__self__", None),
        getattr(func, "__objclass__", None),
    )
    homes = [str(getattr(owner, "__module__", "")) for owner in owners]
    return any(home.partition(".")[0] == "torch" for home in homes)


def _refusal_of_foreign(func):
    """The refusal of a function that is another library's."""
    name = getattr(func, "__name__", None) or repr(func)
    return TypeError(
        f"{name}(): expected tensors of the library that the function is from, but got "
        f"Tensors of {naming.package}\n"
        "  remedy: import one of the libraries only: `import rushlight as torch` in every "
        "file, or `python -m rushlight.run program.py` for imports that name torch"
    )


def _init_subclass(cls, **options):
    """A class that takes operators takes no calls, unless it says so itself."""
    super(Tensor, cls).__init_subclass__(**options)
    hook = getattr(cls.__torch_function__, "__func__", None)
    if has_dispatch(cls) and hook is _torch_function:
        cls.__torch_function__ = staticmethod(_disabled_torch_function_impl)


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


def _already_of(tensor, cls):
    return (
        f"Creating a new Tensor subclass {cls.__name__} but the raw Tensor object is "
        f"already associated to a python object of type {type(tensor).__name__} which is "
        "not a subclass of the requested type"
    )


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
        raise TypeError(_already_of(self, cls))
    made = call.alias(self)
    if type(made) is Tensor or not has_dispatch(type(made)):
        return become(cls, made)
    if not isinstance(made, cls):  # what takes operators is nothing else besides
        raise RuntimeError(_already_of(made, cls))
    return made


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
    return with_requires_grad(made, requires_grad)


def _item(self):
    """The one element, by way of the operator that types and modes see."""
    return call._local_scalar_dense(self)


_UNSET = (
    "name",  # PyTorch's has no name either
    "_stand",  # under a transformation: what the tensor stands for
    "_tangent",  # in a dual_level: what is known of its tangent
)


def _slots():
    """What the core's slots are filled with."""
    return {
        "getitem": indexing.getitem,
        "setitem": indexing.setitem,
        "iter": indexing.iterate,
        "contains": indexing.contains,
        "repr": printing.tensor_repr,
        "array": interop.to_array,
        "legacy": _legacy_new,
        "deepcopy": pickling.deepcopy_tensor,
        "reduce": pickling.reduce_tensor,
        "grad_fn": _autograd.grad_fn,
        "set_grad": _autograd.set_grad,
        "data": _autograd.data_of,
        "set_data": _autograd.set_data,
        "require_grad": _autograd.set_requires_grad,
        "dlpack": dlpack.share_by_dlpack,
        "item": _item,
    }


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
        if name in _SEEN_SPECIALS or callable(function) and not name.startswith("__"):
            function = method(name, function, name in _SPELLED)
        install(name, function)
    for name in _AUTOGRAD_METHODS:
        install(name, method(name, getattr(_autograd, name), name in _SPELLED))
    read_attributes = vars(Tensor)["__dict__"].__get__
    install("__dict__", property(read_attributes, _set_attributes))
    for name in _UNSET:
        install(name, None)
    install("__torch_function__", classmethod(_torch_function))
    install("__init_subclass__", classmethod(_init_subclass))
    install("__torch_dispatch__", classmethod(_disabled_torch_dispatch_impl))
    install("_make_subclass", staticmethod(make_subclass))
    install("_make_wrapper_subclass", staticmethod(_make_wrapper_subclass))
    install("as_subclass", _as_subclass)
    install("backward", method("backward", _autograd.tensor_backward, spelled=True))
    for name, read in _HOOK_ATTRIBUTES.items():
        install(name, Attribute(name, read))
    install("_equal_to_array", interop.equal_to_array)
    bind_slots(_slots())
    indexing.bind_operators(
        call.select,
        call.slice,
        call.unsqueeze,
        call.alias,
        call.index,
        call.index_put_,
        call.copy_,
        call.fill_,
        plain_tensor,
        call.full,
    )
    python_key.serve()


bind()
