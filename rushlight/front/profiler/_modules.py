"""Calls of modules as spans: ``nn.Module: Linear_0``."""

from rushlight.core import spans
from rushlight.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)


class ModuleSpans:
    """Hooks around every module's ``forward``, until they are removed.

    A module is called by its type and the number of the type's modules before it, as
    they are met: the hooks hold no module.
    """

    def __init__(self):
        self.names: dict = {}  # id of a module -> its name
        self.counts: dict = {}  # name of a type -> how many were met
        self.open: list = []
        self.handles = (
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
        )

    def name(self, module):
        """What a module is called."""
        found = self.names.get(id(module))
        if found is None:
            kind = type(module).__name__
            number = self.counts.get(kind, 0)
            self.counts[kind] = number + 1
            found = self.names[id(module)] = f"nn.Module: {kind}_{number}"
        return found

    def _begin(self, module, args):
        self.open.append((id(module), spans.begin(self.name(module))))

    def _end(self, module, args, result):
        while self.open:  # those inside that an exception left are over, too
            number, token = self.open.pop()
            spans.end(token)
            if number == id(module):
                break

    def remove(self):
        """Takes the hooks away."""
        for handle in self.handles:
            handle.remove()
