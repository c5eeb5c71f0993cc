"""``autocast`` and its decorators under their former names."""

import functools
import warnings

from rushlight.amp import autocast_mode

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


def _former(name, now):
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}({now}args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(autocast_mode.autocast):
    """``amp.autocast("cuda", ...)``: without a GPU, nothing is converted."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        _former("autocast", "'cuda', ")
        super().__init__("cuda", dtype, enabled, cache_enabled)


def custom_fwd(fwd=None, *, cast_inputs=None):
    """``amp.custom_fwd(device_type="cuda")``."""
    _former("custom_fwd", "")
    return functools.partial(autocast_mode.custom_fwd, device_type="cuda")(
        fwd, cast_inputs=cast_inputs
    )


def custom_bwd(bwd=None):
    """``amp.custom_bwd(device_type="cuda")``."""
    _former("custom_bwd", "")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
