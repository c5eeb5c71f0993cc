"""Meta's accelerators: there is no backend for them."""

__all__ = ["device_count", "is_available", "is_initialized"]


def is_available():
    """Whether tensors can live there: no."""
    return False


def is_initialized():
    """Whether the driver has been set up."""
    return False


def device_count():
    """The number of usable devices."""
    return 0
