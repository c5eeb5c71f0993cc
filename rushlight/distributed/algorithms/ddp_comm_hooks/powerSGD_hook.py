"""PowerSGD: gradients reduced as products of two thin matrices."""

import math

import rushlight as rl
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from rushlight.distributed.world import default_group
from rushlight.futures import Future

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


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
        from numpy.random import RandomState

        self.rng = RandomState(random_seed)
        self.error_dict: dict = {}
        self.q_memory_dict: dict = {}
        self.iter = 0

    def maybe_increase_iter(self, bucket):
        """Count an iteration at its last bucket."""
        self.iter += bucket.is_last()


def _orthogonalize(matrix, epsilon=0):
    """Make the columns orthonormal, in place."""
    columns, exact = matrix.shape[1], matrix.dtype not in (rl.float16, rl.bfloat16)
    if columns > 2 and exact:
        matrix.copy_(rl.linalg.qr(matrix).Q)
        return
    for column in range(columns):
        vector = matrix[:, column]
        length = vector.norm()
        vector.div_(length + epsilon if epsilon else length.clamp(min=1e-30))
        if column + 1 < columns:
            rest = matrix[:, column + 1 :]
            rest.sub_((vector[:, None] * rest).sum(0) * vector[:, None])


def _shrinks(n, m, rank, state):
    return (n + m) * rank * state.min_compression_rate < n * m


def _thin(state, key, shapes, dtype):
    """The right-hand factors of a bucket: the last iteration's, or random ones.

    Args:
        state: a ``PowerSGDState``.
        key: the bucket's number.
        shapes: the sizes of each factor.
        dtype: their type.
    """
    found = state.q_memory_dict.get(key) if state.warm_start else None
    if found is None:
        generator = rl.Generator().manual_seed(int(state.rng.randint(1_000_000_000)))
        found = [rl.randn(*each, generator=generator, dtype=dtype) for each in shapes]
    state.q_memory_dict[key] = found
    return found


def _approximate(group, matrix, q, epsilon=0):
    """Replace a matrix by the average of all ranks', a product with ``q``, in place."""
    _orthogonalize(q, epsilon)
    p = matrix @ q
    group._all_reduce([p])
    _orthogonalize(p, epsilon)
    rl.matmul(matrix.t(), p, out=q)
    group._all_reduce([q])
    q.div_(group.size())
    rl.matmul(p, q.t(), out=matrix)


def _average(group, gradients):
    """Replace gradients by the average of all ranks', in one collective."""
    flat = rl.cat([each.reshape(-1) for each in gradients])
    group._all_reduce([flat])
    parts = flat.div_(group.size()).split([each.numel() for each in gradients])
    for each, part in zip(gradients, parts):
        each.copy_(part.view(each.shape))


def _compress(state, group, bucket):
    """Reduce a bucket: each matrix by thin factors, what would not shrink as it is."""
    matrices, plain = [], []
    for gradient in bucket.gradients():
        matrix = gradient.view(gradient.shape[0], -1)
        n, m = matrix.shape
        rank = min(n, m, state.matrix_approximation_rank)
        if _shrinks(n, m, rank, state):
            matrices.append((matrix, (m, rank)))
        else:
            plain.append(gradient)
    if plain:
        _average(group, plain)
    dtype, shapes = bucket.buffer().dtype, [shape for _, shape in matrices]
    factors = _thin(state, bucket.index(), shapes, dtype)
    for (matrix, _), q in zip(matrices, factors):
        _approximate(group, matrix, q, state.orthogonalization_epsilon)


def _compress_whole(state, group, bucket):
    """Reduce a bucket by two thin factors of it as one square matrix."""
    buffer = bucket.buffer()
    side = math.isqrt(max(buffer.numel() - 1, 0)) + 1
    square = buffer.new_zeros(side * side)
    square[: buffer.numel()] = buffer
    shapes = [(side, state.matrix_approximation_rank)]
    (q,) = _thin(state, bucket.index(), shapes, buffer.dtype)
    _approximate(group, square.view(side, side), q)
    buffer.copy_(square[: buffer.numel()])


def _reduce(state, bucket, compress):
    """Reduce a bucket by ``compress`` once it is time, what was lost added back."""
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
    compress(state, group, bucket)
    if state.use_error_feedback:
        state.error_dict[key] = before.sub_(buffer)
    state.maybe_increase_iter(bucket)
    done: Future = Future()
    done.set_result(buffer)
    return done


def powerSGD_hook(state, bucket):
    """Reduce a bucket by PowerSGD, matrix by matrix.

    Args:
        state: a ``PowerSGDState``.
        bucket: a ``GradBucket``.
    """
    return _reduce(state, bucket, _compress)


def batched_powerSGD_hook(state, bucket):
    """Reduce a bucket by PowerSGD as one square matrix: faster, and coarser.

    Args:
        state: a ``PowerSGDState``.
        bucket: a ``GradBucket``.
    """
    return _reduce(state, bucket, _compress_whole)
