"""Keeping types and modes out: for a block, or for a class whose instances are plain."""

from rushlight.core.state import Scope, silence_overrides, silenced_overrides


class DisableTorchFunctionSubclass(Scope):
    """A block whose calls are not intercepted by the types of their arguments."""

    _level = 1

    def _save(self):
        self._before = silenced_overrides()

    def _change(self):
        silence_overrides(max(self._level, self._before))

    def _restore(self):
        silence_overrides(self._before)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A block whose calls are not intercepted, neither by types nor by modes."""

    _level = 2


def _disabled_torch_function_impl(cls, func, types, args=(), kwargs=None):
    """For ``__torch_function__`` of a class whose instances are to be plain tensors."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def _disabled_torch_dispatch_impl(cls, func, types, args=(), kwargs=None):
    """For ``__torch_dispatch__`` of a class that leaves operators alone."""
    return NotImplemented


# Classes with these take no calls, whatever their bases say.
_disabled_torch_function_impl.passes_by = True  # type: ignore[attr-defined]
_disabled_torch_dispatch_impl.passes_by = True  # type: ignore[attr-defined]
