"""One process's share of a data set."""

import math

import rushlight as rl
from rushlight.utils.data.sampler import Sampler, T_co


class DistributedSampler(Sampler[T_co]):
    """Every ``num_replicas``-th index from ``rank`` on, shuffled alike everywhere.

    The shares have one size: missing indices are repeated from the start, or with
    ``drop_last`` the surplus is left out. ``set_epoch`` changes the order.

    Args:
        dataset: what has a length.
        num_replicas: how many processes share it; by default as many as there are.
        rank: which of them this is.
        shuffle: whether indices are shuffled anew for each epoch.
        seed: what the shuffling starts from, the same in all processes.
        drop_last: whether what cannot be shared evenly is left out, not repeated.
    """

    def __init__(
        self,
        dataset,
        num_replicas=None,
        rank=None,
        shuffle=True,
        seed=0,
        drop_last=False,
    ):
        if num_replicas is None or rank is None:
            from rushlight import distributed

            if num_replicas is None:
                num_replicas = distributed.get_world_size()
            if rank is None:
                rank = distributed.get_rank()
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval "
                f"[0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        share = len(dataset) / num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            generator = rl.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = rl.randperm(len(self.dataset), generator=generator).tolist()
        while len(indices) < self.total_size:
            indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass use another order, the same in every process."""
        self.epoch = epoch
