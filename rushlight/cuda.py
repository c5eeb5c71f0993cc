"""NVIDIA GPUs: what a program asks before it uses one. No device can be used yet.

Kernels for them are generated and assembled (``rushlight.te.build(target="ptx")``);
nothing launches them, so no device is reported.
"""

from __future__ import annotations


def is_available():
    """Whether tensors can live on a GPU: not yet.

    >>> is_available()
    False
    """
    return False


def device_count():
    """The number of usable GPUs."""
    return 0


def is_initialized():
    """Whether the driver has been set up."""
    return False


def manual_seed(seed):
    """Seed the current GPU's generator; without a GPU, nothing happens."""


def manual_seed_all(seed):
    """Seed every GPU's generator; without a GPU, nothing happens."""


def empty_cache():
    """Release cached GPU memory; without a GPU, nothing happens."""


def synchronize(device=None):
    """Wait for the GPU.

    Raises:
        RuntimeError: there is none.
    """
    _refuse()


def current_device():
    """The index of the current GPU.

    Raises:
        RuntimeError: there is none.
    """
    _refuse()


def get_device_name(device=None):
    """The name of a GPU.

    Raises:
        RuntimeError: there is none.
    """
    _refuse()


def _refuse():
    raise RuntimeError(
        "Rushlight has no CUDA backend yet: no GPU can be used.\n"
        '  remedy: keep tensors on device="cpu"'
    )
