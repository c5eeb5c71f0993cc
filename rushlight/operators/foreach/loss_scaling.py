"""Gradients of scaled losses: unscaled all at once, and the scale adapted."""

from rushlight.codegen.frontend.faults import Refused
from rushlight.codegen.language import isfinite, pointwise
from rushlight.core.dtypes import int32
from rushlight.core.roles import host
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import batched_launch
from rushlight.operators import call as ops
from rushlight.operators.foreach.optimizer_updates import FUSED_DTYPES


@pointwise
def unscaled(grad, inverse):
    """A gradient without its loss's scale; what is not finite is reported."""
    return Refused("found_not_finite", grad * inverse, ~isfinite(grad))


_unscales_lists = KernelTable(
    cpu=lambda _: False, cuda=batched_launch.reaches, meta=batched_launch.reaches
)


def unscale_each_(self, found_inf, inv_scale):
    """Multiplies each gradient in place; nothing waits for a device.

    Raises:
        RuntimeError: one of the two is more than a number.
    """
    for name, value in (("inv_scale", inv_scale), ("found_inf", found_inf)):
        if value.numel() != 1:
            raise RuntimeError(f"{name} must be a 1-element tensor.")
    groups, single = {}, []
    for grad in self:
        plain = grad.dtype.name in FUSED_DTYPES
        if (
            plain
            and _unscales_lists(grad.device)
            and host.foreach.same_layout([[grad]])
        ):
            groups.setdefault((grad.device, grad.dtype), []).append(grad)
        else:
            single.append(grad)
    for (device, _), grads in groups.items():
        flag = ops.zeros([1], dtype=int32, device=device)
        batched_launch.run(unscaled, [grads], [grads, inv_scale], fault=flag)
        found_inf.copy_(ops.maximum(found_inf, ops.ne(flag[0], 0)))
    for grad in single:
        missed = ops.logical_not(ops.all(ops.isfinite(grad)))
        found_inf.copy_(ops.maximum(found_inf, missed))
        grad.mul_(inv_scale)


def update_scale_(
    self,
    growth_tracker,
    found_inf,
    scale_growth_factor,
    scale_backoff_factor,
    growth_interval,
):
    """The scale after a step, and the count of steps without an overflow."""
    found = ops.gt(found_inf, 0)
    successes = growth_tracker + 1
    due = ops.logical_and(ops.eq(successes, growth_interval), ops.logical_not(found))
    grown = self * scale_growth_factor
    larger = ops.logical_and(due, ops.isfinite(grown))
    kept = ops.where(larger, grown, self)
    self.copy_(ops.where(found, self * scale_backoff_factor, kept))
    over = ops.logical_or(found, due)
    growth_tracker.copy_(ops.where(over, ops.zeros_like(successes), successes))
    return self
