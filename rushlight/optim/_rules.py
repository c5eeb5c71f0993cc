"""What the optimizers share: checks of options, and the walk over the parameters."""

from contextlib import nullcontext

import rushlight as rl
from rushlight.core.device import backend_for
from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import Optimizer


def number(value):
    """An option as a Python number; one-element tensors are allowed."""
    return value.item() if isinstance(value, Tensor) else value


def option(value, like):
    """An option as a number, or as it is where it lies on the device of a tensor."""
    on_device = isinstance(value, Tensor) and not value.device.on_host
    return value if on_device and value.device == like.device else number(value)


def scalar(value):
    """An option as a number or a tensor without dimensions, whose dtype then rules."""
    return value.squeeze() if isinstance(value, Tensor) else value


def check_lr(lr):
    """Refuse a negative learning rate, or a tensor of several."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_not_negative(what, value):
    """Refuse a negative option."""
    if not 0.0 <= value:
        raise ValueError(f"Invalid {what} value: {value}")


def check_betas(betas):
    """Refuse decay rates outside ``[0, 1)``."""
    for index in range(2):
        if not 0.0 <= betas[index] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {betas[index]}")


def check_modes(fused, foreach, differentiable):
    """Refuse ways of computing that exclude each other."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


# Where PyTorch has steps of one kernel for all parameters.
FUSED_DEVICES = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def check_fused(params):
    """Refuse fused steps of parameters that are no real floating-point numbers."""
    for each in params:
        if each.grad is not None and not each.is_floating_point():
            raise RuntimeError(
                "`fused=True` requires all the params to be floating point Tensors of "
                f"supported devices: {FUSED_DEVICES} but {each.dtype} and {each.device}"
            )


# Where steps can be recorded, to be run again as they are.
CAPTURABLE_DEVICES = ("cuda", "xpu", "hpu", "privateuseone", "xla")


def check_capturable(group, parameter, state=" and state_steps"):
    """Refuse steps for recording on a GPU of parameters that are not on one."""
    if group.get("capturable") and parameter.device.type not in CAPTURABLE_DEVICES:
        raise AssertionError(
            f"If capturable=True, params{state} must be on supported devices: "
            f"{list(CAPTURABLE_DEVICES)}."
        )


def parts_of(value):
    """A complex tensor's real and imaginary parts as a window on it; else the value."""
    if isinstance(value, Tensor) and value.is_complex():
        return rl.view_as_real(value)
    return value


def complex_or_real(parameter, value):
    """A number for both parts of a complex parameter, or for a real one."""
    return complex(value, value) if parameter.is_complex() else value


def zero_step(group=None, parameter=None, make=rl.zeros, start=()):
    """The counter of steps that a parameter's state has: with it where steps are fused.

    Args:
        make: what makes it, as handlers see, of ``start``.
    """
    fused = group is not None and group.get("fused")
    wide = not fused and rl.get_default_dtype() == rl.float64
    on_device = fused or group is not None and group.get("capturable")
    return make(
        start,
        dtype=rl.float64 if wide else rl.float32,
        device=parameter.device if on_device else "cpu",
    )


def step_of_number(group, parameter):
    """The same, made of a number."""
    if group.get("capturable") or group.get("fused"):
        return zero_step(group, parameter)
    return zero_step(group, parameter, rl.tensor, 0.0)


def zero_moments(group, parameter, state):
    """What a parameter's state has before the first step, where two means are kept."""
    state["step"] = step_of_number(group, parameter)
    state["exp_avg"] = rl.zeros_like(parameter)
    state["exp_avg_sq"] = rl.zeros_like(parameter)


def counted(state):
    """The number of the step that begins, which the state counts."""
    state["step"] += 1
    return state["step"].item()


def keep_largest(group, largest, other):
    """The larger elements of two tensors, in the place of the first."""
    if group["differentiable"]:
        return largest.copy_(rl.maximum(largest, other))
    return rl.maximum(largest, other, out=largest)


def decayed(group, parameter, grad):
    """The gradient with weight decay in it; decoupled, the parameter shrinks instead."""
    decay = group["weight_decay"]
    if decay == 0:
        return grad
    if not group.get("decoupled_weight_decay"):
        return grad.add(parameter, alpha=decay)
    parameter.mul_(1 - number(group["lr"]) * decay)
    return grad


def alike(params, fits):
    """The parameters with gradients, all of them or by device and type; whether they fit."""
    on_device = [each for each in params if each.grad is not None]
    if not on_device:
        return []
    if fits(on_device):
        return [(on_device, True)]
    found: dict = {}
    for each in on_device:
        found.setdefault((each.device, each.dtype), []).append(each)
    return [(each, len(found) > 1 and fits(each)) for each in found.values()]


def together(params):
    """A block in which a device may put like steps of parameters together."""
    device = next((p.device for p in params if not p.device.on_host), None)
    return nullcontext() if device is None else backend_for(device).launch.together()


# Options that came after the first saved optimizers: what those that lack them mean.
LATE = {
    "foreach": None,
    "maximize": False,
    "differentiable": False,
    "capturable": False,
}


class Elementwise(Optimizer):
    """An optimizer that treats each element of each parameter alike.

    A subclass defines ``_init_state`` and ``_update`` for one parameter; those with a
    fused kernel also define ``_step_group``.
    """

    _late_defaults: dict = {"foreach": None, "maximize": False, "differentiable": False}
    # Of the constructor: the options that groups have, in the order that ``state_dict``
    # shows; and those that have a range, in the order in which the first wrong is told.
    _options = _checked = ""
    # Whether the counters are tensors; those of older releases then become some.
    _counts_in_tensors = True
    # What of the state steps that are recorded would need on the GPU, for messages.
    _captured = " and state_steps"

    def _chosen(self, given):
        """The options for the groups, looked at, from the constructor's ``locals()``."""
        for name in self._checked.split():
            if name == "lr":
                check_lr(given[name])
            elif name == "betas":
                check_betas(given[name])
            else:
                check_not_negative("epsilon" if name == "eps" else name, given[name])
        return {name: given[name] for name in self._options.split()}

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:  # pickles of older releases lack some
            for name, value in self._late_defaults.items():
                group.setdefault(name, value)
            for parameter in group["params"] if self._counts_in_tensors else ():
                own = self.state.get(parameter)
                if own and not isinstance(own.get("step", rl.Tensor), (Tensor, type)):
                    own["step"] = rl.tensor(float(own["step"]), dtype=rl.float32)

    def step(self, closure=None):
        """Change the parameters once.

        Args:
            closure: computes the loss anew and returns it.

        Returns:
            What the closure returned.
        """
        loss = None
        if closure is not None:
            with rl.enable_grad():
                loss = closure()
        with rl.set_grad_enabled(bool(self.defaults.get("differentiable"))):
            for group in self.param_groups:
                if group.get("fused"):
                    check_fused(group["params"])
                self._step_group(group)
        return loss

    def _step_group(self, group):
        on_device = [each for each in group["params"] if each.grad is not None]
        with together(on_device):
            for parameter in on_device:
                self._check_param(parameter)
                state = self.state[parameter]
                if not state:
                    self._init_state(group, parameter, state)
                check_capturable(group, parameter, self._captured)
            for parameter in on_device:
                state = self.state[parameter]
                self.change(group, parameter, parameter.grad, state)

    def plain_group(self) -> dict:
        """The options that the functions of lists do not name."""
        return dict(self._late_defaults)

    def change(self, group, parameter, grad, state):
        """One parameter's step."""
        if group.get("maximize"):
            grad = -grad
        if parameter.is_complex():
            # each part of a complex number steps as a real one does
            parts = rl.view_as_real(parameter), rl.view_as_real(grad)
            shown = {name: parts_of(value) for name, value in state.items()}
            self._update(group, *parts, shown)
        else:
            self._update(group, parameter, grad, state)

    def _check_param(self, parameter):
        if parameter.grad.is_sparse:
            raise RuntimeError(
                f"{type(self).__name__} does not support sparse gradients"
            )

    def _init_state(self, group, parameter, state):
        raise NotImplementedError(f"{type(self).__name__} must define _init_state")

    def _update(self, group, parameter, grad, state):
        raise NotImplementedError(f"{type(self).__name__} must define _update")
