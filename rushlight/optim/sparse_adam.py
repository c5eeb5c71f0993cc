"""Adam over the elements that sparse gradients hold."""

import math

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.optim import _rules as rules

__all__ = ["SparseAdam"]


class SparseAdam(rules.Elementwise):
    """``Adam`` that touches only the elements that a sparse gradient holds.

    Args:
        params: dense tensors, or dicts that describe groups of them.
        lr: learning rate.
        betas: share of the last mean, and of the last mean square, that is kept.
        eps: added to the root.
        maximize: go up instead of down.

    Raises:
        ValueError: an option is out of its range, or a parameter is sparse or complex.
    """

    _late_defaults = {"maximize": False}

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        rules.check_betas(betas)
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        )
        found = [
            ([group_index, index], parameter)
            for group_index, group in enumerate(self.param_groups)
            for index, parameter in enumerate(group["params"])
        ]
        if sparse := [place for place, each in found if each.is_sparse]:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter "
                "tensors"
            )
        if numbers := [place for place, each in found if each.is_complex()]:
            raise ValueError(
                f"Complex params at indices {numbers}: SparseAdam does not support "
                "complex parameters"
            )

    # The counters are plain numbers, and stay so when a state is loaded.
    _counts_in_tensors = False

    def _check_param(self, parameter):
        if not parameter.grad.is_sparse:
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam "
                "instead"
            )

    def _init_state(self, group, parameter, state):
        state["step"] = 0
        state["exp_avg"] = rl.zeros_like(parameter)
        state["exp_avg_sq"] = rl.zeros_like(parameter)

    def _update(self, group, parameter, grad, state):
        state["step"] += 1
        grad = grad.coalesce()  # squares are taken, so no place may come twice
        values = grad._values()
        if values.numel() == 0:
            return
        element_indices = tuple(grad._indices().unbind(0))
        beta1, beta2 = group["betas"]
        mean = _blend(state["exp_avg"], element_indices, values, 1 - beta1)
        square = _blend(
            state["exp_avg_sq"], element_indices, values.square(), 1 - beta2
        )
        correction1 = 1 - beta1 ** state["step"]
        correction2 = 1 - beta2 ** state["step"]
        size = rules.number(group["lr"]) * math.sqrt(correction2) / correction1
        update = mean.div_(square.sqrt_().add_(group["eps"])).mul_(-size)
        parameter.index_put_(element_indices, update, accumulate=True)


def _blend(average, element_indices, values, share):
    """Move an average towards values at some places; what it is there now."""
    before = average[element_indices]
    change = values.sub(before).mul_(share)
    average.index_put_(element_indices, change, accumulate=True)
    return change.add_(before)
