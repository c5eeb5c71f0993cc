"""Modules that learn their sizes from the first input."""

from itertools import chain

import rushlight as rl
from rushlight.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Makes a module of parameters whose shapes the first call finds out.

    A subclass creates an ``UninitializedParameter`` for each of them and defines
    ``initialize_parameters``, which is called with the first call's arguments. After
    that the module's class is ``cls_to_become``.

    >>> layer = rl.nn.LazyLinear(2)
    >>> layer
    LazyLinear(in_features=0, out_features=2, bias=True)
    >>> _ = layer(rl.ones(4, 3))
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become: type | None = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        def add(name, tensor):
            whole = keep_vars or is_lazy(tensor)
            destination[prefix + name] = tensor if whole else tensor.detach()

        for name, parameter in self._parameters.items():
            if parameter is not None:
                add(name, parameter)
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                add(name, buffer)

    def _lazy_load_hook(self, state_dict, prefix, *_):
        """Take the shapes of what is about to be loaded."""
        for name, tensor in chain(self._parameters.items(), self._buffers.items()):
            loaded = state_dict.get(prefix + name)
            if loaded is not None and is_lazy(tensor) and not is_lazy(loaded):
                with rl.no_grad():
                    tensor.materialize(loaded.shape)

    def initialize_parameters(self, *args, **kwargs):
        """Give all parameters their shapes; called with the first call's arguments.

        Raises:
            NotImplementedError: the subclass does not define it.
        """
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self):
        """Whether a parameter or buffer of this module has no shape yet."""
        return any(
            is_lazy(each)
            for each in chain(self._parameters.values(), self._buffers.values())
        )

    def _infer_parameters(self, module, args, kwargs=None):
        """Before the first call: find the shapes, and become a plain module."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"module {self._get_name()} has not been fully initialized"
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )
