"""Resilient propagation."""

import rushlight as rl
from rushlight.optim import _rules as rules
from rushlight.optim._functional import rule

__all__ = ["Rprop", "rprop"]


class Rprop(rules.Elementwise):
    """Steps whose size depends on the gradient's sign alone.

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: the first step's size.
        etas: factors of the size after the sign changed, and after it did not.
        step_sizes: the smallest and the largest size.
    """

    _late_defaults = rules.LATE

    def __init__(
        self,
        params,
        lr=1e-2,
        etas=(0.5, 1.2),
        step_sizes=(1e-6, 50),
        *,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        rules.check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _init_state(self, group, parameter, state):
        state["step"] = rules.zero_step(group, parameter)
        state["prev"] = rl.zeros_like(parameter)
        size = rules.complex_or_real(parameter, float(rules.number(group["lr"])))
        state["step_size"] = rl.full_like(parameter, size)

    def _update(self, group, parameter, grad, state):
        smaller, larger = group["etas"]
        shortest, longest = group["step_sizes"]
        state["step"] += 1
        size, last = state["step_size"], state["prev"]
        agreement = grad * last
        sign_changed = agreement < 0
        factor = rl.ones_like(size).masked_fill_(agreement > 0, larger)
        factor.masked_fill_(sign_changed, smaller)
        size.mul_(factor).clamp_(shortest, longest)
        # Where the sign changed the step is skipped, and forgotten.
        grad = grad.masked_fill(sign_changed, 0)
        parameter.addcmul_(grad.sign(), size, value=-1)
        last.copy_(grad)


rprop = rule(Rprop)
