"""Which modules a program is in, forwards and backwards."""

import weakref

from rushlight.autograd.engine import current_graph_task_id
from rushlight.autograd.graph import register_multi_grad_hook
from rushlight.core.state import is_grad_enabled
from rushlight.core.tensor import Tensor
from rushlight.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from rushlight.utils._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Knows, in its block, which modules are being run: their names from the root on.

    Attributes:
        parents: the names of the modules around the current call, and ``"Global"``.

    >>> import rushlight as rl
    >>> net = rl.nn.Sequential(rl.nn.ReLU())
    >>> with ModuleTracker() as tracker:
    ...     _ = net[0].register_forward_pre_hook(lambda *_: print(sorted(tracker.parents)))
    ...     _ = net(rl.ones(1))
    ['Global', 'Sequential', 'Sequential.0']
    """

    def __init__(self):
        self.parents = {"Global"}
        self._names = weakref.WeakKeyDictionary()
        self._named = weakref.WeakSet()
        self._handles: list = []

    def _name_of(self, module):
        name = self._names.get(module) or type(module).__name__
        self._names[module] = name
        if module not in self._named:
            for child, one in module.named_children():
                self._names[one] = f"{name}.{child}"
            self._named.add(module)
        return name

    @property
    def is_bw(self):
        """Whether a backward sweep is going on."""
        return current_graph_task_id() != -1

    def _enter(self, name, backward):
        def enter(*args):
            if backward and not self.is_bw:
                return
            self.parents.add(name)

        return enter

    def _leave(self, name, backward):
        def leave(*args):
            self.parents.discard(name)

        return leave

    def _before(self, module, args):
        name = self._name_of(module)
        self.parents.add(name)
        wanting = _wanting(args)
        if is_grad_enabled() and wanting:
            self._handles.append(
                register_multi_grad_hook(wanting, self._leave(name, True))
            )

    def _after(self, module, args, output):
        name = self._name_of(module)
        self.parents.discard(name)
        wanting = _wanting(output)
        if is_grad_enabled() and wanting:
            self._handles.append(
                register_multi_grad_hook(wanting, self._enter(name, True), mode="any")
            )

    def __enter__(self):
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, *raised):
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self.parents = {"Global"}


def _wanting(values):
    """The tensors of a structure that want gradients."""
    return [
        one
        for one in tree_leaves(values)
        if isinstance(one, Tensor) and one.requires_grad
    ]
