"""Adagrad."""

import rushlight as rl
from rushlight.optim import _rules as rules
from rushlight.optim._functional import rule

__all__ = ["Adagrad", "adagrad"]


class Adagrad(rules.Elementwise):
    """Steps along the gradient over the root of the sum of all its squares.

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: learning rate.
        lr_decay: how much the rate falls with each step.
        weight_decay: this times the parameter is added to the gradient.
        initial_accumulator_value: the sum before the first step.
        eps: added to the root.
    """

    _late_defaults = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
    }
    _options = (
        "lr lr_decay eps weight_decay initial_accumulator_value foreach "
        "maximize differentiable fused"
    )
    _checked = "lr lr_decay weight_decay initial_accumulator_value eps"

    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        fused=None,
    ):
        super().__init__(params, self._chosen(locals()))
        rules.check_modes(fused, foreach, differentiable)
        if fused:
            self._step_supports_amp_scaling = True
        for group in self.param_groups:
            for parameter in group["params"]:
                self._init_state(group, parameter, self.state[parameter])

    def share_memory(self):
        """Move the sums to memory that other processes can map."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"].share_memory_()

    def _init_state(self, group, parameter, state):
        state["step"] = rules.zero_step(group, parameter)
        start = rules.complex_or_real(parameter, group["initial_accumulator_value"])
        state["sum"] = rl.full_like(parameter, start)

    def _check_param(self, parameter):
        """Sparse gradients are welcome."""

    def _update(self, group, parameter, grad, state):
        step = rules.counted(state)
        if group["weight_decay"] != 0:
            if grad.is_sparse:
                raise RuntimeError(
                    "weight_decay option is not compatible with sparse gradients"
                )
            grad = grad.add(parameter, alpha=group["weight_decay"])
        rate = rules.number(group["lr"]) / (1 + (step - 1) * group["lr_decay"])
        total = state["sum"]
        if grad.is_sparse:
            grad = grad.coalesce()  # squares are taken, so no place may come twice
            element_indices, values = tuple(grad._indices().unbind(0)), grad._values()
            total.index_put_(element_indices, values.square(), accumulate=True)
            root = total[element_indices].sqrt_().add_(group["eps"])
            parameter.index_put_(
                element_indices, values / root * -rate, accumulate=True
            )
            return
        total.addcmul_(grad, grad, value=1)
        root = total.sqrt()
        root = (
            root + group["eps"] if group["differentiable"] else root.add_(group["eps"])
        )
        parameter.addcdiv_(grad, root, value=-rate)


adagrad = rule(Adagrad)
