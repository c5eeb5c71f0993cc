"""Apple's GPUs: there is no backend for them."""

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_built():
    """Whether the backend is there: no."""
    return False


def is_available():
    """Whether tensors can live there: no."""
    return False


def is_macos_or_newer(major, minor):
    """Whether the backend runs on such a system: it runs on none."""
    return False


def is_macos13_or_newer(minor=0):
    """Whether the backend runs on such a system: it runs on none."""
    return False
