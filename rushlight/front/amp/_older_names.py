"""Autocast's settings under names that had the kind of device in them."""

from __future__ import annotations

import warnings

from rushlight.amp.autocast_mode import (
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)


def _older(name, text, value):
    warnings.warn(
        f"torch.{name} is deprecated. Please use torch.{text} instead.",
        DeprecationWarning,
        stacklevel=3,
    )
    return value


def is_autocast_cpu_enabled():
    """The former name of ``is_autocast_enabled("cpu")``."""
    return _older(
        "is_autocast_cpu_enabled()",
        "is_autocast_enabled('cpu')",
        is_autocast_enabled("cpu"),
    )


def get_autocast_cpu_dtype():
    """The former name of ``get_autocast_dtype("cpu")``."""
    return _older(
        "get_autocast_cpu_dtype()",
        "get_autocast_dtype('cpu')",
        get_autocast_dtype("cpu"),
    )


def get_autocast_gpu_dtype():
    """The former name of ``get_autocast_dtype("cuda")``."""
    return _older(
        "get_autocast_gpu_dtype()",
        "get_autocast_dtype('cuda')",
        get_autocast_dtype("cuda"),
    )


def set_autocast_cpu_enabled(enabled):
    """The former name of ``set_autocast_enabled("cpu", enabled)``.

    Args:
        enabled: whether operators convert.

    >>> import pytest
    >>> with pytest.warns(DeprecationWarning):
    ...     torch.set_autocast_cpu_enabled(False)
    """
    _older(
        "set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)", 0
    )
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype):
    """The former name of ``set_autocast_dtype("cpu", dtype)``.

    Args:
        dtype: the type.

    >>> import pytest
    >>> with pytest.warns(DeprecationWarning):
    ...     torch.set_autocast_cpu_dtype(torch.bfloat16)
    """
    _older("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)", 0)
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype):
    """The former name of ``set_autocast_dtype("cuda", dtype)``.

    Args:
        dtype: the type.

    >>> import pytest
    >>> with pytest.warns(DeprecationWarning):
    ...     torch.set_autocast_gpu_dtype(torch.float16)
    """
    _older("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)", 0)
    set_autocast_dtype("cuda", dtype)
