"""An optimizer of each process, whose parameters are averaged now and then."""

import warnings

from rushlight.optim.optimizer import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps of an optimizer, each followed by an averager's.

    Args:
        optim: the optimizer.
        averager: a ``ModelAverager``.
    """

    def __init__(self, optim, averager):
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self):
        """The optimizer's state."""
        return self.optim.state

    def __repr__(self):
        return repr(self.optim)

    def state_dict(self):
        """The optimizer's, with the averager's step."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict):
        """Load a state; without a step the averager begins anew.

        Args:
            state_dict: as ``state_dict`` gives it.
        """
        self.optim.load_state_dict(state_dict)
        if "step" not in state_dict:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. "
                "Setting step counter to 0.",
                stacklevel=2,
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure=None):
        """A step, and a mean if it is time.

        Args:
            closure: as for the optimizer.
        """
        result = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(params=self.param_groups)
        return result

    def zero_grad(self, set_to_none=True):
        """Forget the gradients.

        Args:
            set_to_none: whether they become None.
        """
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group):
        """Add parameters.

        Args:
            param_group: a dict with a list of them.
        """
        self.optim.add_param_group(param_group)
