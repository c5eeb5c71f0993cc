"""``GradScaler`` of gradients that are spread over processes: of one, the plain one."""

from rushlight.amp.grad_scaler import GradScaler

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """`amp.GradScaler` that asks all processes of a group whether a gradient overflowed.

    Args:
        device: where the losses are.
        init_scale: the first factor.
        backoff_factor: what it is multiplied with after an overflow.
        growth_factor: what it is multiplied with where no gradient overflows.
        growth_interval: steps without an overflow until it grows.
        enabled: whether the scaler does anything.
        process_group: the processes; there is one.
    """

    def __init__(
        self,
        device="cuda",
        init_scale=2.0**16,
        backoff_factor=0.5,
        growth_factor=2.0,
        growth_interval=2000,
        enabled=True,
        process_group=None,
    ):
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
        self.process_group = process_group
