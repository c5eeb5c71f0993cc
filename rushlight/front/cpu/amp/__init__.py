"""The former place of ``amp`` for the host."""

from rushlight.cpu.amp.autocast_mode import autocast
from rushlight.cpu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
