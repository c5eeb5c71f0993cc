"""Averaged stochastic gradient descent."""

import rushlight as rl
from rushlight.optim import _rules as rules
from rushlight.optim._functional import rule

__all__ = ["ASGD", "asgd"]


class ASGD(rules.Elementwise):
    """Gradient descent that also keeps the average of the parameters.

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: learning rate.
        lambd: how much the parameters shrink with each step.
        alpha: exponent of the learning rate's decay.
        t0: the step at which averaging begins.
        weight_decay: this times the parameter is added to the gradient.
    """

    _captured = ", mus, etas, and state_steps"
    _late_defaults = rules.LATE
    _options = (
        "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
    )
    _checked = "lr weight_decay"

    def __init__(
        self,
        params,
        lr=1e-2,
        lambd=1e-4,
        alpha=0.75,
        t0=1e6,
        weight_decay=0,
        foreach=None,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        super().__init__(params, self._chosen(locals()))

    def _init_state(self, group, parameter, state):
        state["step"] = rules.zero_step(group, parameter)
        state["eta"] = rl.tensor(float(rules.number(group["lr"])), dtype=rl.float32)
        state["mu"] = rl.tensor(1.0, dtype=rl.float32)
        state["ax"] = rl.zeros_like(parameter)

    def _update(self, group, parameter, grad, state):
        lr, lambd = rules.number(group["lr"]), group["lambd"]
        state["step"] += 1
        grad = rules.decayed(group, parameter, grad)
        eta = state["eta"].item()
        parameter.mul_(1 - lambd * eta)
        parameter.add_(grad, alpha=-eta)
        average, share = state["ax"], state["mu"].item()
        if share != 1:
            average.add_(parameter.sub(average).mul_(share))
        else:
            average.copy_(parameter)
        step = state["step"].item()
        state["eta"].fill_(lr / (1 + lambd * lr * step) ** group["alpha"])
        state["mu"].fill_(1 / max(1, step - group["t0"]))


asgd = rule(ASGD)
