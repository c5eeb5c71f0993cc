"""Modules without the work of drawing their first parameters."""

from rushlight.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls, *args, **kwargs):
    """A module whose parameters hold whatever their memory holds.

    Args:
        module_cls: the module's class, which takes a ``device``.
        args, kwargs: its arguments.

    Raises:
        RuntimeError: it is no module's class, or takes no device.

    >>> import rushlight as rl
    >>> skip_init(rl.nn.Linear, 5, 1).weight.shape
    rushlight.Size([1, 5])
    """
    import inspect  # much to import, for a function seldom used

    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    # On the meta device drawing numbers costs nothing.
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
