"""``GradScaler`` under its former name."""

from __future__ import annotations

import warnings

from rushlight.amp import grad_scaler
from rushlight.amp.grad_scaler import OptState

__all__ = ["GradScaler", "OptState"]


class GradScaler(grad_scaler.GradScaler):
    """``amp.GradScaler("cuda", ...)``: without a GPU, nothing is scaled."""

    def __init__(
        self,
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        warnings.warn(
            "`torch.cuda.amp.GradScaler(args...)` is deprecated. Please use "
            "`torch.amp.GradScaler('cuda', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
