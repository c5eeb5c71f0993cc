"""RMSprop."""

import rushlight as rl
from rushlight.optim import _rules as rules
from rushlight.optim._functional import rule

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(rules.Elementwise):
    """Steps along the gradient over the root of its mean square.

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: learning rate.
        alpha: share of the last mean square that is kept.
        eps: added to the root.
        weight_decay: this times the parameter is added to the gradient.
        momentum: share of the last step's direction that is kept.
        centered: divide by the standard deviation instead.
    """

    _late_defaults = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    _options = (
        "lr momentum alpha eps centered weight_decay capturable foreach "
        "maximize differentiable"
    )
    _checked = "lr eps momentum weight_decay alpha"

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        super().__init__(params, self._chosen(locals()))

    def _init_state(self, group, parameter, state):
        state["step"] = rules.zero_step(group, parameter)
        state["square_avg"] = rl.zeros_like(parameter)
        if group["momentum"] > 0:
            state["momentum_buffer"] = rl.zeros_like(parameter)
        if group["centered"]:
            state["grad_avg"] = rl.zeros_like(parameter)

    def _update(self, group, parameter, grad, state):
        alpha, lr = group["alpha"], rules.number(group["lr"])
        state["step"] += 1
        grad = rules.decayed(group, parameter, grad)
        square = state["square_avg"]
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"]
            mean.lerp_(grad, 1 - alpha)
            root = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            root = square.sqrt()
        root = (
            root + group["eps"] if group["differentiable"] else root.add_(group["eps"])
        )
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"]
            buffer.mul_(group["momentum"]).addcdiv_(grad, root)
            parameter.add_(buffer, alpha=-lr)
        else:
            parameter.addcdiv_(grad, root, value=-lr)


rmsprop = rule(RMSprop)
