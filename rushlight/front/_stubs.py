"""Functions of what is not there: each is to be found, and raises when it is called."""

from collections.abc import Callable


def no_devices(module: str):
    """``is_available`` and ``device_count`` of a module whose devices are not there.

    >>> is_available, device_count = no_devices("rushlight.mps")
    >>> is_available(), device_count()
    (False, 0)
    """

    def is_available():
        """Whether tensors can live there: no."""
        return False

    def device_count():
        """The number of usable devices."""
        return 0

    for function in (is_available, device_count):
        function.__module__, function.__qualname__ = module, function.__name__
    return is_available, device_count


def refusing(module: str, name: str, refuse: Callable[..., object], because: str):
    """A function of a module that raises.

    Args:
        module: its name, as in ``__name__``.
        refuse: raises the exception; it is called without arguments.
        because: the exception's type and the reason, for the documentation.

    >>> import sys
    >>> leave = refusing("place", "leave", sys.exit, "SystemExit: present is no staying.")
    >>> leave.__module__, leave.__name__
    ('place', 'leave')
    """

    def function(*args, **kwargs):
        refuse()

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = f"Raises:\n    {because}"
    return function
