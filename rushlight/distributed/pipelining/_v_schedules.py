"""Schedules along a V: two stages for each process, one on the way there, one back.

They fill the bubbles of a pipeline with the gradients of weights, which nobody waits for: a
backward runs in two halves, `_split_backward.py`, and the second is put where a process would
have nothing to do. After Qi et al., "Zero Bubble Pipeline Parallelism", and DeepSeek's
DualPipe, cut in half.
"""

from collections import Counter, deque

from rushlight.distributed.pipelining._schedule import (
    BACKWARD,
    FORWARD,
    INPUT,
    WEIGHT,
    Action,
    Overlap,
    PipelineScheduleMulti,
)
from rushlight.distributed.pipelining.stage import stage_to_rank


class _Order:
    """The actions of a process with two stages, whose microbatches count themselves.

    Args:
        stages: its stage on the way there, and on the way back.
    """

    def __init__(self, stages):
        self.stages, self.actions = stages, []
        self.counts, self.weights = Counter(), deque()

    def _next(self, chunk, kind):
        """The next microbatch of a stage's action."""
        key = chunk, INPUT if kind == BACKWARD else kind
        number = self.counts[key]
        self.counts[key] += 1
        if kind == BACKWARD:
            self.counts[chunk, WEIGHT] += 1
        if kind == INPUT:
            self.weights.append(chunk)
        return Action(self.stages[chunk], kind, number)

    def add(self, words, times=1):
        """Add actions such as ``F0 I1 W1``: a kind, and the first or second stage.

        Args:
            words: the actions.
            times: how often.
        """
        for _ in range(times):
            for word in words.split():
                self.actions.append(self._next(int(word[1]), word[0]))

    def add_overlap(self, forward, backward):
        """Add a forward and a backward that may run at once.

        Args:
            forward, backward: the first or second stage.
        """
        pair = self._next(forward, FORWARD), self._next(backward, BACKWARD)
        self.actions.append(Overlap(pair))

    def add_pending_weight(self):
        """Add the oldest half of a backward that is left, if there is one."""
        if self.weights:
            self.actions.append(self._next(self.weights.popleft(), WEIGHT))


class _ScheduleV(PipelineScheduleMulti):
    """A schedule whose stages go there and back over the processes, two for each."""

    def __init__(self, stages, n_microbatches, loss_fn=None, **options):
        super().__init__(stages, n_microbatches, loss_fn, **options)
        ranks = stage_to_rank(self.pp_group_size, self._num_stages, "v")
        for each in stages:
            each.stage_index_to_group_rank = ranks
        self.stage_index_to_group_rank = ranks
        if self.n_local_stages != 2:
            raise ValueError(
                f"ZBV requires exactly 2 stages per rank, but got {self.n_local_stages}."
            )

    def _order(self, rank):
        return _Order([rank, self._num_stages - 1 - rank])


class ScheduleZBVZeroBubble(_ScheduleV):
    """Zero bubble along a V: as long as all halves take the same time, nobody waits.

    Raises:
        ValueError: this process has not two stages.
    """

    def actions_of(self, rank):
        """The actions of a process."""
        size, order = self.pp_group_size, self._order(rank)
        count = max(2 * size - 1, self._n_microbatches)  # fewer do not fill the V
        order.add("F0", 2 * (size - rank) - 1)
        order.add("F1 F0", rank)
        order.add("F1 I1 W1", size - rank)
        new = count - (2 * size - rank - 1)
        order.add("F0 I0 W0 F1 I1 W1", new)
        order.add("I0 W0 F1 I1 W1", count - size - new)
        order.add("I0 I1", rank)
        order.add("I0 W0", size - rank)
        for chunk in (1, 0):
            left = order.counts[chunk, INPUT] - order.counts[chunk, WEIGHT]
            order.add(f"W{chunk}", left)
        used = self._n_microbatches
        return [each for each in order.actions if each.microbatch < used]


class ScheduleDualPipeV(_ScheduleV):
    """A V in which one microbatch's forward runs beside another's backward.

    Raises:
        ValueError: this process has not two stages, or there are fewer microbatches
            than stages.
    """

    def __init__(self, stages, n_microbatches, loss_fn=None, **options):
        super().__init__(stages, n_microbatches, loss_fn, **options)
        if n_microbatches < self._num_stages:
            raise ValueError(
                "DualPipeV requires at least as many microbatches as stages, but got "
                f"{n_microbatches} microbatches and {self._num_stages} stages."
            )

    def actions_of(self, rank):
        """The actions of a process."""
        size, order = self.pp_group_size, self._order(rank)
        order.add("F0", 2 * (size - rank - 1))
        order.add("F0 F1", rank + 1)
        for _ in range(size - rank - 1):
            order.add("I1")
            order.add_pending_weight()
            order.add("F1")
        for step in range(self._n_microbatches - 2 * size + rank + 1):
            if step == 0 and rank == size - 1:
                order.add("F0 B1")  # apart: whoever waits for them waits less
            else:
                order.add_overlap(0, 1)
            order.add_overlap(1, 0)
        for _ in range(size - rank - 1):
            order.add("B1")
            order.add_overlap(1, 0)
        self._cool_down(order, rank)
        return order.actions

    def _cool_down(self, order, rank):
        """Add the last backwards; from the middle on their weights come later."""
        kinds = [kind for kind in (BACKWARD, INPUT) for _ in range(rank + 1)]
        for step in range(rank + 1):
            first, second = kinds[2 * step : 2 * step + 2]
            order.add(f"{first}1 {second}0")
        for _ in range(self.pp_group_size - rank - 1):
            order.add_pending_weight()
            order.add("I0")
        for _ in range(rank + 1):
            order.add_pending_weight()
