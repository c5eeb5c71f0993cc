"""PowerSGD: gradients reduced as products of two thin matrices."""

from __future__ import annotations

import rushlight as rl
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    allreduce_hook,
)
from rushlight.distributed.world import default_group
from rushlight.futures import Future

__all__ = ["PowerSGDState", "powerSGD_hook"]


class PowerSGDState:
    """What PowerSGD keeps from iteration to iteration.

    Args:
        process_group: the group; all processes where it is None.
        matrix_approximation_rank: how many columns the thin matrices have.
        start_powerSGD_iter: the iteration that it begins at; averages before.
        min_compression_rate: matrices that would shrink less are averaged.
        use_error_feedback: whether what was lost is added to the next gradient.
        warm_start: whether an iteration starts from the last one's matrices.
        orthogonalization_epsilon: added to columns that are nearly zero.
        random_seed: what random matrices are drawn from, alike on all ranks.
        compression_stats_logging_frequency: without effect here.
        batch_tensors_with_same_shape: without effect on the result.
    """

    def __init__(
        self,
        process_group,
        matrix_approximation_rank=1,
        start_powerSGD_iter=1000,
        min_compression_rate=2,
        use_error_feedback=True,
        warm_start=True,
        orthogonalization_epsilon=0,
        random_seed=0,
        compression_stats_logging_frequency=10_000,
        batch_tensors_with_same_shape=False,
    ):
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or "
                "`warm_start` is enabled, because PowerSGD can only be applied after the "
                "first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.generator = rl.Generator().manual_seed(random_seed)
        self.error_dict: dict = {}
        self.q_memory_dict: dict = {}
        self.iter = 0

    def maybe_increase_iter(self, bucket):
        """Count an iteration at its last bucket."""
        self.iter += bucket.is_last()


def _orthogonalize(matrix, epsilon):
    """Make the columns orthonormal, in place."""
    for column in range(matrix.shape[1]):
        vector = matrix[:, column]
        length = vector.norm()
        vector.div_(length + epsilon if epsilon else length.clamp(min=1e-30))
        if column + 1 < matrix.shape[1]:
            rest = matrix[:, column + 1 :]
            rest.sub_((vector[:, None] * rest).sum(0) * vector[:, None])


def _shrinks(matrix, state):
    n, m = matrix.shape
    rank = min(n, m, state.matrix_approximation_rank)
    return (n + m) * rank * state.min_compression_rate < n * m


def _approximate(state, group, key, matrix):
    """Replace a matrix by the average of all ranks', of low rank."""
    n, m = matrix.shape
    rank = min(n, m, state.matrix_approximation_rank)
    q = state.q_memory_dict.get(key) if state.warm_start else None
    if q is None:
        q = rl.randn(m, rank, generator=state.generator, dtype=matrix.dtype)
    _orthogonalize(q, state.orthogonalization_epsilon)
    p = matrix @ q
    group._all_reduce([p])
    _orthogonalize(p, state.orthogonalization_epsilon)
    q = matrix.t() @ p
    group._all_reduce([q])
    q.div_(group.size())
    state.q_memory_dict[key] = q
    matrix.copy_(p @ q.t())


def powerSGD_hook(state, bucket):
    """Reduce a bucket by PowerSGD.

    Args:
        state: a ``PowerSGDState``.
        bucket: a ``GradBucket``.
    """
    group = state.process_group
    group = group if group is not None else default_group()
    buffer = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    key = bucket.index()
    if state.use_error_feedback:
        lost = state.error_dict.get(key)
        if lost is not None:
            buffer.add_(lost)
        before = buffer.clone()
    plain = []
    for index, gradient in enumerate(bucket.gradients()):
        matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 1 else None
        if matrix is not None and _shrinks(matrix, state):
            _approximate(state, group, (key, index), matrix)
        else:
            plain.append(gradient)
    if plain:
        flat = rl.cat([each.reshape(-1) for each in plain])
        group._all_reduce([flat])
        parts = flat.div_(group.size()).split([each.numel() for each in plain])
        for each, part in zip(plain, parts):
            each.copy_(part.view(each.shape))
    if state.use_error_feedback:
        state.error_dict[key] = before.sub_(buffer)
    state.maybe_increase_iter(bucket)
    done: Future = Future()
    done.set_result(buffer)
    return done
