"""``GradScaler`` for the host under its former name."""

from __future__ import annotations

import warnings

from rushlight.amp import grad_scaler

__all__ = ["GradScaler"]


class GradScaler(grad_scaler.GradScaler):
    """``amp.GradScaler("cpu", ...)``.

    Args:
        init_scale: the first factor.
        growth_factor: what the factor is multiplied with where no gradient overflows.
        backoff_factor: what it is multiplied with after an overflow.
        growth_interval: steps without an overflow until it grows.
        enabled: whether the scaler does anything.
    """

    def __init__(
        self,
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        warnings.warn(
            "`torch.cpu.amp.GradScaler(args...)` is deprecated. Please use "
            "`torch.amp.GradScaler('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(
            "cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
