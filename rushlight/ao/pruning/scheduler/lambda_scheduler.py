"""Sparsity that is a function of the step."""

from rushlight.ao.pruning.scheduler.base_scheduler import BaseScheduler

__all__ = ["LambdaSL"]


class LambdaSL(BaseScheduler):
    """The sparsity of each group is the one at the start times a function of the step.

    Args:
        sparsifier: whose sparsity it is.
        sl_lambda: the function, or one for each group.
        last_epoch, verbose: as of `BaseScheduler`.

    Raises:
        ValueError: there are more or fewer functions than groups.
    """

    def __init__(self, sparsifier, sl_lambda, last_epoch=-1, verbose=False):
        self.sparsifier = sparsifier
        groups = len(sparsifier.groups)
        if not isinstance(sl_lambda, (list, tuple)):
            sl_lambda = [sl_lambda] * groups
        elif len(sl_lambda) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(sl_lambda)}")
        self.sl_lambdas = list(sl_lambda)
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self):
        """The sparsity of each group for the step that is made."""
        self._warn_outside()
        return [
            level * function(self.last_epoch)
            for function, level in zip(self.sl_lambdas, self.base_sl)
        ]
