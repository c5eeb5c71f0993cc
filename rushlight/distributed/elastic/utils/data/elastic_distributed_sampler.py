"""Samples for programs that begin in the midst of an epoch."""

import math
from collections.abc import Sized

import rushlight as rl
from rushlight.utils.data import DistributedSampler

__all__ = ["ElasticDistributedSampler"]


class ElasticDistributedSampler(DistributedSampler):
    """The samples of a rank from some place of the data set on.

    Args:
        dataset: the data set.
        num_replicas: the number of ranks; as the processes without it.
        rank: this one; likewise.
        start_index: the first sample that is still to be seen.

    >>> sampler = ElasticDistributedSampler(range(10), num_replicas=2, rank=0, start_index=6)
    >>> sorted(sampler), len(sampler)
    ([6, 9], 2)
    """

    def __init__(self, dataset, num_replicas=None, rank=None, start_index=0):
        super().__init__(dataset=dataset, num_replicas=num_replicas, rank=rank)
        if not isinstance(dataset, Sized):
            raise TypeError("Dataset must be an instance of collections.abc.Sized")
        if start_index >= len(dataset):
            raise ValueError(
                f"Start index {start_index} should be less than dataset size "
                f"{len(dataset)}"
            )
        self.start_index = start_index
        left = len(dataset) - start_index
        self.num_samples = math.ceil(left / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        generator = rl.Generator()
        generator.manual_seed(self.epoch)
        count = len(self.dataset) - self.start_index
        order = rl.randperm(count, generator=generator).add(self.start_index).tolist()
        order = (order * math.ceil(self.total_size / count))[: self.total_size]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples
