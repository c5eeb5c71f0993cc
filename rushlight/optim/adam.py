"""Adam."""

import rushlight as rl
from rushlight.core.roles import host
from rushlight.optim import _rules as rules
from rushlight.optim._functional import rule

__all__ = ["Adam", "adam"]


def _check_kinds(betas, alone):
    """Refuse decay rates that are neither two floats nor two tensors of one number."""
    if all(isinstance(beta, float) for beta in betas):
        return
    if not all(isinstance(beta, rl.Tensor) for beta in betas):
        raise ValueError("betas must be either both floats or both Tensors")
    for index, beta in enumerate(betas):
        if alone:
            raise ValueError(
                f"betas[{index}] as a Tensor is not supported for capturable=False and "
                "foreach=True"
            )
        if beta.numel() != 1:
            raise ValueError(f"Tensor betas[{index}] must be 1-element")


class Adam(rules.Elementwise):
    """Steps along the mean gradient over the root of its mean square.

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: learning rate.
        betas: share of the last mean, and of the last mean square, that is kept.
        eps: added to the root.
        weight_decay: this times the parameter is added to the gradient.
        amsgrad: divide by the largest mean square seen.
        foreach, fused: accepted; the fused kernel runs wherever it can.
        maximize: go up instead of down.
        capturable: accepted; keeps the step counters where the parameters are.
        differentiable: whether autograd records the step.
        decoupled_weight_decay: shrink the parameters instead, as ``AdamW`` does.
    """

    _options = (
        "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable "
        "fused decoupled_weight_decay"
    )
    _checked = "lr eps betas weight_decay"
    _late_defaults = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=False,
    ):
        alone = foreach and not capturable
        if isinstance(lr, rl.Tensor) and alone:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        chosen = self._chosen(locals())
        _check_kinds(betas, alone)
        chosen["betas"] = tuple(map(rules.number, betas))
        super().__init__(params, chosen)
        rules.check_modes(fused, foreach, differentiable)
        if fused:
            self._step_supports_amp_scaling = True

    def _check_param(self, parameter):
        if parameter.grad.is_sparse:
            raise RuntimeError(
                "Adam does not support sparse gradients, please consider SparseAdam "
                "instead"
            )

    def _init_state(self, group, parameter, state):
        rules.zero_moments(group, parameter, state)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = rl.zeros_like(parameter)

    def _step_group(self, group):
        from rushlight.operators.foreach import optimizer_updates as foreach

        for params, fits in rules.alike(group["params"], foreach.can_fuse):
            if not fits or group["differentiable"]:
                self._step_each(foreach, group, params)
            else:
                self._step_alike(foreach, group, params)

    def _step_each(self, foreach, group, params):
        """The step of one parameter after the other."""
        if not foreach.left_out(params, self):
            super()._step_group({**group, "params": params})

    def _step_alike(self, foreach, group, params):
        """The step of parameters of one device and type, by one kernel."""
        states = []
        for parameter in params:
            state = self.state[parameter]
            if not state:
                self._init_state(group, parameter, state)
            states.append(state)
        if group["capturable"] and not group["fused"]:
            for parameter in params:
                rules.check_capturable(group, parameter)
        averages = [state["exp_avg"] for state in states]
        squares = [state["exp_avg_sq"] for state in states]
        largest = None
        steps = [state["step"] for state in states]
        lists = [params, averages, squares]
        if group["amsgrad"]:
            largest = [state["max_exp_avg_sq"] for state in states]
            lists.append(largest)
        if not host.foreach.same_layout(lists) or len({s.device for s in steps}) > 1:
            self._step_each(foreach, group, params)  # a state that was loaded, say
            return
        beta1, beta2 = group["betas"]
        update = (
            foreach.fused_adamw_
            if group["decoupled_weight_decay"]
            else foreach.fused_adam_
        )
        update(
            params,
            [each.grad for each in params],
            averages,
            squares,
            largest,
            steps,
            lr=rules.option(group["lr"], steps[0]),
            beta1=beta1,
            beta2=beta2,
            weight_decay=rules.number(group["weight_decay"]),
            eps=group["eps"],
            maximize=group["maximize"],
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
        )

    def _update(self, group, parameter, grad, state):
        beta1, beta2 = group["betas"]
        lr, decay = group["lr"], group["weight_decay"]
        state["step"] += 1
        if decay != 0:
            if group["decoupled_weight_decay"]:
                parameter.mul_(1 - lr * decay)
            else:
                grad = grad.add(parameter, alpha=decay)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad.conj(), value=1 - beta2)
        step = state["step"].item()
        if group["amsgrad"]:
            square = rules.keep_largest(group, state["max_exp_avg_sq"], square)
        root = (square.sqrt() / (1 - beta2**step) ** 0.5).add_(group["eps"])
        size = lr / (1 - beta1**step)
        if isinstance(size, rl.Tensor):
            # ``root`` keeps its own copy: autograd reads the mean again in backward.
            parameter.sub_(mean.clone() / root * size)
        else:
            parameter.addcdiv_(
                mean.clone() if group["differentiable"] else mean, root, value=-size
            )


adam = rule(Adam)
