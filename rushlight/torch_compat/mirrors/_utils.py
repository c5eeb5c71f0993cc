"""Small things that PyTorch keeps here and programs reach for."""

import sys
import traceback

import rushlight as rl

__all__: list[str] = []


def _flatten_dense_tensors(tensors):
    """All elements of the tensors, one after another.

    >>> import rushlight as rl
    >>> _flatten_dense_tensors([rl.ones(2), rl.zeros(1, 2)])
    tensor([1., 1., 0., 0.])
    """
    return rl.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Views of a flat tensor with the shapes of others, in their order."""
    views, start = [], 0
    for tensor in tensors:
        views.append(flat.narrow(0, start, tensor.numel()).view_as(tensor))
        start += tensor.numel()
    return tuple(views)


def _take_tensors(tensors, size_limit):
    """Groups of tensors of one type with at most so many bytes each."""
    groups: dict = {}
    for tensor in tensors:
        group = groups.setdefault(tensor.type(), [[], 0])
        n_bytes = tensor.numel() * tensor.element_size()
        if group[0] and group[1] + n_bytes > size_limit:
            yield group[0]
            group = groups[tensor.type()] = [[], 0]
        group[0].append(tensor)
        group[1] += n_bytes
    for group, _ in groups.values():
        if group:
            yield group


def _reorder_tensors_as(tensors, ordered_tensors):
    """Tensors grouped by type, in the order of types that others have."""
    by_type: dict = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    queues = {kind: iter(group) for kind, group in by_type.items()}
    return tuple(next(queues[tensor.type()]) for tensor in ordered_tensors)


def _get_all_device_indices():
    """The indices of the devices of the accelerator: there is none."""
    return None


def _get_available_device_type():
    """The accelerator that is there: none."""
    return None


def _get_device_index(device, optional=False, allow_cpu=False):
    """The index of a device given by itself, a name or a number.

    Raises:
        ValueError: it is the CPU, or none is meant.
    """
    if isinstance(device, str):
        device = rl.device(device)
    if isinstance(device, int):
        return device
    if isinstance(device, rl.device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if device.index is not None or device.type == "cpu":
            return -1 if device.index is None else device.index
    raise ValueError(
        f"Expected a torch.device with a specified index or an integer, but got:{device}"
    )


def _element_size(dtype):
    """The bytes of one element of a type."""
    return dtype.itemsize


def _rebuild_tensor(storage, storage_offset, size, stride):
    """A window on a storage, as older files describe it."""
    made = rl.empty(0, dtype=storage.dtype)
    return made.set_(storage.untyped(), storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None
):
    """A window on a typed storage, as PyTorch pickles tensors."""
    from rushlight.core.window import make_tensor

    tensor = make_tensor(
        storage.untyped(), tuple(size), tuple(stride), storage_offset, storage.dtype
    )
    for mark, view in (("conj", "conj"), ("neg", "_neg_view")):
        if metadata and metadata.get(mark):
            tensor = getattr(tensor, view)()
    return tensor.requires_grad_(requires_grad) if requires_grad else tensor


def _rebuild_parameter(data, requires_grad, backward_hooks):
    """A parameter, as PyTorch pickles it."""
    return rl.nn.Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    """A parameter with attributes of its own."""
    parameter = rl.nn.Parameter(data, requires_grad)
    parameter.__dict__.update(state if isinstance(state, dict) else {})
    return parameter


class KeyErrorMessage(str):
    """The text of a KeyError, shown with its line breaks."""

    __slots__ = ()

    def __repr__(self):
        return str(self)


class ExceptionWrapper:
    """An exception on its way between threads or processes, with its traceback as text."""

    def __init__(self, exc_info=None, where="in background"):
        exc_info = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = exc_info[0]
        self.exc_msg = "".join(traceback.format_exception(*exc_info))
        self.where = where

    def reraise(self):
        """Raises an exception of the same type that tells where it came from."""
        message = (
            f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        )
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            raised = self.exc_type(message)
        except Exception:
            raise RuntimeError(message) from None
        raise raised


class classproperty:
    """A property of a class."""

    def __init__(self, func):
        self.func = func

    def __get__(self, instance, owner):
        return self.func(owner)


def is_compiling():
    """Whether the program is being compiled: never, here it runs."""
    return False


def try_import(module_name):
    """A module that may not be installed; None then."""
    from importlib import import_module
    from importlib.util import find_spec

    return import_module(module_name) if find_spec(module_name) is not None else None


def _get_device_module(device_type):
    """The module of a kind of device: ``torch.cuda`` for "cuda".

    Raises:
        RuntimeError: there is no such module.
    """
    import rushlight

    module = getattr(rushlight, device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as "
            f"'torch.{device_type}'."
        )
    return module


def _get_obj_state(obj):
    """What pickles keep of an object beside what makes it: its attributes, and slots."""
    return obj.__getstate__()


def _set_obj_state(obj, state):
    """An object with the attributes that a pickle kept.

    Args:
        obj: the object.
        state: a dictionary, or two: of attributes and of slots.

    Raises:
        RuntimeError: it is a tuple of another number.

    >>> import types
    >>> _set_obj_state(types.SimpleNamespace(), {"a": 1}).a
    1
    """
    if isinstance(state, tuple) and len(state) != 2:
        raise RuntimeError(f"Invalid serialized state: {state}")
    for attributes in state if isinstance(state, tuple) else (state,):
        for name, value in (attributes or {}).items():
            setattr(obj, name, value)
    return obj
