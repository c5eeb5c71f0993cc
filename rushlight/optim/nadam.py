"""NAdam."""

import rushlight as rl
from rushlight.optim import _rules as rules
from rushlight.optim._functional import rule

__all__ = ["NAdam", "nadam"]


class NAdam(rules.Elementwise):
    """``Adam`` with Nesterov's look ahead.

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: learning rate.
        betas: share of the last mean, and of the last mean square, that is kept.
        eps: added to the root.
        weight_decay: this times the parameter is added to the gradient.
        momentum_decay: how fast the momentum reaches its full size.
        decoupled_weight_decay: shrink the parameters instead, as ``AdamW`` does.
    """

    _captured = ", mu_products and state_steps"
    _late_defaults = {**rules.LATE, "decoupled_weight_decay": False}
    _options = (
        "lr betas eps weight_decay momentum_decay decoupled_weight_decay "
        "maximize foreach capturable differentiable"
    )
    _checked = "lr eps betas weight_decay momentum_decay"

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        super().__init__(params, self._chosen(locals()))

    def _init_state(self, group, parameter, state):
        state["step"] = rules.step_of_number(group, parameter)
        state["mu_product"] = rl.tensor(1.0, dtype=rl.float32)
        state["exp_avg"] = rl.zeros_like(parameter)
        state["exp_avg_sq"] = rl.zeros_like(parameter)

    def _update(self, group, parameter, grad, state):
        beta1, beta2 = group["betas"]
        lr, step = rules.number(group["lr"]), rules.counted(state)
        grad = rules.decayed(group, parameter, grad)

        def momentum_at(time):
            return beta1 * (1.0 - 0.5 * 0.96 ** (time * group["momentum_decay"]))

        now, later = momentum_at(step), momentum_at(step + 1)
        state["mu_product"] *= now
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = square.div(1 - beta2**step).sqrt()
        product = state["mu_product"].item()
        if group["differentiable"]:  # what the graph keeps is not written again
            root, mean = root + group["eps"], mean.clone()
        else:
            root.add_(group["eps"])
        parameter.addcdiv_(grad, root, value=-lr * (1.0 - now) / (1.0 - product))
        parameter.addcdiv_(mean, root, value=-lr * later / (1.0 - product * later))


nadam = rule(NAdam)
