import itertools

import pytest

import rushlight as rl
from rushlight.utils import data


def test_batches_cover_the_indices_in_order():
    batches = data.BatchSampler(range(7), 3, drop_last=False)
    assert list(batches) == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(batches) == 3


def test_drop_last_leaves_out_a_short_batch():
    batches = data.BatchSampler(range(7), 3, drop_last=True)
    assert list(batches) == [[0, 1, 2], [3, 4, 5]]
    assert len(batches) == 2


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: data.RandomSampler(range(3), replacement=1), TypeError),
        (lambda: data.RandomSampler(range(3), num_samples=0), ValueError),
        (lambda: data.BatchSampler(range(3), 0, False), ValueError),
        (lambda: data.WeightedRandomSampler([1, 2], 0), ValueError),
        (lambda: data.WeightedRandomSampler([[1.0]], 1), ValueError),
        (lambda: data.DistributedSampler(range(3)), ValueError),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make, error):
    with pytest.raises(error):
        make()


def test_processes_share_the_indices_between_them():
    shares = [
        list(data.DistributedSampler(range(10), num_replicas=3, rank=rank, seed=1))
        for rank in range(3)
    ]
    assert {len(share) for share in shares} == {4}
    assert {i for share in shares for i in share} == set(range(10))


@pytest.mark.parametrize("options", [
    {}, {"replacement": True}, {"num_samples": 25},
    {"replacement": True, "num_samples": 70},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("own_generator", [False, True])
def test_random_orders_are_pytorchs(options, own_generator):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    orders = []
    for library in rl, torch:
        library.manual_seed(3)
        generator = library.Generator().manual_seed(8) if own_generator else None
        sampler = library.utils.data.RandomSampler(
            range(10), generator=generator, **options
        )
        passes = [list(sampler), list(sampler)]
        orders.append((passes, library.rand(1, generator=generator).item()))
    assert orders[0] == orders[1]


def test_subset_and_weighted_orders_are_pytorchs():
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    orders = []
    for library in rl, torch:
        library.manual_seed(3)
        samplers = library.utils.data
        subset = samplers.SubsetRandomSampler([5, 7, 9, 11])
        weighted = samplers.WeightedRandomSampler([0.1, 0.9, 0.4, 2.0], 20)
        without = samplers.WeightedRandomSampler(
            [0.1, 0.9, 0.4, 2.0], 3, replacement=False
        )
        orders.append([list(subset), list(weighted), list(without)])
    assert orders[0] == orders[1]


def test_draws_with_replacement_are_made_in_pieces():
    torch = pytest.importorskip("torch")
    firsts = []
    for library in rl, torch:
        sampler = library.utils.data.RandomSampler(
            range(100),
            replacement=True,
            num_samples=10**10,  # their counts alone would be 2.5 GB of a list
            generator=library.Generator().manual_seed(3),
        )
        firsts.append([*itertools.islice(sampler, 70)])
    assert firsts[0] == firsts[1]
