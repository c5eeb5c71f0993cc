import pytest

import rushlight as rl
from rushlight.utils import data


class Squares(data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index * index


class Countdown(data.IterableDataset):
    def __init__(self, start):
        self.start = start

    def __iter__(self):
        return iter(range(self.start, 0, -1))

    def __len__(self):
        return self.start


def test_tensor_dataset_gives_rows_of_every_tensor():
    rows = data.TensorDataset(rl.arange(6).view(3, 2), rl.arange(3))
    assert len(rows) == 3
    assert [part.tolist() for part in rows[1]] == [[2, 3], 1]


def test_tensor_dataset_wants_equal_lengths():
    with pytest.raises(AssertionError, match=r"Size mismatch.*\[3, 2\]"):
        data.TensorDataset(rl.ones(3), rl.ones(2))


def test_one_gather_gives_what_collating_rows_gives():
    rows = data.TensorDataset(rl.rand(7, 2), rl.arange(7))
    picked = [3, 0, -1, 3]
    expected = data.default_collate([rows[i] for i in picked])
    for ours, theirs in zip(rows.batch_reader()(picked), expected):
        assert ours.tolist() == theirs.tolist()
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        rows.batch_reader()([0, 7])


def test_a_subclass_with_its_own_samples_is_not_gathered():
    class Doubled(data.TensorDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)[0] * 2

    loader = data.DataLoader(Doubled(rl.arange(3)), batch_size=3)
    assert next(iter(loader)).tolist() == [0, 2, 4]


def test_concatenated_datasets_are_found_by_one_index():
    both = Squares(3) + Squares(2)
    assert [both[i] for i in range(5)] == [0, 1, 4, 0, 1]
    assert both[-1] == 1
    with pytest.raises(ValueError, match="should not exceed dataset length"):
        both[-6]


def test_chained_datasets_follow_one_another():
    both = Countdown(2) + Countdown(1)
    assert list(both) == [2, 1, 1]
    assert len(both) == 3


def test_stacked_datasets_give_tuples_or_dicts():
    assert data.StackDataset(Squares(3), Squares(3))[2] == (4, 4)
    named = data.StackDataset(x=Squares(3), y=Squares(3))
    assert named.__getitems__([1, 2]) == [{"x": 1, "y": 1}, {"x": 4, "y": 4}]
    with pytest.raises(ValueError, match="Size mismatch"):
        data.StackDataset(Squares(3), Squares(2))


def test_random_split_gives_disjoint_parts_of_the_sizes_asked_for():
    parts = data.random_split(Squares(10), [0.35, 0.35, 0.3])
    assert [len(part) for part in parts] == [4, 3, 3]
    assert sorted(i for part in parts for i in part.indices) == list(range(10))
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        data.random_split(Squares(10), [3, 3])


def test_random_split_is_pytorchs():
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    for lengths in [3, 7, 20], [0.25, 0.75], [0.3, 0.3, 0.4]:
        ours = data.random_split(range(30), lengths, rl.Generator().manual_seed(5))
        theirs = torch.utils.data.random_split(
            range(30), lengths, torch.Generator().manual_seed(5)
        )
        assert [list(p.indices) for p in ours] == [list(p.indices) for p in theirs]


@pytest.mark.filterwarnings("ignore:Length of split")
def test_what_fractions_leave_over_goes_to_the_first_parts_as_in_pytorch():
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    for fractions in [0.5, 0.5], [0.3, 0.4, 0.3], [0.2] * 5, [0.0, 1.0], [1.0]:
        for total in range(12):
            parts = (
                package.utils.data.random_split(range(total), fractions)
                for package in (rl, torch)
            )
            ours, theirs = ([len(part) for part in each] for each in parts)
            assert ours == theirs, (fractions, total)
