"""Adafactor: mean squares kept as rows and columns."""

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.optim._rules import Elementwise, number, scalar, zero_step

__all__ = ["Adafactor"]


class Adafactor(Elementwise):
    """Steps along the gradient over the root of its mean square, of which matrices keep
    the means of rows and of columns only.

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: the largest step relative to a parameter's own size, and the factor of
            weight decay.
        beta2_decay: power of the step by which the newest square counts less.
        eps: the smallest mean square, by default the dtype's precision, and the
            smallest size of a parameter.
        d: updates longer than this are shortened.
        weight_decay: how much the parameters shrink with each step.
        foreach: accepted; there is one way of computing.
        maximize: go up instead of down.

    Raises:
        ValueError: an option is out of its range.
    """

    _options = "lr beta2_decay eps d weight_decay foreach maximize"
    _late_defaults = {"foreach": None}

    def __init__(
        self,
        params,
        lr=1e-2,
        beta2_decay=-0.8,
        eps=(None, 1e-3),
        d=1.0,
        weight_decay=0.0,
        *,
        foreach=None,
        maximize=False,
    ):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        checks = (
            ("Learning rate should be >= 0", lr, lr >= 0.0),
            ("beta2_decay should be <= 0", beta2_decay, beta2_decay <= 0.0),
            ("epsilon1 should be >= 0", eps[0], eps[0] is None or eps[0] >= 0.0),
            ("epsilon2 should be >= 0", eps[1], eps[1] >= 0.0),
            ("Clipping threshold d should be >= 1", d, d >= 1.0),
            ("weight_decay should be >= 0", weight_decay, weight_decay >= 0.0),
        )
        for rule, value, holds in checks:
            if not holds:
                raise ValueError(f"{rule} but is: {value}")
        super().__init__(params, self._chosen(locals()))

    def _check_param(self, parameter):
        if parameter.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        super()._check_param(parameter)

    def _init_state(self, group, parameter, state):
        grad = parameter.grad
        state["step"] = zero_step()
        if grad.dim() > 1:
            state["row_var"] = grad.new_zeros((*grad.shape[:-1], 1))
            state["col_var"] = grad.new_zeros((*grad.shape[:-2], 1, grad.shape[-1]))
        else:
            state["variance"] = rl.zeros_like(grad)

    def _update(self, group, parameter, grad, state):
        lr, (smallest, least) = scalar(group["lr"]), group["eps"]
        if smallest is None:
            smallest = rl.finfo(parameter.dtype).eps
        state["step"] += 1
        step = state["step"].item()
        share = step ** group["beta2_decay"]
        size = max(least, _root_mean_square(parameter)) * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            parameter.mul_(1 - lr * group["weight_decay"])
        square = self._mean_square(grad, state, share, smallest)
        update = square.clamp_(min=smallest * smallest).rsqrt_().mul_(grad)
        excess = max(1.0, _root_mean_square(update) / group["d"])
        parameter.add_(update, alpha=-number(size / excess))

    @staticmethod
    def _mean_square(grad, state, share, smallest):
        """The mean square of each element, of matrices as rows times columns."""
        if grad.dim() < 2:
            return state["variance"].lerp_(grad * grad, share).clone()
        for key, dim in (("row_var", -1), ("col_var", -2)):
            square = rl.norm(grad, dim=dim, keepdim=True).square_()
            state[key].lerp_(square.div_(grad.size(dim)), share)
        rows = state["row_var"]
        total = rows.mean(dim=-2, keepdim=True).clamp_(min=smallest)
        return (rows @ state["col_var"]).div_(total)


def _root_mean_square(tensor):
    return tensor.norm(2).item() / tensor.numel() ** 0.5
