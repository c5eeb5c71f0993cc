"""Whether Triton's kernels can be used: they cannot."""

__all__ = ["has_triton", "has_triton_package"]


def has_triton_package():
    """Whether the package is installed."""
    from importlib.util import find_spec

    return find_spec("triton") is not None


def has_triton():
    """Whether there is a device for its kernels: no."""
    return False
