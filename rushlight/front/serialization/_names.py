"""What a checkpoint may name and call, and what its calls rebuild."""

import collections
import contextlib
import pickle
import threading

import rushlight as rl
from rushlight._typed_storage import TypedStorage
from rushlight.core import naming
from rushlight.io.serialization import DTYPES, window
from rushlight.operators import call as ops

# rushlight's dtype -> the class that names it in a persistent id.
TYPED_STORAGES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}
# The type of a quantized tensor's integers -> the class that names it there.
QUANTIZED_STORAGES = {
    "uint8": "QUInt8Storage",
    "int8": "QInt8Storage",
    "int32": "QInt32Storage",
}
STORAGE_DTYPES = {name: dtype for dtype, name in TYPED_STORAGES.items()}
# Whatever a program allows, these can do anything.
BLOCKED = frozenset(("nt", "os", "posix", "sys"))

_allowed = threading.local()


def user_globals() -> dict:
    """What this thread has allowed, by its name in files."""
    if not hasattr(_allowed, "names"):
        _allowed.names = {}
    return _allowed.names


def add_safe_globals(safe_globals: list) -> None:
    """Lets ``load`` build objects of these classes, or call these functions.

    Args:
        safe_globals: the objects, or pairs of an object and its full name in the file.

    Raises:
        ValueError: a pair is something else than an object and a name.

    >>> class Point:
    ...     pass
    >>> torch.serialization.add_safe_globals([(Point, "geometry.Point")])
    >>> len(torch.serialization.get_safe_globals())
    1
    >>> torch.serialization.clear_safe_globals()
    """
    for item in safe_globals:
        if isinstance(item, tuple):
            if len(item) != 2:
                raise ValueError(
                    f"Expected tuple of length 2 (global, str of callable full path), "
                    f"but got tuple of length: {len(item)}"
                )
            value, name = item
            if not isinstance(name, str):
                raise TypeError(
                    "Expected second item in tuple to be str of callable full path, "
                    f"but got: {type(name)}"
                )
        else:
            value, name = item, f"{item.__module__}.{item.__qualname__}"
        user_globals()[name] = value


def get_safe_globals() -> list:
    """What ``add_safe_globals`` has been given."""
    return list(user_globals().values())


def clear_safe_globals() -> None:
    """Forgets what ``add_safe_globals`` has been given."""
    user_globals().clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list):
    """``add_safe_globals`` for the length of a ``with`` block.

    Args:
        safe_globals: the objects, or pairs of an object and its full name in the file.

    >>> class Point:
    ...     pass
    >>> with torch.serialization.safe_globals([(Point, "geometry.Point")]):
    ...     assert torch.serialization.get_safe_globals()
    """
    before = dict(user_globals())
    try:
        add_safe_globals(safe_globals)
        yield
    finally:
        user_globals().clear()
        user_globals().update(before)


# -- what is rebuilt -----------------------------------------------------------------


class StorageName:
    """A storage class in a persistent id: it says what its elements are."""

    def __init__(self, dtype):
        self.dtype = dtype


class Placed(TypedStorage):
    """A storage that has been read, and the type that its persistent id named."""

    def __init__(self, storage, dtype, start=0):
        super().__init__(wrap_storage=storage, dtype=dtype)
        self.start = start  # elements before it, where it is part of another

    @property
    def storage(self):
        """The memory."""
        return self._untyped_storage


def plain(value):
    """A value that is a storage and nothing else, as programs know it."""
    if type(value) is Placed:
        return TypedStorage(wrap_storage=value.storage, dtype=value.dtype)
    return value


def refuse(words):
    """The error for a call that no checkpoint makes."""
    raise pickle.UnpicklingError(words)


def marked(tensor, metadata):
    """The tensor as it reads memory: conjugated or negated, where its file says so."""
    if metadata is None:
        return tensor
    if not isinstance(metadata, dict):
        refuse(f"what is said of a tensor is no dict, but {type(metadata).__name__}")
    if metadata.get("conj") is True:
        if not tensor.is_complex():
            refuse("real numbers that are conjugated")
        tensor = tensor.conj()
    return tensor._neg_view() if metadata.get("neg") is True else tensor


def _rebuild_tensor(
    place,
    offset,
    sizes,
    strides,
    requires_grad=False,
    hooks=None,
    metadata=None,
    dtype=None,
):
    if type(place) is not Placed:
        refuse(f"a tensor cannot be made of {type(place).__name__}")
    start = place.start
    if start and type(offset) is int:
        offset += start
    tensor = window(place.storage, offset, sizes, strides, dtype or place.dtype)
    tensor = marked(tensor, metadata)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_untyped(
    place, offset, sizes, strides, requires_grad, hooks, dtype, metadata=None
):
    return _rebuild_tensor(
        place, offset, sizes, strides, requires_grad, hooks, metadata, dtype
    )


def _rebuild_parameter(data, requires_grad, hooks, state=None):
    if not isinstance(data, rl.Tensor):
        refuse(f"a parameter cannot be made of {type(data).__name__}")
    return _with_state(rl.nn.Parameter(data, bool(requires_grad)), state)


def _rebuild_wrapper(kind, dtype, sizes, strides, offset, layout, device, wanted):
    """A tensor of a class without memory of its own; its attributes come after it."""
    if not isinstance(kind, type) or not issubclass(kind, rl.Tensor):
        refuse("a tensor's type is no class of tensors")
    numbers = *_size(sizes), *_size(strides), offset
    facts = (dtype, rl.dtype), (layout, rl.layout), (device, rl.device)
    if not all(isinstance(one, wanted) for one, wanted in facts):
        refuse("what a tensor without memory is like is not told")
    if not all(type(one) is int and one >= 0 for one in numbers):
        refuse("sizes and strides are no numbers of elements")
    return rl.Tensor._make_wrapper_subclass(
        kind,
        tuple(sizes),
        strides=tuple(strides),
        storage_offset=offset,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=bool(wanted),
    )


def _rebuild_njt(parts):
    """A nested tensor of values and offsets."""
    if not isinstance(parts, dict) or not {"values", "offsets"} <= parts.keys():
        refuse("the parts of a nested tensor are not told")
    lengths, at = parts.get("lengths"), parts.get("_ragged_idx", 1)
    tensors = [
        parts["values"],
        parts["offsets"],
        *([] if lengths is None else [lengths]),
    ]
    if not all(type(each) is rl.Tensor for each in tensors) or type(at) is not int:
        refuse("the parts of a nested tensor are no tensors")
    if parts["offsets"].dim() != 1 or not 1 <= at <= parts["values"].dim():
        refuse("a nested tensor is ragged in no dimension that it has")
    return _nested_tensor()(
        parts["values"],
        parts["offsets"],
        lengths=lengths,
        requires_grad=bool(parts.get("requires_grad", False)),
        _ragged_idx=at,
    )


def _rebuild_nested(buffer, sizes, strides, offsets):
    """A strided nested tensor of parts that lie in one dimension of elements."""
    facts = (buffer, 1), (sizes, 2), (strides, 2), (offsets, 1)
    if not all(type(t) is rl.Tensor and t.dim() == n for t, n in facts):
        refuse("the parts of a nested tensor are not told")
    if not len(sizes) == len(strides) == len(offsets):
        refuse("the parts of a nested tensor have not as many sizes as strides")
    rows = zip(sizes.tolist(), strides.tolist(), offsets.tolist())
    return rl.nested.as_nested_tensor([buffer.as_strided(*row) for row in rows])


class _DimRange:
    """Between which sizes a compiler was told that a dimension stays: not heeded."""

    def __setstate__(self, state):
        self.facts = state


def _nested_tensor():
    """The class, which is imported for files that have some."""
    from rushlight.nested._internal.nested_tensor import NestedTensor

    return NestedTensor


def _with_state(tensor, state):
    """The tensor with what programs had set on it."""
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    for attributes in (state, slots):
        if attributes is not None and not isinstance(attributes, dict):
            refuse("the attributes of a tensor are no dictionary")
    tensor.__dict__.update(state or {})
    tensor.__dict__.pop("_tangent", None)
    for name, value in (slots or {}).items():
        setattr(tensor, name, value)
    return tensor


def _rebuild_of_type(build, kind, arguments, state):
    """A tensor of a class, as another name makes its parts one, with attributes."""
    if build not in _BUILDERS and not hasattr(build, "of_tensors"):
        refuse("what makes a tensor's parts one is not known")
    if not isinstance(kind, type) or not issubclass(kind, rl.Tensor):
        refuse("a tensor's type is no class of tensors")
    tensor = build(*arguments)
    if type(tensor) is not kind:
        tensor = tensor.as_subclass(kind)
    own = getattr(kind, "__setstate__", None)
    if own is not None and own is not getattr(rl.Tensor, "__setstate__", None):
        tensor.__setstate__(state)
        return tensor
    return _with_state(tensor, state)


def _rebuild_meta(dtype, sizes, strides, requires_grad):
    tensor = rl.empty_strided(sizes, strides, dtype=dtype, device="meta")
    return tensor.requires_grad_() if requires_grad else tensor


# What follows takes values that anybody may have written: their types are looked at
# before anything prints them, for lists may hold themselves, or each other a million fold.


def _encode(text, encoding):
    """How protocol 2 spells bytes."""
    if encoding != "latin1" or not isinstance(text, str):
        refuse("bytes can only be encoded from text, as latin1")
    return text.encode("latin1")


# What checks or copies the elements of its parts, which old files have behind the value.
LOOK_AT_ELEMENTS = (
    "torch._utils._rebuild_sparse_tensor",
    "torch._utils._rebuild_qtensor",
)
SCHEMES = (
    "per_tensor_affine",
    "per_channel_affine",
    "per_tensor_symmetric",
    "per_channel_symmetric",
    "per_channel_affine_float_qparams",
)
LAYOUTS = frozenset(
    f"torch.{name}"
    for name in (
        "strided",
        "sparse_coo",
        "sparse_csr",
        "sparse_csc",
        "sparse_bsr",
        "sparse_bsc",
    )
)


def _rebuild_sparse(layout, parts):
    """A sparse tensor of its parts, which are checked: anybody may have written them."""
    if not isinstance(parts, tuple) or not 3 <= len(parts) <= 4:
        refuse("a sparse tensor is made of three or four parts")
    tensors = parts[:2] if layout is rl.sparse_coo else parts[:3]
    if any(not isinstance(part, rl.Tensor) for part in tensors):
        refuse("a part of a sparse tensor is no tensor")
    if layout is rl.sparse_coo:
        indices, values, size = parts[:3]
        coalesced = parts[3] if len(parts) > 3 else None
        return rl.sparse_coo_tensor(
            indices, values, size, check_invariants=True, is_coalesced=bool(coalesced)
        )
    return rl.sparse_compressed_tensor(*parts, layout=layout, check_invariants=True)


def _rebuild_quantized(
    place, offset, sizes, strides, parameters, requires_grad=False, hooks=None
):
    """A quantized tensor of its integers and of what they stand for."""
    integers = _rebuild_tensor(place, offset, sizes, strides)
    if integers.dtype.name not in QUANTIZED_STORAGES:
        refuse("a quantized tensor is made of integers")
    if not isinstance(parameters, tuple) or len(parameters) not in (3, 4):
        refuse("a quantized tensor has a scheme, scales and zero points")
    scheme, scale, zero_point = parameters[:3]
    if scheme is rl.per_tensor_affine and len(parameters) == 3:
        if type(scale) is not float or type(zero_point) is not int:
            refuse("the scale or the zero point of a tensor is no number")
        return ops._make_per_tensor_quantized_tensor(integers, scale, zero_point)
    schemes = rl.per_channel_affine, rl.per_channel_affine_float_qparams
    if scheme not in schemes or len(parameters) != 4:
        refuse("a quantized tensor's scheme is not known")
    axis = parameters[3]
    for one in (scale, zero_point):
        if not isinstance(one, rl.Tensor) or one.ndim != 1:
            refuse("the scales or the zero points of channels are no vector")
    channels = scale.shape[0]
    if type(axis) is not int or not 0 <= axis < integers.ndim:
        refuse("the channels of a quantized tensor are along no dimension of it")
    if not channels == zero_point.shape[0] == integers.shape[axis]:
        refuse("a quantized tensor has another number of channels than of scales")
    return ops._make_per_channel_quantized_tensor(integers, scale, zero_point, axis)


def _get_layout(name):
    if not isinstance(name, str):
        refuse("a layout's name is not text")
    if name not in LAYOUTS:
        refuse(f"layout {name!r} is not supported")
    return getattr(rl, name.removeprefix("torch."))


def _bytearray(*arguments):
    """A ``bytearray`` of bytes that are there; a mere number would be a size."""
    if any(not isinstance(argument, (bytes, str)) for argument in arguments):
        kinds = ", ".join(type(argument).__name__ for argument in arguments)
        refuse(f"bytearray cannot be made of {kinds}")
    return bytearray(*arguments)


def _size(sizes=()):
    if not all(type(size) is int for size in sizes):
        refuse("sizes that are no numbers")
    return rl.Size(sizes)


def _device(kind, index=None):
    if not isinstance(kind, str) or type(index) not in (int, type(None)):
        refuse("a device is a name and a number")
    return rl.device(kind) if index is None else rl.device(kind, index)


def _defaultdict(factory=None, *items):
    if factory not in (None, int, float, str, bool, list, dict, set, frozenset):
        refuse("a defaultdict whose default could be anything")
    return collections.defaultdict(factory, *items)


_NESTED = "torch.nested._internal.nested_tensor"
_BUILDERS = (
    *(_rebuild_tensor, _rebuild_untyped, _rebuild_parameter, _rebuild_meta),
    *(_rebuild_sparse, _rebuild_quantized, _rebuild_wrapper, _rebuild_njt),
)


def _callables() -> dict:
    """What a checkpoint may call, by its name there."""
    names = {
        "collections.OrderedDict": collections.OrderedDict,
        "collections.Counter": collections.Counter,
        "collections.defaultdict": _defaultdict,
        "torch.Size": _size,
        "torch.device": _device,
        "torch.nn.parameter.Parameter": rl.nn.Parameter,
        "torch._utils._rebuild_tensor": _rebuild_tensor,
        "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
        "torch._utils._rebuild_tensor_v3": _rebuild_untyped,
        "torch._utils._rebuild_parameter": _rebuild_parameter,
        "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
        "torch._tensor._rebuild_from_type_v2": _rebuild_of_type,
        f"{_NESTED}._rebuild_njt": _rebuild_njt,
        "torch._dynamo.decorators._DimRange": _DimRange,
        "torch._utils._rebuild_nested_tensor": _rebuild_nested,
        "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta,
        "torch._utils._rebuild_wrapper_subclass": _rebuild_wrapper,
        "torch._utils._rebuild_sparse_tensor": _rebuild_sparse,
        "torch._utils._rebuild_qtensor": _rebuild_quantized,
        "torch.serialization._get_layout": _get_layout,
        "_codecs.encode": _encode,
    }
    for module in "builtins", "__builtin__":
        names.update((f"{module}.{k.__name__}", k) for k in (set, frozenset, complex))
        names[f"{module}.bytearray"] = _bytearray
    return names


def _values() -> dict:
    """What a checkpoint may name but not call."""
    names: dict = {
        "torch.Tensor": rl.Tensor,
        "torch.storage.UntypedStorage": StorageName(DTYPES["uint8"]),
    }
    for module in "builtins", "__builtin__":
        kinds = int, float, str, bool, list, dict
        names.update((f"{module}.{kind.__name__}", kind) for kind in kinds)
        names[f"{module}.long"] = int
    names.update((f"torch.{name}", dtype) for name, dtype in DTYPES.items())
    names.update((f"torch.{name}", getattr(rl, name)) for name in SCHEMES)
    for dtype, name in QUANTIZED_STORAGES.items():
        names[f"torch.{name}"] = StorageName(DTYPES[dtype])
    for name, dtype in STORAGE_DTYPES.items():
        names[f"torch.{name}"] = StorageName(DTYPES[dtype])
    return names


class Globals:
    """The names that one load may use, and what it may call of them."""

    def __init__(self):
        may_call = {**_callables(), **user_globals()}
        self.names = {**_values(), **may_call}
        self.callable = {id(value) for value in may_call.values()}
        self.callable.add(id(collections.defaultdict))  # its state may be set

    def put_off(self, calls):
        """Let nothing look at elements, and note in ``calls`` that something wanted to."""

        def unread(*parts):
            calls.append(len(parts))
            return rl.empty(0)

        unread.of_tensors = True
        self.unread = unread
        for name in LOOK_AT_ELEMENTS:
            self.names[name] = unread
        self.callable.add(id(unread))

    def find(self, module, name):
        """The object of that name.

        Raises:
            UnpicklingError: checkpoints may not name it.
        """
        full = f"{module}.{name}"
        if module.partition(".")[0] in BLOCKED:
            raise pickle.UnpicklingError(
                f"Weights only load failed. Trying to load unsupported GLOBAL {full} "
                f"whose module {module} is blocked."
            )
        if full == f"{_NESTED}.NestedTensor":
            return _nested_tensor()
        if full not in self.names:
            own = naming.package
            raise pickle.UnpicklingError(
                "Weights only load failed. This file can still be loaded, if you "
                "trust its source: pass weights_only=False, and it may run any program "
                f"that it holds.\n"
                f"  Unsupported global: GLOBAL {full} was not an allowed global by "
                f"default. Please use `{own}.serialization.add_safe_globals([{name}])` "
                f"or the `{own}.serialization.safe_globals([{name}])` context manager "
                "to allowlist this global if you trust this class/function."
            )
        return self.names[full]

    def may_call(self, value):
        """Whether a checkpoint may call the object."""
        return id(value) in self.callable
