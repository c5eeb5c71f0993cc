"""``autocast`` for the host under its former name."""

import warnings

from rushlight.amp import autocast_mode
from rushlight.core.dtypes import bfloat16

__all__ = ["autocast"]


class autocast(autocast_mode.autocast):
    """``amp.autocast("cpu", ...)``.

    Args:
        enabled: whether anything is converted.
        dtype: the type of products.
        cache_enabled: whether converted weights are kept to the end of the block.
    """

    def __init__(self, enabled=True, dtype=bfloat16, cache_enabled=True):
        warnings.warn(
            "`torch.cpu.amp.autocast(args...)` is deprecated. Please use "
            "`torch.amp.autocast('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", dtype, enabled, cache_enabled)
