"""Two tensors that change places."""

import copyreg
import weakref

from rushlight.core.tensor import Tensor


def swap_tensors(t1, t2):
    """Give each of two tensors the values, class, gradient and attributes of the other.

    Args:
        t1, t2: tensors that no operation has computed; whoever holds one of them sees
            the other's contents from now on.

    Raises:
        RuntimeError: one of them was computed, or is the target of a weak reference, or
            their classes have different slots.

    >>> import rushlight as rl
    >>> a, b = rl.zeros(1), rl.nn.Parameter(rl.ones(2))
    >>> swap_tensors(a, b)
    >>> a
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """
    names = {}
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(
                f"Cannot swap {name} because it has weakref associated with it"
            )
        if not tensor.is_leaf:
            raise RuntimeError(
                f"Cannot swap {name}: it was computed, and its graph holds it\n"
                f"  remedy: swap {name}.detach() instead"
            )
        names[name] = set(copyreg._slotnames(type(tensor)))
    if names["t1"] != names["t2"]:
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    first, second = _taken(t1, names["t1"]), _taken(t2, names["t2"])
    _put(t1, second)
    _put(t2, first)


def _taken(tensor, slots):
    """All that makes the tensor what it is, taken off it."""
    window = Tensor._make_subclass(Tensor, tensor, False)
    found = {
        "data": window,
        "grad": tensor.grad,
        "requires_grad": tensor.requires_grad,
        "class": type(tensor),
        "fields": dict(getattr(tensor, "__dict__", {})),
        "slots": {
            name: getattr(tensor, name) for name in slots if hasattr(tensor, name)
        },
    }
    tensor.grad = None
    tensor.requires_grad_(False)
    for name in found["slots"]:
        delattr(tensor, name)
    return found


def _put(tensor, found):
    """What was taken off another tensor, on this one."""
    tensor.__class__ = found["class"]
    if hasattr(tensor, "__dict__"):
        tensor.__dict__.clear()
        tensor.__dict__.update(found["fields"])
    for name, value in found["slots"].items():
        setattr(tensor, name, value)
    Tensor.data.__set__(tensor, found["data"])
    Tensor.requires_grad_(tensor, found["requires_grad"])
    tensor.grad = found["grad"]
