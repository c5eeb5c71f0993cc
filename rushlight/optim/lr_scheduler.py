"""Schedules of learning rates."""

import math
from bisect import bisect_right
from collections import Counter

from rushlight.core.docstrings import describe_arguments
from rushlight.optim._combined import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from rushlight.optim._cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from rushlight.optim._schedule import LRScheduler, function_state, values_of

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class _LRScheduler(LRScheduler):
    """The older name of the base class."""


class _ByFunction(LRScheduler):
    """A schedule that functions of the step define, one for each group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        groups = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != groups:
                raise ValueError(
                    f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}"
                )
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )
        super().__init__(optimizer, last_epoch)

    def state_dict(self):
        """All fields but the optimizer; of functions only callable objects' fields."""
        state = super().state_dict()
        state["lr_lambdas"] = [function_state(each) for each in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict):
        """Take over what ``state_dict`` returned; the functions stay."""
        rest = {key: value for key, value in state_dict.items() if key != "lr_lambdas"}
        super().load_state_dict(rest)
        for function, state in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if state is not None:
                function.__dict__.update(state)


class LambdaLR(_ByFunction):
    """The first rate times a function of the step.

    Args:
        optimizer: whose rates are set.
        lr_lambda: the function, or one for each group.
        last_epoch: the step to continue after.
    """

    def get_lr(self):
        self._warn_outside_step()
        return [
            base * function(self.last_epoch)
            for function, base in zip(self.lr_lambdas, self.base_lrs)
        ]


class MultiplicativeLR(_ByFunction):
    """The last rate times a function of the step; arguments as in ``LambdaLR``.

    Args:
        lr_lambda: a function of the step that gives a factor, or one for each
            group.
    """

    def get_lr(self):
        self._warn_outside_step()
        if self._is_initial:
            return values_of(self.optimizer, "lr")
        return [
            rate * function(self.last_epoch)
            for function, rate in zip(self.lr_lambdas, self._rates())
        ]


class StepLR(LRScheduler):
    """Multiplies the rate by ``gamma`` after every ``step_size`` steps.

    Args:
        step_size: how many steps a rate lasts.

    >>> from rushlight import nn, optim
    >>> optimizer = optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = StepLR(optimizer, step_size=2)
    >>> schedule.get_last_lr()
    [1.0]
    """

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return values_of(self.optimizer, "lr")
        return [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self):
        return [
            base * self.gamma ** (self.last_epoch // self.step_size)
            for base in self.base_lrs
        ]


class MultiStepLR(LRScheduler):
    """Multiplies the rate by ``gamma`` at each of the given steps.

    Args:
        milestones: the steps, in rising order.
    """

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return values_of(self.optimizer, "lr")
        factor = self.gamma ** self.milestones[self.last_epoch]
        return [rate * factor for rate in self._rates()]

    def _get_closed_form_lr(self):
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """``factor`` times the rate for the first ``total_iters`` steps.

    Args:
        factor: what the rate is multiplied by.
    """

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if factor > 1.0 or factor < 0:
            raise ValueError(
                "Constant multiplicative factor expected to be between 0 and 1."
            )
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._rates()]
        if self.last_epoch != self.total_iters:
            return values_of(self.optimizer, "lr")
        return [rate * (1.0 / self.factor) for rate in self._rates()]

    def _get_closed_form_lr(self):
        over = self.last_epoch >= self.total_iters
        return [
            base * (self.factor + over * (1 - self.factor)) for base in self.base_lrs
        ]


class LinearLR(LRScheduler):
    """Moves a factor of the rate linearly over the first ``total_iters`` steps.

    Args:
        start_factor: the first factor.
        end_factor: the last factor.
    """

    def __init__(
        self,
        optimizer,
        start_factor=1.0 / 3,
        end_factor=1.0,
        total_iters=5,
        last_epoch=-1,
    ):
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less "
                "or equal to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(
                "Ending multiplicative factor expected to be between 0 and 1."
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._rates()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return values_of(self.optimizer, "lr")
        gain = self.end_factor - self.start_factor
        reached = self.total_iters * self.start_factor + (self.last_epoch - 1) * gain
        return [rate * (1.0 + gain / reached) for rate in self._rates()]

    def _get_closed_form_lr(self):
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * share
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies the rate by ``gamma`` at every step."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self._is_initial:
            return values_of(self.optimizer, "lr")
        return [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self):
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Lowers the rate to zero over ``total_iters`` steps, along a power of time.

    Args:
        power: the power of the polynomial.
    """

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return values_of(self.optimizer, "lr")
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [rate * (left / before) ** self.power for rate in self._rates()]

    def _get_closed_form_lr(self):
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Lowers the rate to ``eta_min`` over ``T_max`` steps, along half a cosine.

    Args:
        T_max: half a period, in steps.
        eta_min: the lowest rate.
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self._is_initial:
            return values_of(self.optimizer, "lr")
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - self.eta_min) * rise
                for base, rate in zip(self.base_lrs, self._rates())
            ]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [
            now / before * (rate - self.eta_min) + self.eta_min
            for rate in self._rates()
        ]

    def _get_closed_form_lr(self):
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [
            self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs
        ]


describe_arguments(
    globals(),
    optimizer="whose rates are changed.",
    last_epoch="how many steps there were already, less one.",
    gamma="what the rate is multiplied by.",
    total_iters="for how many steps.",
)
