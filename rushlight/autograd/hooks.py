"""Callables that run as gradients pass: on tensors, on nodes, on leaves."""

import weakref
from collections import OrderedDict, namedtuple

# No `NamedTuple` here: `typing` takes long to import.
_METADATA = "shape dtype device is_tensor_subclass is_nested_tensor"


class InputMetadata(namedtuple("InputMetadata", _METADATA, defaults=(False, False))):
    """What a gradient has to be like that arrives at a node."""

    __slots__ = ()


class RemovableHandle:
    """Removes one hook from the dictionary that it was registered in.

    Usable as a context manager: the hook is removed on leaving the block.

    Args:
        hooks_dict: an ``OrderedDict`` from handle numbers to hooks.
        extra_dict: one more dictionary, or a list of them, that loses the same key.

    >>> from collections import OrderedDict
    >>> hooks = OrderedDict()
    >>> handle = RemovableHandle(hooks)
    >>> hooks[handle.id] = print
    >>> handle.remove()
    >>> len(hooks)
    0
    """

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extras = [extra_dict] if isinstance(extra_dict, dict) else extra_dict or ()
        self.extra_dict_ref = tuple(weakref.ref(each) for each in extras)

    def remove(self) -> None:
        """Forget the hook; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        extras = tuple(reference() for reference in self.extra_dict_ref)
        return self.hooks_dict_ref(), self.id, extras

    def __setstate__(self, state):
        hooks, self.id, extras = state
        # A dictionary that died before pickling comes back as a dead reference.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(
            weakref.ref(OrderedDict() if each is None else each) for each in extras
        )
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.remove()


RemovableHandle.__module__ = "rushlight.utils.hooks"  # where users find it


def registered(hooks, hook, prepend=False):
    """Puts a hook into a dictionary; returns the handle that takes it away again."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class NodeHooks:
    """The hooks of one node; tables by registration number, in order."""

    __slots__ = ("post", "pre", "retained", "tensor")

    def __init__(self):
        self.tensor = {}  # output number -> table of register_hook
        self.retained = {}  # output number -> weak reference to the tensor
        self.pre = OrderedDict()
        self.post = OrderedDict()

    def table(self, number):
        """The hooks on the tensor that is the node's output ``number``."""
        return self.tensor.setdefault(number, OrderedDict())

    def run_tensor_hooks(self, number, grad):
        """What arrives at one output, after its hooks and ``retain_grad``."""
        table = self.tensor.get(number)
        if table:
            grad = run_hooks(table, grad)
        retained = self.retained.get(number)
        tensor = None if retained is None else retained()
        if tensor is not None and grad is not None:
            kept = tensor.grad
            tensor.grad = grad.clone() if kept is None else kept + grad
        return grad

    def run_pre(self, grads: tuple) -> tuple:
        """The gradients that enter the node, after its ``register_prehook`` hooks."""
        for hook in list(self.pre.values()):
            changed = hook(grads)
            if changed is not None:
                grads = checked_tuple(hook, as_tuple(changed), grads)
        return grads

    def run_post(self, results: tuple, grads: tuple) -> tuple:
        """The gradients that leave the node, after its ``register_hook`` hooks."""
        for hook in list(self.post.values()):
            changed = hook(results, grads)
            if changed is not None:
                if len(results) == 1:
                    changed = as_tuple(changed)
                results = checked_tuple(hook, changed, results)
        return results


class TensorHooks:
    """What a tensor itself keeps: a leaf's hooks outlive its AccumulateGrad node."""

    __slots__ = ("backward", "post_accumulate", "retains_grad")

    def __init__(self):
        self.backward = OrderedDict()
        self.post_accumulate = OrderedDict()
        self.retains_grad = False

    def run_backward(self, grad):
        return run_hooks(self.backward, grad) if self.backward else grad

    def run_post_accumulate(self, tensor):
        for hook in list(self.post_accumulate.values()):
            changed = hook(tensor)
            if changed is None or changed is tensor:
                continue
            if not _is_tensor(changed):
                raise TypeError(
                    f"expected Variable, but hook returned '{type(changed).__name__}'"
                )
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def run_hooks(table, grad):
    """Pass one gradient through the hooks of a table, in order."""
    for hook in list(table.values()):
        changed = hook(grad)
        if changed is not None:
            check_replacement(hook, changed, grad)
            grad = changed
    return grad


def as_tuple(value):
    """A lone tensor as a tuple of one; anything else as it is."""
    return (value,) if _is_tensor(value) else value


def _is_tensor(value):
    return hasattr(value, "grad_fn")


def checked_tuple(hook, changed, original):
    """A hook's tuple, where it has as many values as the one it replaces."""
    if not isinstance(changed, (tuple, list)):
        raise TypeError(f"expected tuple, but hook returned '{type(changed).__name__}'")
    if len(changed) != len(original):
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has returned an incorrect number of values "
            f"(got {len(changed)}, but expected {len(original)})"
        )
    for new, old in zip(changed, original):
        if new is not None:
            check_replacement(hook, new, old)
    return tuple(changed)


def check_replacement(hook, changed, original):
    """Refuse a replacement of another kind, size, dtype or device."""
    if not _is_tensor(changed):
        raise TypeError(
            f"expected Variable, but hook returned '{type(changed).__name__}'"
        )
    if original is None:
        return
    if changed.dtype != original.dtype:
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has changed the type of value "
            f"(was {original.dtype} got {changed.dtype})"
        )
    if changed.device != original.device:
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has changed the device of value "
            f"(was {original.device} got {changed.device})"
        )
    if changed.shape != original.shape:
        raise RuntimeError(f"hook '{hook_name(hook)}' has changed the size of value")


def hook_name(hook) -> str:
    return getattr(hook, "__name__", type(hook).__name__)
