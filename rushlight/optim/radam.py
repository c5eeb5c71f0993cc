"""RAdam."""

from rushlight.optim import _rules as rules
from rushlight.optim._functional import rule

__all__ = ["RAdam", "radam"]


class RAdam(rules.Elementwise):
    """``Adam`` that waits with the division until the mean square is reliable.

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: learning rate.
        betas: share of the last mean, and of the last mean square, that is kept.
        eps: added to the root.
        weight_decay: this times the parameter is added to the gradient.
        decoupled_weight_decay: shrink the parameters instead, as ``AdamW`` does.
    """

    _late_defaults = {**rules.LATE, "decoupled_weight_decay": False}
    _options = (
        "lr betas eps weight_decay maximize foreach capturable "
        "decoupled_weight_decay differentiable"
    )
    _checked = "lr eps betas weight_decay"

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        super().__init__(params, self._chosen(locals()))

    def _init_state(self, group, parameter, state):
        rules.zero_moments(group, parameter, state)

    def _update(self, group, parameter, grad, state):
        beta1, beta2 = group["betas"]
        lr, step = rules.number(group["lr"]), rules.counted(state)
        grad = rules.decayed(group, parameter, grad)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction2 = 1 - beta2**step
        update = mean / (1 - beta1**step) * lr
        # Length of the average, and the variance it gives the step, as published.
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / correction2
        if length > 5.0:
            rectified = (
                (length - 4)
                * (length - 2)
                * longest
                / ((longest - 4) * (longest - 2) * length)
            ) ** 0.5
            root = square.sqrt()
            eps = group["eps"]
            root = root + eps if group["differentiable"] else root.add_(eps)
            update = update * (correction2**0.5 / root) * rectified
        parameter.add_(update, alpha=-1.0)


radam = rule(RAdam)
