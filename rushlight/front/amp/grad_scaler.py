"""``GradScaler``: losses multiplied, so that small gradients do not vanish in float16."""

import enum
import inspect
import warnings

import rushlight as rl
from rushlight.core.tensor import Tensor

__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    """Where a scaler stands with an optimizer."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses, leaves out steps whose gradients overflow, and adapts the scale.

    Args:
        device: where the losses are; where that is not there the scaler does nothing.
        init_scale: the first factor.
        growth_factor: what the factor is multiplied with after ``growth_interval``
            steps without an overflow.
        backoff_factor: what it is multiplied with after an overflow.
        enabled: False makes every method do nothing but ``step``.

    >>> import rushlight as rl
    >>> weight = rl.nn.Parameter(rl.ones(2))
    >>> optimizer = rl.optim.SGD([weight], lr=0.5)
    >>> scaler = GradScaler("cpu")
    >>> scaler.scale(weight.sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight.detach()
    tensor([0.5000, 0.5000])
    """

    def __init__(
        self,
        device="cuda",
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        self._device = device
        self._enabled = enabled
        here = device == "cpu" or device == "cuda" and rl.cuda.is_available()
        if enabled and not here:
            warnings.warn(
                f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not "
                "available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker = None
        self._optimizers: dict = {}

    def _state(self, optimizer):
        fresh = {"stage": OptState.READY, "found": {}}
        return self._optimizers.setdefault(id(optimizer), fresh)

    def _ready(self, method):
        if self._scale is None:
            raise AssertionError(
                f"Attempted {method} but _scale is None.  This may indicate your script "
                "did not use scaler.scale(loss or outputs) earlier in the iteration."
            )

    def scale(self, outputs):
        """A loss, or several in containers, multiplied with the factor."""
        if not self._enabled:
            return outputs
        return self._multiplied(outputs)

    def _begin(self, device):
        """The factor and the count, where the first loss is."""
        self._scale = rl.tensor(float(self._init_scale), device=device)
        self._growth_tracker = rl.tensor(
            self._init_growth_tracker, dtype=rl.int32, device=device
        )

    def _multiplied(self, value):
        if isinstance(value, Tensor):
            if self._scale is None:
                self._begin(value.device)
            return value * self._scale.to(value.device, non_blocking=True)
        if isinstance(value, (list, tuple)):
            made = [self._multiplied(item) for item in value]
            return (
                type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
            )
        if hasattr(value, "__iter__"):
            return map(self._multiplied, value)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer):
        """Divides the gradients of an optimizer's parameters, as before clipping them.

        Raises:
            RuntimeError: it has been done since the last ``update``.
            ValueError: a gradient is float16.
        """
        if not self._enabled:
            return
        self._ready("unscale_")
        state = self._state(optimizer)
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last "
                "update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = self._scale.double().reciprocal().float()
        state["found"] = self._unscale(optimizer, inverse, False)
        state["stage"] = OptState.UNSCALED

    def _unscale(self, optimizer, inverse, halves):
        """Multiplies an optimizer's gradients; for each device, whether one overflowed.

        Raises:
            ValueError: a gradient is float16, and ``halves`` is not set.
        """
        groups: dict = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                grad = parameter.grad
                if grad is None:
                    continue
                if grad.dtype is rl.float16 and not halves:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                if grad.is_sparse:
                    if grad.dtype is rl.float16:  # sums of equal places may overflow
                        grad = parameter.grad = grad.coalesce()
                    grad = grad._values()
                groups.setdefault(grad.device, []).append(grad)
        found = {}
        with rl.no_grad():
            for device, grads in groups.items():
                found[device] = rl.zeros((), device=device)
                rl._amp_foreach_non_finite_check_and_unscale_(
                    grads, found[device], inverse.to(device, non_blocking=True)
                )
        return found

    def step(self, optimizer, *args, **kwargs):
        """The optimizer's step, unless a gradient has overflowed.

        An optimizer with ``fused=True`` looks at that itself, and nothing waits for its
        device.

        Raises:
            RuntimeError: it has been done since the last ``update``, or a closure is
                given.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError(
                "Closure use is not currently supported if GradScaler is enabled."
            )
        self._ready("step")
        state = self._state(optimizer)
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError(
                "step() has already been called since the last update()."
            )
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_on_device(optimizer, state, args, kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if not any(found.item() for found in state["found"].values()):
            result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_on_device(self, optimizer, state, args, kwargs):
        """The step of an optimizer that unscales, and leaves out, by itself.

        One whose ``step`` takes ``grad_scaler`` is handed this scaler and does all; any
        other finds the factor and whether a gradient has overflowed as its attributes.
        """
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the "
                "passed optimizer. In the near future GradScaler registers `grad_scale: "
                "Tensor` and `found_inf: Tensor` to the passed optimizer and let the "
                "optimizer use them directly.",
                FutureWarning,
                stacklevel=3,
            )
            result = optimizer.step(*args, **{**kwargs, "grad_scaler": self})
            state["stage"] = OptState.STEPPED
            return result
        scale = getattr(optimizer, "grad_scale", None)
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
            scale = self._scale * (1 if scale is None else scale)
        if not state["found"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        optimizer.grad_scale, optimizer.found_inf = scale, self._all_found([state])
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            state["stage"] = OptState.STEPPED
            del optimizer.grad_scale, optimizer.found_inf

    def _check_inf_per_device(self, optimizer):
        """For each device, whether a gradient has overflowed; gradients stay scaled."""
        self._ready("_check_inf_per_device")
        state = self._state(optimizer)
        one = rl.ones((), device=self._scale.device)
        state["found"] = self._unscale(optimizer, one, True)
        return state["found"]

    def _found_inf_per_device(self, optimizer):
        """What the last look at an optimizer's gradients has found on each device."""
        return self._state(optimizer)["found"]

    def _get_scale_async(self):
        """The factor as a tensor that nothing waits for; None before the first loss."""
        return self._scale

    def _all_found(self, states):
        """Whether any gradient has overflowed, as a number beside the factor."""
        parts = [
            found.to(self._scale.device, non_blocking=True)
            for state in states
            for found in state["found"].values()
        ]
        if not parts:
            raise AssertionError("No inf checks were recorded prior to update.")
        return sum(parts[1:], parts[0])

    def update(self, new_scale=None):
        """Adapts the factor to what the steps since the last call have met."""
        if not self._enabled:
            return
        self._ready("update")
        if isinstance(new_scale, Tensor):
            self._scale.copy_(new_scale)
        elif new_scale is not None:
            self._scale.fill_(float(new_scale))
        else:
            rl._amp_update_scale_(
                self._scale,
                self._growth_tracker,
                self._all_found(self._optimizers.values()),
                self._growth_factor,
                self._backoff_factor,
                self._growth_interval,
            )
        self._optimizers.clear()

    def get_scale(self):
        """The factor."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        """What the factor grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        """Sets what the factor grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        """What the factor shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        """Sets what the factor shrinks by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        """After how many steps the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        """Sets after how many steps the factor grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else tracker.item()

    def is_enabled(self):
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self):
        """What a later ``load_state_dict`` needs; empty where nothing is done."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict):
        """Goes on from another scaler's state.

        Raises:
            RuntimeError: that one did nothing.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a "
                "disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])
