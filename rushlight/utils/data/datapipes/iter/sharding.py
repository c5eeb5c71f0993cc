"""Shares of the samples, for several readers."""

from enum import IntEnum

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.utils.common import length_of

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):
    """Who shares: first processes of a group, then the workers of each."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(IterDataPipe):
    """A pipe that gives one share."""

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: SHARDING_PRIORITIES,
    ):
        """Says which share of how many."""
        raise NotImplementedError(f"{type(self).__name__} defines no apply_sharding()")


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Every n-th sample, once somebody says which share of how many this is.

    Args:
        source_datapipe: the pipe before.
        sharding_group_filter: whom to listen to; to all where left out.

    >>> pipe = rl.utils.data.datapipes.iter.IterableWrapper(range(7)).sharding_filter()
    >>> pipe.apply_sharding(3, 1)
    >>> list(pipe)
    [1, 4]
    """

    def __init__(
        self, source_datapipe: IterDataPipe, sharding_group_filter=None
    ) -> None:
        super().__init__()
        self.source_datapipe = source_datapipe
        self.sharding_group_filter = sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self._update_num_of_instances()

    def apply_sharding(
        self, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT
    ):
        if instance_id >= num_of_instances:
            raise ValueError(
                f"instance_id({instance_id}) should be smaller than "
                f"num_of_instances({num_of_instances})"
            )
        default = SHARDING_PRIORITIES.DEFAULT
        if self.groups and (sharding_group == default) != (default in self.groups):
            raise RuntimeError(
                "ShardingFilter cannot mix DEFAULT and non DEFAULT groups"
            )
        self.groups[sharding_group] = (num_of_instances, instance_id)
        self._update_num_of_instances()

    def _update_num_of_instances(self) -> None:
        wanted = self.sharding_group_filter
        self.num_of_instances, self.instance_id = 1, 0
        # The last to share counts fastest.
        for key in sorted(self.groups, reverse=True):
            if wanted is None or key == wanted:
                count, number = self.groups[key]
                self.instance_id += self.num_of_instances * number
                self.num_of_instances *= count

    def __iter__(self):
        for i, item in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield item

    def __len__(self) -> int:
        whole, rest = divmod(
            length_of(self, self.source_datapipe), self.num_of_instances
        )
        return whole + (1 if self.instance_id < rest else 0)
