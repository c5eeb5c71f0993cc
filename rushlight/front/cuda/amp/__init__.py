"""The former place of ``amp`` for GPUs."""

from rushlight.cuda.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from rushlight.cuda.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
