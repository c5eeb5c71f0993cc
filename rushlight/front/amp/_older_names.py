"""Autocast's settings under names that had the kind of device in them."""

import warnings

from rushlight.amp import grad_scaler
from rushlight.amp.autocast_mode import (
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)


def _former(name, now, device, *values, argument=""):
    """Says what a name is now, and calls that."""
    more = f", {argument}" if argument else ""
    warnings.warn(
        f"torch.{name}({argument}) is deprecated. Please use "
        f"torch.{now.__name__}('{device}'{more}) instead.",
        DeprecationWarning,
        stacklevel=3,
    )
    return now(device, *values)


def is_autocast_cpu_enabled():
    """The former name of ``is_autocast_enabled("cpu")``."""
    return _former("is_autocast_cpu_enabled", is_autocast_enabled, "cpu")


def get_autocast_cpu_dtype():
    """The former name of ``get_autocast_dtype("cpu")``."""
    return _former("get_autocast_cpu_dtype", get_autocast_dtype, "cpu")


def get_autocast_gpu_dtype():
    """The former name of ``get_autocast_dtype("cuda")``."""
    return _former("get_autocast_gpu_dtype", get_autocast_dtype, "cuda")


def set_autocast_cpu_enabled(enabled):
    """The former name of ``set_autocast_enabled("cpu", enabled)``.

    Args:
        enabled: whether operators convert.

    >>> import pytest
    >>> with pytest.warns(DeprecationWarning):
    ...     torch.set_autocast_cpu_enabled(False)
    """
    _former(
        "set_autocast_cpu_enabled",
        set_autocast_enabled,
        "cpu",
        enabled,
        argument="enabled",
    )


def set_autocast_cpu_dtype(dtype):
    """The former name of ``set_autocast_dtype("cpu", dtype)``.

    Args:
        dtype: the type.

    >>> import pytest
    >>> with pytest.warns(DeprecationWarning):
    ...     torch.set_autocast_cpu_dtype(torch.bfloat16)
    """
    _former(
        "set_autocast_cpu_dtype", set_autocast_dtype, "cpu", dtype, argument="dtype"
    )


def set_autocast_gpu_dtype(dtype):
    """The former name of ``set_autocast_dtype("cuda", dtype)``.

    Args:
        dtype: the type.

    >>> import pytest
    >>> with pytest.warns(DeprecationWarning):
    ...     torch.set_autocast_gpu_dtype(torch.float16)
    """
    _former(
        "set_autocast_gpu_dtype", set_autocast_dtype, "cuda", dtype, argument="dtype"
    )


class FormerGradScaler(grad_scaler.GradScaler):
    """``GradScaler`` under the names that had the kind of device in them.

    Args:
        init_scale: the first factor.
        growth_factor: what the factor is multiplied with where no gradient overflows.
        backoff_factor: what it is multiplied with after an overflow.
        growth_interval: steps without an overflow until it grows.
        enabled: whether the scaler does anything.
    """

    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5,
        growth_interval=2000, enabled=True,
    ):  # fmt: skip
        warnings.warn(
            f"`torch.{self._kind}.amp.GradScaler(args...)` is deprecated. Please use "
            f"`torch.amp.GradScaler('{self._kind}', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        factors = init_scale, growth_factor, backoff_factor, growth_interval
        super().__init__(self._kind, *factors, enabled)
