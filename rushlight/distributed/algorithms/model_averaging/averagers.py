"""When processes average their parameters."""

import warnings
from abc import ABC, abstractmethod

from rushlight.distributed.algorithms.model_averaging import utils
from rushlight.distributed.world import default_group

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Averages the parameters of processes.

    Args:
        process_group: the processes; all without it.
    """

    def __init__(self, process_group=None):
        self.process_group = default_group() if process_group is None else process_group
        self.step = 0

    @abstractmethod
    def average_parameters(self, params):
        """Average parameters, if it is time.

        Args:
            params: parameters, or an optimizer's groups.
        """


class PeriodicModelAverager(ModelAverager):
    """Averages after a number of steps, and then every so many.

    Args:
        period: how many steps lie between.
        warmup_steps: how many come before the first.
        process_group: the processes; all without it.

    Raises:
        ValueError: a number is too small.
    """

    def __init__(self, period, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(
                "When period is 1, no need to use model averaging because the "
                "communication cost of all-reducing parameters will be no less than the "
                "cost of all-reducing gradients by DistributedDataParallel in the "
                "backward pass. Therefore, only DistributedDataParallel should be used "
                "for this case.",
                stacklevel=2,
            )
        self.warmup_steps, self.period = warmup_steps, period

    def average_parameters(self, params):
        """Average parameters, if it is time; count the step."""
        after = self.step - self.warmup_steps
        if after >= 0 and after % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
