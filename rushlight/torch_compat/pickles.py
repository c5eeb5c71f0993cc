"""Values pickled in PyTorch's terms, so that they mean the same there."""

import collections
import copyreg
import io
import weakref


def install():
    """Values are pickled as PyTorch's are, and so can be read where it is."""
    from rushlight._typed_storage import TypedStorage
    from rushlight.core.dtype import DType
    from rushlight.core.layout import Layout, MemoryFormat, contiguous_format, strided
    from rushlight.core.tensor import Tensor
    from rushlight.core.tensor import install as put
    from rushlight.nn import Parameter

    put("__module__", "torch", DType)  # what pickle asks a value for its name's home
    copyreg.pickle(DType, _name)
    copyreg.pickle(type(contiguous_format), _name)
    MemoryFormat.__module__ = "torch"
    copyreg.pickle(type(strided), _layout)
    Layout.__module__ = "torch"
    copyreg.pickle(Tensor, _tensor)
    copyreg.pickle(Parameter, _parameter)
    copyreg.pickle(TypedStorage, _storage)


# A storage's wrapper, for as long as somebody, such as a pickler, keeps it: tensors that
# share memory then share it in the pickle.
_wrappers: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def _tensor(tensor):
    from rushlight import _utils
    from rushlight._typed_storage import TypedStorage
    from rushlight.core.layout import strided
    from rushlight.io import pickling
    from rushlight.serialization._names import TYPED_STORAGES

    known = tensor.dtype.name in TYPED_STORAGES and tensor.device.type == "cpu"
    if (
        not known
        or tensor.layout is not strided
        or tensor.__dict__
        or tensor.is_conj()
        or tensor.is_neg()
    ):
        return pickling.reduce_tensor(tensor)
    pickling.warn_of_hooks(tensor)
    storage = tensor.untyped_storage()
    key = id(storage), tensor.dtype.name
    wrapper = _wrappers.get(key)
    if wrapper is None:
        wrapper = TypedStorage(wrap_storage=storage, dtype=tensor.dtype)
        _wrappers[key] = wrapper
    geometry = tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())
    hooks: collections.OrderedDict = collections.OrderedDict()
    return _utils._rebuild_tensor_v2, (wrapper, *geometry, tensor.requires_grad, hooks)


def _parameter(parameter):
    from rushlight import _utils

    hooks: collections.OrderedDict = collections.OrderedDict()
    if parameter.__dict__:
        arguments = (
            parameter.detach(),
            parameter.requires_grad,
            hooks,
            parameter.__dict__,
        )
        return _utils._rebuild_parameter_with_state, arguments
    return _utils._rebuild_parameter, (
        parameter.detach(),
        parameter.requires_grad,
        hooks,
    )


def _storage(storage):
    from rushlight.serialization import save
    from rushlight.storage import _load_from_bytes

    file = io.BytesIO()
    save(storage, file)
    return _load_from_bytes, (file.getvalue(),)


def _name(value):
    return value.name


def _layout(value):
    from rushlight.serialization import _get_layout

    return _get_layout, (f"torch.{value.name}",)
