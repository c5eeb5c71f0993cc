"""Exceptions of devices, which have names of their own in PyTorch."""


class OutOfMemoryError(RuntimeError):
    """No memory of a device is left."""


class AcceleratorError(RuntimeError):
    """A device reports an error.

    ``error_code`` is the driver's number for it, 0 where it gave none.
    """

    error_code = 0
