"""Stochastic gradient descent."""

import rushlight as rl
from rushlight.core.roles import host
from rushlight.optim import _rules as rules
from rushlight.optim._functional import rule

__all__ = ["SGD", "sgd"]


class SGD(rules.Elementwise):
    """Stochastic gradient descent, with momentum if wanted.

    ``buf = momentum * buf + (1 - dampening) * grad; param -= lr * buf``

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: learning rate.
        momentum: share of the last step's direction that is kept.
        dampening: taken off the gradient's share in the direction.
        weight_decay: this times the parameter is added to the gradient.
        nesterov: whether to look ahead along the new direction.
        maximize: go up instead of down.
        foreach, fused: accepted; the fused kernel runs wherever it can.
        differentiable: whether autograd records the step.
    """

    _options = (
        "lr momentum dampening weight_decay nesterov maximize foreach differentiable "
        "fused"
    )
    _checked = "lr"
    _late_defaults = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }

    def __init__(
        self,
        params,
        lr=1e-3,
        momentum=0,
        dampening=0,
        weight_decay=0,
        nesterov=False,
        *,
        maximize=False,
        foreach=None,
        differentiable=False,
        fused=None,
    ):
        chosen = self._chosen(locals())
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, chosen)
        rules.check_modes(fused, foreach, differentiable)
        if fused:
            self._step_supports_amp_scaling = True

    def _step_group(self, group):
        from rushlight.operators.foreach import optimizer_updates as foreach

        for params, fits in rules.alike(group["params"], foreach.can_fuse):
            self._step_alike(
                foreach, group, params, fits and not group["differentiable"]
            )

    def _step_alike(self, foreach, group, params, fits):
        """The step of parameters of one device and type, by one kernel if that fits."""
        if not fits:
            if foreach.left_out(params, self):
                return
            for parameter in params:
                state = self.state[parameter] if group["momentum"] else {}
                self.change(group, parameter, parameter.grad, state)
            return
        grads = [each.grad for each in params]
        options = {
            "lr": rules.option(group["lr"], params[0]),
            "weight_decay": rules.number(group["weight_decay"]),
            "momentum": group["momentum"],
            "dampening": group["dampening"],
            "nesterov": group["nesterov"],
            "maximize": group["maximize"],
            "grad_scale": getattr(self, "grad_scale", None),
            "found_inf": getattr(self, "found_inf", None),
        }
        if not group["momentum"]:
            foreach.fused_sgd_(params, grads, None, **options)
            return
        self._momentum_step(foreach, params, grads, options)

    def change(self, group, parameter, grad, state):
        """One parameter's step: of a complex one as of a real one."""
        grad = -grad if group["maximize"] else grad
        self._update(group, parameter, grad, state)

    def _momentum_step(self, foreach, params, grads, options):
        """Split off the parameters that have no direction yet."""
        seen, new = ([], [], []), ([], [], [])
        for parameter, grad in zip(params, grads):
            state = self.state[parameter]
            buffer = state.get("momentum_buffer")
            lists = seen
            if buffer is None:
                lists = new
                buffer = state["momentum_buffer"] = rl.zeros_like(parameter)
            for target, value in zip(lists, (parameter, grad, buffer)):
                target.append(value)
        if seen[0] and not host.foreach.same_layout([seen[0], seen[2]]):
            for parameter, grad, _ in zip(*seen):  # a state that was loaded, say
                grad = -grad if options["maximize"] else grad
                self._update(
                    {**options, "differentiable": False},
                    parameter,
                    grad,
                    self.state[parameter],
                )
            seen = ([], [], [])
        if seen[0]:
            foreach.fused_sgd_(*seen, **options)
        if new[0]:
            foreach.fused_sgd_(*new, first_step=True, **options)

    def _update(self, group, parameter, grad, state):
        lr, momentum = group["lr"], group["momentum"]
        if group["weight_decay"] != 0:
            grad = grad.add(parameter, alpha=group["weight_decay"])
        if momentum != 0:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.detach().clone()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        if group["differentiable"] and isinstance(lr, rl.Tensor):
            parameter.sub_(grad * lr)
        else:
            parameter.add_(grad, alpha=-rules.number(lr))


sgd = rule(SGD)
