"""Schedules that go up and down."""

import math

from rushlight.optim._schedule import (
    LRScheduler,
    check_momentum,
    check_optimizer,
    function_state,
    per_group,
    set_momentum,
    set_option,
    values_of,
)


class CyclicLR(LRScheduler):
    """Moves the rate between two bounds, again and again.

    Args:
        optimizer: whose rates are set.
        base_lr, max_lr: the bounds, one for all groups or one for each.
        step_size_up, step_size_down: steps of the way up, and of the way down.
        mode: ``"triangular"``; ``"triangular2"`` halves the height with each cycle;
            ``"exp_range"`` multiplies it by ``gamma`` with each step.
        gamma: that factor.
        scale_fn: a function of the cycle or step in place of ``mode``.
        scale_mode: ``"cycle"`` or ``"iterations"``: what ``scale_fn`` is given.
        cycle_momentum: whether the momentum moves the other way.
        base_momentum, max_momentum: its bounds.
        last_epoch: the step to continue after.
    """

    def __init__(
        self,
        optimizer,
        base_lr,
        max_lr,
        step_size_up=2000,
        step_size_down=None,
        mode="triangular",
        gamma=1.0,
        scale_fn=None,
        scale_mode="cycle",
        cycle_momentum=True,
        base_momentum=0.8,
        max_momentum=0.9,
        last_epoch=-1,
    ):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups):
                set_option(group, "lr", rate)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        step_size_up = float(step_size_up)
        step_size_down = float(
            step_size_up if step_size_down is None else step_size_down
        )
        self.total_size = step_size_up + step_size_down
        self.step_ratio = step_size_up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            check_momentum(optimizer)
            self.use_beta1 = "betas" in optimizer.defaults
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                _start_momentum(optimizer, self.base_momentums, self.max_momentums)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x):
        """The height of a cycle, or at a step, as a share of the first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / 2.0 ** (x - 1)
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self):
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        if x <= self.step_ratio:
            share = x / self.step_ratio
        else:
            share = (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums)
            for group, (low, high) in zip(self.optimizer.param_groups, bounds):
                set_momentum(group, high - (high - low) * share * scale)
        return [
            low + (high - low) * share * scale
            for low, high in zip(self.base_lrs, self.max_lrs)
        ]

    def state_dict(self):
        """All fields but the optimizer; of a function only an object's fields."""
        state = super().state_dict()
        state["_scale_fn_custom"] = function_state(self._scale_fn_custom)
        return state

    def load_state_dict(self, state_dict):
        """Take over what ``state_dict`` returned; the function stays."""
        state = dict(state_dict)
        fields = state.pop("_scale_fn_custom")
        super().load_state_dict(state)
        if fields is not None:
            self._scale_fn_custom.__dict__.update(fields)


def _start_momentum(optimizer, base_momentums, max_momentums):
    for group, low, high in zip(optimizer.param_groups, base_momentums, max_momentums):
        set_momentum(group, high)
        group["max_momentum"] = high
        group["base_momentum"] = low


class CosineAnnealingWarmRestarts(LRScheduler):
    """Lowers the rate along half a cosine, then starts anew.

    Args:
        optimizer: whose rates are set.
        T_0: steps before the first restart.
        T_mult: what the number of steps is multiplied by at a restart.
        eta_min: the lowest rate.
        last_epoch: the step to continue after.
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type "
                f"{type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [
            self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs
        ]

    def step(self, epoch=None):
        """Set the next rates, or those of a step, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, rate in zip(self.optimizer.param_groups, rates):
            set_option(group, "lr", rate)
        self._last_lr = values_of(self.optimizer, "lr")

    def _jump(self, epoch):
        """Find the cycle that a step lies in."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            growth = self.T_mult - 1
            cycle = int(math.log(epoch / self.T_0 * growth + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**cycle - 1) / growth
            self.T_i = self.T_0 * self.T_mult**cycle


def _check_count(name, value):
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")


def _phase(end_step, start_lr, end_lr, start_momentum, end_momentum):
    return {
        "end_step": end_step,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


class OneCycleLR(LRScheduler):
    """Raises the rate once to a maximum, then lowers it far below the start.

    Args:
        optimizer: whose rates are set.
        max_lr: the highest rate, or one for each group.
        total_steps: steps in all; or give ``epochs`` and ``steps_per_epoch``.
        pct_start: share of the steps on the way up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: whether the momentum moves the other way.
        base_momentum, max_momentum: its bounds.
        div_factor: the first rate is the highest over this.
        final_div_factor: the last rate is the first over this.
        three_phase: come down as one went up, then further down.
        last_epoch: the step to continue after.
    """

    def __init__(
        self,
        optimizer,
        max_lr,
        total_steps=None,
        epochs=None,
        steps_per_epoch=None,
        pct_start=0.3,
        anneal_strategy="cos",
        cycle_momentum=True,
        base_momentum=0.85,
        max_momentum=0.95,
        div_factor=25.0,
        final_div_factor=1e4,
        three_phase=False,
        last_epoch=-1,
    ):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            _check_count("total_steps", total_steps)
            self.total_steps = total_steps
        elif epochs is not None and steps_per_epoch is not None:
            _check_count("epochs", epochs)
            _check_count("steps_per_epoch", steps_per_epoch)
            self.total_steps = epochs * steps_per_epoch
        else:
            raise ValueError(
                "You must define either total_steps OR (epochs AND steps_per_epoch)"
            )
        self._schedule_phases = self._phases(pct_start, three_phase)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(
                f"Expected float between 0 and 1 pct_start, but got {pct_start}"
            )
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "anneal_strategy must be one of 'cos' or 'linear', instead got "
                f"{anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            rates = per_group("max_lr", optimizer, max_lr)
            for group, rate in zip(optimizer.param_groups, rates):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            check_momentum(optimizer)
            self.use_beta1 = "betas" in optimizer.defaults
            if last_epoch == -1:
                _start_momentum(
                    optimizer,
                    per_group("base_momentum", optimizer, base_momentum),
                    per_group("max_momentum", optimizer, max_momentum),
                )
        super().__init__(optimizer, last_epoch)

    def _phases(self, pct_start, three_phase):
        low, high = "base_momentum", "max_momentum"
        peak = float(pct_start * self.total_steps) - 1
        phases = [_phase(peak, "initial_lr", "max_lr", high, low)]
        if three_phase:
            back = float(2 * pct_start * self.total_steps) - 2
            phases.append(_phase(back, "max_lr", "initial_lr", low, high))
            phases.append(
                _phase(self.total_steps - 1, "initial_lr", "min_lr", high, high)
            )
        else:
            phases.append(_phase(self.total_steps - 1, "max_lr", "min_lr", low, high))
        return phases

    def _anneal(self, start, end, share):
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def get_lr(self):
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        share = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(
                self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], share)
            )
            if self.cycle_momentum:
                set_momentum(
                    group,
                    self._anneal(
                        group[phase["start_momentum"]],
                        group[phase["end_momentum"]],
                        share,
                    ),
                )
        return rates
