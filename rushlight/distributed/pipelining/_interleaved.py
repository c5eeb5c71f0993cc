"""Schedules of several stages for each process, that microbatches go round through."""

from rushlight.distributed.pipelining._schedule import (
    BACKWARD,
    FORWARD,
    INPUT,
    WEIGHT,
    Action,
    PipelineScheduleMulti,
)


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches through one stage after another, and back."""

    def actions_of(self, rank):
        """The actions of a process."""
        own = range(rank, self._num_stages, self.pp_group_size)
        numbers = range(self._n_microbatches)
        forwards = [
            Action(stage, FORWARD, number) for stage in own for number in numbers
        ]
        back = [
            Action(stage, BACKWARD, number)
            for stage in reversed(own)
            for number in reversed(numbers)
        ]
        return forwards + back


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """One there, one back, over several stages of each process: the pipeline fills sooner.

    Raises:
        ValueError: rounds of microbatches are not alike.
    """

    _TITLE = "Interleaved 1F1B"
    _AHEAD_PER_RANK = 2  # forwards more for each process before the last

    def __init__(self, stages, n_microbatches, loss_fn=None, **options):
        super().__init__(stages, n_microbatches, loss_fn, **options)
        self.number_of_rounds = max(1, n_microbatches // self.pp_group_size)
        self.microbatches_per_round = n_microbatches // self.number_of_rounds
        if n_microbatches % self.number_of_rounds:
            raise ValueError(
                f"{self._TITLE} requires the number of microbatches to be a multiple of "
                f"the number of rounds ({self.number_of_rounds}), but got "
                f"{n_microbatches}."
            )

    def _place(self, step, is_back):
        """The stage, among a process's own, and the microbatch of a step."""
        round_size, own = self.microbatches_per_round, self.n_local_stages
        lap = step // round_size % own
        place = own - 1 - lap if is_back else lap
        number = step // (round_size * own) * round_size + step % round_size
        return place, number

    def _counts(self, rank):
        """The forwards of a process, and how many come before its first backward."""
        total = self._n_microbatches * self.n_local_stages
        ahead = (self.n_local_stages - 1) * self.microbatches_per_round
        ahead += self._AHEAD_PER_RANK * (self.pp_group_size - 1 - rank)
        return total, min(total, ahead)

    def _action(self, rank, step, kind):
        """The action of a process's step there, or back."""
        place, number = self._place(step, kind != FORWARD)
        return Action(place * self.pp_group_size + rank, kind, number)

    def actions_of(self, rank):
        """The actions of a process."""
        total, ahead = self._counts(rank)
        actions = [self._action(rank, step, FORWARD) for step in range(ahead)]
        for step in range(total):
            if ahead + step < total:
                actions.append(self._action(rank, ahead + step, FORWARD))
            actions.append(self._action(rank, step, BACKWARD))
        return actions


class ScheduleInterleavedZeroBubble(ScheduleInterleaved1F1B):
    """Interleaved, one there, one back for inputs, and one back for weights later.

    Process ``r`` leaves the weights of ``r`` microbatches behind, and does them while it
    would wait for others.

    Raises:
        ValueError: rounds of microbatches are not alike.
    """

    _TITLE = "Zero bubble"
    _AHEAD_PER_RANK = 1

    def actions_of(self, rank):
        """The actions of a process."""
        total, ahead = self._counts(rank)
        actions = [self._action(rank, step, FORWARD) for step in range(ahead)]
        weights = 0
        for step in range(total):
            if ahead + step < total:
                actions.append(self._action(rank, ahead + step, FORWARD))
            actions.append(self._action(rank, step, INPUT))
            if step >= rank:
                actions.append(self._action(rank, weights, WEIGHT))
                weights += 1
        rest = range(weights, total)
        return actions + [self._action(rank, step, WEIGHT) for step in rest]
