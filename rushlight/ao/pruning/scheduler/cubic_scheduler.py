"""Sparsity that grows fast first and ever slower, by a cubic."""

from rushlight.ao.pruning.scheduler.base_scheduler import BaseScheduler

__all__ = ["CubicSL"]


class CubicSL(BaseScheduler):
    """``s = s_f + (s_0 - s_f) (1 - (t - t_0) / (n d))^3``, within both levels.

    Args:
        sparsifier: whose sparsity at the start is the one to reach, s_f.
        init_sl: s_0. This and what follows are numbers, or one for each group.
        init_t: t_0, the first step.
        delta_t: d, steps from one change to the next.
        total_t: n, how many changes there are.
        initially_zero: whether nothing is masked before the first step.
        last_epoch, verbose: as of `BaseScheduler`.
    """

    def __init__(
        self,
        sparsifier,
        init_sl=0.0,
        init_t=0,
        delta_t=10,
        total_t=100,
        initially_zero=False,
        last_epoch=-1,
        verbose=False,
    ):
        self.sparsifier = sparsifier
        self.init_sl = self._make_sure_a_list(init_sl)
        self.init_t = self._make_sure_a_list(init_t)
        self.delta_t = self._make_sure_a_list(delta_t)
        self.total_t = self._make_sure_a_list(total_t)
        self.initially_zero = self._make_sure_a_list(initially_zero)
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(s_0, s_f, t, t_0, dt, n, initially_zero=False):
        """The sparsity at a step.

        >>> CubicSL.sparsity_compute_fn(0.0, 0.8, 5, 0, 1, 10)
        0.7000000000000001
        """
        if initially_zero and t < t_0:
            return 0
        level = s_f + (s_0 - s_f) * (1.0 - (t - t_0) / (dt * n)) ** 3
        return max(s_0, min(s_f, level))

    def get_sl(self):
        """The sparsity of each group for the step that is made."""
        self._warn_outside()
        each = zip(
            self.init_sl, self.base_sl, self.init_t, self.delta_t, self.total_t,
            self.initially_zero,
        )  # fmt: skip
        return [
            self.sparsity_compute_fn(s_0, s_f, self.last_epoch, *rest)
            for s_0, s_f, *rest in each
        ]
