"""Tools for the recorded graph: edges, saved-tensor hooks, hooks on groups."""

import contextlib
import threading
import weakref
from collections import namedtuple

from rushlight.autograd import methods
from rushlight.autograd.engine import count_expected, current_graph_task_id
from rushlight.autograd.hooks import RemovableHandle
from rushlight.autograd.node import Node
from rushlight.autograd.saved import SavedHooksScope, stack
from rushlight.core.facts import storage_of
from rushlight.core.state import AttributeScope
from rushlight.core.tensor import Tensor
from rushlight.dispatch import python_key

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


_EDGE = "node output_nr ownership_token"


class GradientEdge(namedtuple("GradientEdge", _EDGE, defaults=(None,))):
    """Where a tensor's gradient flows to: stands for the tensor in ``grad``.

    Args:
        node: the node that the gradient arrives at.
        output_nr: which of the node's results the tensor is.
        ownership_token: what keeps the node alive, or None.

    >>> x = torch.ones(2, requires_grad=True)
    >>> torch.autograd.graph.get_gradient_edge(x * 2).output_nr
    0
    """

    __slots__ = ()


def get_gradient_edge(tensor) -> GradientEdge:
    """The edge of a tensor that requires a gradient.

    Args:
        tensor: the tensor.

    Raises:
        RuntimeError: the tensor requires no gradient.

    >>> x = torch.ones(2, requires_grad=True)
    >>> edge = torch.autograd.graph.get_gradient_edge(x)
    >>> torch.autograd.grad((x * 3).sum(), edge)
    (tensor([3., 3.]),)
    """
    node, number = methods.find_gradient_edge(tensor)
    if node is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not "
            "require gradients"
        )
    return GradientEdge(node, number)


def increment_version(tensor):
    """Count an in-place change, of one tensor or several, that no operator made.

    Args:
        tensor: the tensor, or several.

    >>> x = torch.ones(2)
    >>> torch.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for one in (tensor,) if isinstance(tensor, Tensor) else tensor:
        methods.bump_version(one)


class saved_tensors_hooks(SavedHooksScope):
    """Context in which ``pack_hook`` says what nodes keep in place of tensors.

    ``unpack_hook`` makes the tensor again in backward. The check for in-place changes
    is off for tensors kept this way.
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pair = (pack_hook, unpack_hook)


class save_on_cpu(saved_tensors_hooks):
    """Context in which nodes keep their tensors in host memory."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            if tensor.device.type == "cpu":
                return tensor.device, tensor.detach().clone()
            return tensor.device, tensor.to("cpu")

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks(AttributeScope):
    """Context in which switching saved-tensor hooks on raises ``error_message``.

    Args:
        error_message: the words of the error.

    Raises:
        RuntimeError: hooks are on already, or are switched on inside.

    >>> with torch.autograd.graph.disable_saved_tensors_hooks("none here"):
    ...     y = torch.ones(2, requires_grad=True).exp()
    """

    def __init__(self, error_message):
        super().__init__(stack, refusal=error_message)

    def _save(self):
        super()._save()
        if stack.pairs:
            raise RuntimeError(self.changes["refusal"])


class _Kept:
    """What stands in a graph for a tensor that was saved; dies with the graph."""


class _MutationBook:
    """The tensors saved while mutation is allowed, and the copies of those changed.

    Attributes:
        original: what was saved and has not changed since, by what stands for it.
        cloned: the copies that were taken before a change.
    """

    def __init__(self):
        self.original = weakref.WeakKeyDictionary()
        self.cloned = weakref.WeakKeyDictionary()
        self._saved = weakref.WeakValueDictionary()  # a tensor's mark -> what stands
        self._by_memory: dict = {}  # storage and version -> marks of tensors

    def clear(self):
        """Forgets all: a backward after that is refused."""
        self.original.clear()
        self.cloned.clear()
        self._saved.clear()
        self._by_memory.clear()

    def pack(self, tensor):
        """What the graph keeps for a tensor: the same for one that it has already."""
        storage = storage_of(tensor)
        version = tensor._version
        mark = id(storage), version, id(tensor)
        kept = self._saved.get(mark)
        if kept is None or self.original.get(kept) is not tensor:
            kept = _Kept()
            self._saved[mark] = kept
            self.original[kept] = tensor
            self._by_memory.setdefault((id(storage), version), set()).add(mark)
        return kept

    def unpack(self, kept):
        """What the tensor was when it was saved.

        Raises:
            AssertionError: the block is over.
        """
        found = self.cloned.get(kept)
        if found is None:
            found = self.original.get(kept)
        if found is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' "
                "context in which the graph was originally recorded."
            )
        return found

    def before_change(self, tensor):
        """Takes copies of what was saved of a tensor's memory as it is."""
        key = id(storage_of(tensor)), tensor._version
        for mark in self._by_memory.pop(key, ()):
            kept = self._saved.get(mark)
            if kept is not None and kept in self.original:
                self.cloned[kept] = self.original.pop(kept).clone()


class _CopyBeforeChange(python_key.DispatchModeScope):
    """A mode below autograd that tells the book what is about to be written."""

    sees_own_operators = True

    def __init__(self, book):
        self.book = book

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for at, argument in enumerate(func._schema.arguments):
            info = argument.alias_info
            if info is None or not info.is_write:
                continue
            given = args[at] if at < len(args) else kwargs.get(argument.name)
            for one in given if isinstance(given, (list, tuple)) else (given,):
                if isinstance(one, Tensor):
                    self.book.before_change(one)
        return func(*args, **kwargs)


_ALLOWING = threading.local()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors():
    """Context in which tensors that a graph has saved may be written to.

    What is about to change is copied first, so that gradients are those of the values
    that were saved; what does not change is not copied. Backward has to run inside.

    Raises:
        RuntimeError: one such block is inside of another.

    >>> import rushlight as rl
    >>> x = rl.ones(2, requires_grad=True)
    >>> with allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = y * y
    ...     _ = y.zero_()
    ...     z.sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    if getattr(_ALLOWING, "active", False):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    book = _MutationBook()
    hooks = saved_tensors_hooks(book.pack, book.unpack)
    try:
        with AttributeScope(_ALLOWING, active=True), hooks, _CopyBeforeChange(book):
            yield book
    finally:
        book.clear()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Call ``fn`` when the gradients of several tensors have been computed.

    Args:
        tensors: tensors that require gradients.
        fn: called with the list of gradients (None where none arrived), or in mode
            "any" with the first gradient; what it returns is ignored.
        mode: "all" or "any".

    Raises:
        ValueError: there is no such mode.

    >>> x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    >>> handle = torch.autograd.graph.register_multi_grad_hook((x, y), print)
    >>> (x * y).sum().backward()
    [tensor([1., 1.]), tensor([1., 1.])]
    >>> handle.remove()
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = list(tensors)
    group = _AllGroup(tensors, fn) if mode == "all" else _AnyGroup(fn)
    handles = [
        tensor.register_hook(group.hook_for(i)) for i, tensor in enumerate(tensors)
    ]
    return _JointHandle(handles)


class _AnyGroup:
    """Runs ``fn`` at the first gradient of each backward."""

    def __init__(self, fn):
        self.fn = fn
        self.lock = threading.Lock()
        self.last_task = None

    def hook_for(self, _index):
        def hook(grad):
            task = current_graph_task_id()
            with self.lock:
                if self.last_task == task:
                    return
                self.last_task = task
            self.fn(grad)

        return hook


class _AllGroup:
    """Collects the gradients of each backward; runs ``fn`` when the last has come."""

    def __init__(self, tensors, fn):
        self.fn = fn
        self.lock = threading.Lock()
        if not all(tensor.requires_grad for tensor in tensors):
            raise AssertionError("Expected gradient function to be set")
        self.edges = [get_gradient_edge(tensor) for tensor in tensors]
        self.arrived = {}  # task -> [gradients, how many are still to come]

    def hook_for(self, index):
        def hook(grad):
            task = current_graph_task_id()
            with self.lock:
                if task not in self.arrived:
                    expected = count_expected([edge.node for edge in self.edges])
                    self.arrived[task] = [[None] * len(self.edges), expected]
                entry = self.arrived[task]
                entry[0][index] = grad
                entry[1] -= 1
                complete = entry[1] == 0
                if complete:
                    del self.arrived[task]
            if complete:
                self.fn(entry[0])

        return hook


class _JointHandle(RemovableHandle):
    """Removes several hooks at once."""

    __slots__ = ("handles",)

    def __init__(self, handles):
        self.handles = tuple(handles)

    def remove(self):
        for handle in self.handles:
            handle.remove()


@contextlib.contextmanager
def region_activation_memory_budget(budget):
    """Would bound what a compiled region keeps for backward: there is none here.

    Args:
        budget: what may be kept, as a part of what would be, between 0 and 1.

    Raises:
        ValueError: it is not between those.
        RuntimeError: always else, as nothing is being compiled.

    >>> import pytest
    >>> with pytest.raises(RuntimeError, match="eager mode"):
    ...     with torch.autograd.graph.region_activation_memory_budget(0.5):
    ...         pass
    """
    name = "torch.autograd.graph.region_activation_memory_budget"
    if not 0 <= budget <= 1:
        raise ValueError(f"{name}: must be in [0, 1], got {budget}")
    raise RuntimeError(
        f"{name} can only be used inside a torch.compile region; it has no effect in "
        "eager mode."
    )
    yield


def set_warn_on_accumulate_grad_stream_mismatch(enabled):
    """Whether gradients from another stream are warned about: the CPU has no streams.

    Args:
        enabled: accepted.

    >>> torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    """


def set_override_stale_capture_stream(enabled):
    """Whether streams of captured graphs are replaced: the CPU has no streams.

    Args:
        enabled: accepted.

    >>> torch.autograd.graph.set_override_stale_capture_stream(True)
    """
