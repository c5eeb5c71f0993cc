"""Muon: momentum made orthogonal."""

import math

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.optim._rules import Elementwise, number, scalar

__all__ = ["Muon"]

EPS = 1e-7
DEFAULT_A = 3.4445
DEFAULT_B = -4.7750
DEFAULT_C = 2.0315
DEFAULT_NS_STEPS = 5


def _orthogonalized(matrix, coefficients, steps, eps):
    """The matrix with all its singular values brought near one, in bfloat16.

    Each step is a polynomial of the fifth degree in the singular values; its
    coefficients make small ones grow fast, at the cost of an exact one.
    """
    if steps >= 100:
        raise ValueError(
            "Number of steps must be less than 100 for computational efficiency"
        )
    if matrix.dim() != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    linear, cubic, quintic = coefficients
    is_tall = matrix.size(0) > matrix.size(1)
    current = matrix.T if is_tall else matrix
    current = current.bfloat16()
    current = current / current.norm().clamp(min=eps)
    for _ in range(steps):
        gram = current @ current.T
        bend = rl.addmm(gram, gram, gram, beta=cubic, alpha=quintic)
        current = rl.addmm(current, bend, current, beta=linear)
    return current.T if is_tall else current


def _adjusted_lr(lr, how, shape):
    """The learning rate for a matrix of this shape."""
    rows, columns = shape[:2]
    if how is None or how == "original":
        return lr * math.sqrt(max(1, rows / columns))
    return lr * (0.2 * math.sqrt(max(rows, columns)))


class Muon(Elementwise):
    """Steps along the mean gradient of a matrix, made orthogonal.

    For the weights of hidden layers; biases, embeddings and the like need another
    optimizer.

    Args:
        params: matrices, or dicts that describe groups of them.
        lr: learning rate.
        weight_decay: how much the parameters shrink with each step.
        momentum: share of the last direction that is kept.
        nesterov: whether to look ahead along the new direction.
        ns_coefficients: the polynomial that makes the direction orthogonal.
        eps: the smallest length of a direction.
        ns_steps: how often the polynomial is applied.
        adjust_lr_fn: how the step depends on the matrix's sizes: ``"original"``, which
            None means too, or ``"match_rms_adamw"``.

    Raises:
        ValueError: an option is out of its range, or a parameter is no matrix.
    """

    _options = (
        "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"
    )
    _late_defaults: dict = {}

    def __init__(
        self,
        params,
        lr=1e-3,
        weight_decay=0.1,
        momentum=0.95,
        nesterov=True,
        ns_coefficients=(DEFAULT_A, DEFAULT_B, DEFAULT_C),
        eps=EPS,
        ns_steps=DEFAULT_NS_STEPS,
        adjust_lr_fn=None,
    ):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for what, value in (
            ("Learning rate", lr),
            ("momentum", momentum),
            ("weight decay", weight_decay),
        ):
            if not value >= 0.0:
                raise ValueError(f"{what} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f"Adjust learning rate function {adjust_lr_fn} is not supported"
            )
        super().__init__(params, self._chosen(locals()))
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter "
                        f"with size: {parameter.size()}"
                    )

    def _check_param(self, parameter):
        if parameter.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        super()._check_param(parameter)

    def _init_state(self, group, parameter, state):
        state["momentum_buffer"] = rl.zeros_like(parameter.grad)

    def _update(self, group, parameter, grad, state):
        if grad.ndim != 2:
            raise ValueError("Param gradient must be a 2D matrix")
        lr, momentum = scalar(group["lr"]), group["momentum"]
        buffer = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        update = _orthogonalized(
            grad.lerp(buffer, momentum) if group["nesterov"] else buffer,
            group["ns_coefficients"],
            group["ns_steps"],
            group["eps"],
        )
        parameter.mul_(1 - lr * group["weight_decay"])
        size = _adjusted_lr(lr, group["adjust_lr_fn"], parameter.shape)
        parameter.add_(update, alpha=-number(size))
