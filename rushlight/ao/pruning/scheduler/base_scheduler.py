"""What all schedules share: when they change how sparse weights are, and their state."""

import warnings
import weakref
from functools import wraps

from rushlight.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["BaseScheduler"]


def _counted(method):
    """A sparsifier's step that counts its calls; it does not keep the sparsifier."""
    if getattr(method, "_with_counter", False):
        return method
    function, instance = method.__func__, weakref.ref(method.__self__)

    @wraps(function)
    def step(*args, **kwargs):
        sparsifier = instance()
        sparsifier._step_count += 1
        return function(sparsifier, *args, **kwargs)

    step._with_counter = True
    return step


class BaseScheduler:
    """Sets the sparsity of each group of a sparsifier, step by step, by `get_sl`.

    Args:
        sparsifier: whose groups have a ``sparsity_level``.
        last_epoch: the number of the last step.
        verbose: whether each change is printed.

    Raises:
        TypeError: it is no sparsifier.
    """

    def __init__(self, sparsifier, last_epoch=-1, verbose=False):
        if not isinstance(sparsifier, BaseSparsifier):
            raise TypeError(
                f"{type(sparsifier).__name__} is not an instance of "
                "torch.ao.pruning.BaseSparsifier"
            )
        self.sparsifier = sparsifier
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch = last_epoch
        sparsifier.step = _counted(sparsifier.step)
        sparsifier._step_count = self._step_count = 0
        self.verbose = verbose
        self._get_sl_called_within_step = False
        self.step()

    def state_dict(self):
        """All but the sparsifier."""
        return {k: v for k, v in self.__dict__.items() if k != "sparsifier"}

    def load_state_dict(self, state_dict):
        """Takes what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_sl(self):
        """The sparsity of each group since the last step."""
        return self._last_sl

    def get_sl(self):
        """The sparsity of each group for the step that is made."""
        self._warn_outside()
        raise NotImplementedError

    def _warn_outside(self):
        if not self._get_sl_called_within_step:
            warnings.warn(
                "To get the last sparsity level computed by the scheduler, "
                "please use `get_last_sl()`.",
                stacklevel=3,
            )

    def print_sl(self, is_verbose, group, sl, epoch=None):
        """Prints the sparsity of a group."""
        if not is_verbose:
            return
        if epoch is None:
            print(f"Adjusting sparsity level of group {group} to {sl:.4e}.")
        else:
            print(
                f"Epoch {epoch:5d}: adjusting sparsity level of group {group} to {sl:.4e}."
            )

    def __repr__(self):
        return (
            f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n"
            f"    base_sl: {self.base_sl}\n)"
        )

    def _warn_of_order(self):
        step = self.sparsifier.step
        if not hasattr(step, "_with_counter"):
            warnings.warn(
                "Seems like `sparsifier.step()` has been overridden after sparsity "
                "scheduler initialization. Please, make sure to call "
                "`sparsifier.step()` before `scheduler.step()`.",
                UserWarning,
                stacklevel=3,
            )
        elif self.sparsifier._step_count < 1:
            warnings.warn(
                "Detected call of `scheduler.step()` before `sparsifier.step()`. You "
                "have to make sure you run the sparsifier.step() BEFORE any calls to "
                "the scheduler.step().",
                UserWarning,
                stacklevel=3,
            )

    def step(self, epoch=None):
        """Goes on by one step; the sparsifier's own step comes before."""
        if self._step_count == 1:
            self._warn_of_order()
        self._step_count += 1
        self._get_sl_called_within_step = True
        try:
            self.last_epoch += 1
            levels = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        for number, (group, level) in enumerate(zip(self.sparsifier.groups, levels)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, number, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def _make_sure_a_list(self, var):
        """A value for each group.

        Raises:
            ValueError: there are more or fewer values than groups.
        """
        count = len(self.sparsifier.groups)
        if not isinstance(var, (list, tuple)):
            return [var] * count
        if len(var) != count:
            raise ValueError(f"Expected variable of length {count}, but got {len(var)}")
        return list(var)
