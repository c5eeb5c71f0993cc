"""Adadelta."""

import rushlight as rl
from rushlight.optim import _rules as rules
from rushlight.optim._functional import rule

__all__ = ["Adadelta", "adadelta"]


class Adadelta(rules.Elementwise):
    """Steps in proportion to the recent steps' size over the gradients' size.

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: factor of the step.
        rho: share of the last mean squares that is kept.
        eps: added to them.
        weight_decay: this times the parameter is added to the gradient.
    """

    _late_defaults = rules.LATE
    _options = "lr rho eps weight_decay maximize capturable foreach differentiable"
    _checked = "eps weight_decay"

    def __init__(
        self,
        params,
        lr=1.0,
        rho=0.9,
        eps=1e-6,
        weight_decay=0,
        foreach=None,
        *,
        capturable=False,
        maximize=False,
        differentiable=False,
    ):
        rules.check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, self._chosen(locals()))

    def _init_state(self, group, parameter, state):
        state["step"] = rules.zero_step(group, parameter)
        state["square_avg"] = rl.zeros_like(parameter)
        state["acc_delta"] = rl.zeros_like(parameter)

    def _update(self, group, parameter, grad, state):
        rho, eps = group["rho"], group["eps"]
        state["step"] += 1
        grad = rules.decayed(group, parameter, grad)
        square, travelled = state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        root = square.add(eps).sqrt_()
        delta = travelled.add(eps).sqrt_()
        if group["differentiable"]:
            delta = delta.clone()  # the root's gradient needs the root
        delta.div_(root).mul_(grad)
        travelled.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        parameter.add_(delta, alpha=-rules.number(group["lr"]))


adadelta = rule(Adadelta)
