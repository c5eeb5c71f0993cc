"""A hook that reduces gradients over all processes first, and over some later."""

from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from rushlight.distributed.subgroups import new_subgroups
from rushlight.futures import Future

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """Where gradients are reduced, and since when.

    Args:
        process_group: the processes at first; all without it.
        subgroup: the processes later; those of a machine without it.
        start_localSGD_iter: how many iterations come before.
        post_local_gradient_allreduce: whether they are reduced later at all.
    """

    def __init__(
        self,
        process_group,
        subgroup,
        start_localSGD_iter,
        post_local_gradient_allreduce=True,
    ):
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket):
        """Count the iteration with its last bucket.

        Args:
            bucket: the bucket.
        """
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state, bucket):
    """Reduce a bucket over all processes, or over some, as the state says.

    Args:
        state: a ``PostLocalSGDState``.
        bucket: the gradients.

    Returns:
        A future of the reduced gradients.
    """
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        future = Future()
        future.set_result(bucket.buffer())
        return future
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return allreduce_hook(state.subgroup, bucket)
