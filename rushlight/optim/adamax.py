"""Adamax."""

import rushlight as rl
from rushlight.optim import _rules as rules
from rushlight.optim._functional import rule

__all__ = ["Adamax", "adamax"]


class Adamax(rules.Elementwise):
    """``Adam`` with the largest recent gradient in place of the root mean square.

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: learning rate.
        betas: share of the last mean, and of the last maximum, that is kept.
        eps: added to the gradient's size.
        weight_decay: this times the parameter is added to the gradient.
    """

    _late_defaults = rules.LATE
    _options = "lr betas eps weight_decay foreach maximize differentiable capturable"
    _checked = "lr eps betas weight_decay"

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        super().__init__(params, self._chosen(locals()))

    def _init_state(self, group, parameter, state):
        state["step"] = rules.step_of_number(group, parameter)
        state["exp_avg"] = rl.zeros_like(parameter)
        state["exp_inf"] = rl.zeros_like(parameter)

    def _update(self, group, parameter, grad, state):
        beta1, beta2 = group["betas"]
        state["step"] += 1
        grad = rules.decayed(group, parameter, grad)
        mean, largest = state["exp_avg"], state["exp_inf"]
        mean.lerp_(grad, 1 - beta1)
        rules.keep_largest(group, largest.mul_(beta2), grad.abs().add_(group["eps"]))
        rate = rules.number(group["lr"]) / (1 - beta1 ** state["step"].item())
        parameter.addcdiv_(mean, largest, value=-rate)


adamax = rule(Adamax)
