"""How a pass goes on after an exception, and where another one was; threads."""

import gc
import os
import signal
import threading
import time

import pytest

import rushlight as rl
from rushlight.utils import data

WORKERS = [
    {"num_workers": 0},
    {"num_workers": 2},
    {"num_workers": 2, "persistent_workers": True},
    {"num_workers": 3, "multiprocessing_context": "thread"},
]


@pytest.fixture(autouse=True)
def no_worker_is_left():
    yield
    gc.collect()


class Numbers:
    """The numbers up to 20, some of which fail."""

    def __init__(self, bad=()):
        self.bad = bad

    def __len__(self):
        return 20

    def __getitem__(self, index):
        if index in self.bad:
            raise ValueError(f"no {index}")
        return index


class Counting(data.IterableDataset):
    """Each worker's share of the numbers up to 20."""

    def __iter__(self):
        info = data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(first, 20, step))


def lists(batches):
    return [batch.tolist() for batch in batches]


def outcomes(loader):
    """Batches and the names of bad samples, in the order in which they come."""
    found, batches = [], iter(loader)
    while True:
        try:
            found.append(next(batches).tolist())
        except StopIteration:
            return found
        except ValueError as error:
            found.append(
                [line for line in str(error).splitlines() if "no " in line][-1]
            )


@pytest.mark.parametrize("options", WORKERS, ids=str)
def test_every_error_comes_in_its_place_and_the_pass_goes_on(options):
    loader = data.DataLoader(Numbers(bad=(3, 4, 17)), batch_size=4, **options)
    found = [
        item if isinstance(item, list) else item.split("no ")[1]
        for item in outcomes(loader)
    ]
    assert found == ["3", "4", [8, 9, 10, 11], [12, 13, 14, 15], "17"]


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_come_as_pytorchs_do(workers):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    found = []
    for library in data, torch.utils.data:
        loader = library.DataLoader(
            Numbers(bad=(3, 17)), batch_size=4, num_workers=workers
        )
        found.append([o if isinstance(o, list) else o[-2:] for o in outcomes(loader)])
    assert found[0] == found[1]


@pytest.mark.parametrize("options", WORKERS, ids=str)
@pytest.mark.parametrize(
    "own", [False, True], ids=["default generator", "own generator"]
)
@pytest.mark.parametrize("taken", [0, 2, 5])
def test_a_pass_goes_on_where_another_one_was(options, own, taken):
    def loader():
        generator = rl.Generator().manual_seed(5) if own else None
        return data.DataLoader(
            Numbers(), batch_size=4, shuffle=True, generator=generator, **options
        )

    rl.manual_seed(3)
    first = loader()
    batches = iter(first)
    for _ in range(taken):
        next(batches)
    state = first.state_dict()
    rest = lists(batches)
    again = loader()
    if taken:
        rl.manual_seed(99)  # what the program draws in between changes nothing
        rl.rand(3)
        before = rl.get_rng_state()
    else:
        rl.manual_seed(3)
    again.load_state_dict(state)
    assert lists(again) == rest
    if taken and not own:
        assert rl.equal(rl.get_rng_state(), before)
    assert len(lists(again)) == 5  # and the next pass is whole


@pytest.mark.parametrize("options", WORKERS, ids=str)
def test_an_iterable_pass_goes_on_where_another_one_was(options):
    first = data.DataLoader(Counting(), batch_size=3, **options)
    batches = iter(first)
    next(batches), next(batches)
    state = first.state_dict()
    again = data.DataLoader(Counting(), batch_size=3, **options)
    again.load_state_dict(state)
    assert lists(again) == lists(batches)
    assert again.state_dict()["batches"] == 0


def test_the_state_of_a_pass_is_saved_and_loaded(tmp_path):
    loader = data.DataLoader(Numbers(), batch_size=4, shuffle=True)
    batches = iter(loader)
    next(batches)
    rl.save(loader.state_dict(), tmp_path / "state.pt")
    rest = lists(batches)
    loader.load_state_dict(rl.load(tmp_path / "state.pt"))
    assert lists(loader) == rest
    with pytest.raises(ValueError, match="not a state"):
        loader.load_state_dict({"batches": 1})


def test_threads_know_who_they_are_and_share_the_data():
    class Who(Numbers):
        seen = set()

        def __getitem__(self, index):
            info = data.get_worker_info()
            assert info.dataset is self and info.num_workers == 2
            self.seen.add((info.id, threading.current_thread().name))
            return index

    started = []
    loader = data.DataLoader(
        Who(), batch_size=4, num_workers=2, multiprocessing_context="thread",
        worker_init_fn=started.append,
    )  # fmt: skip
    assert sum(lists(loader), []) == list(range(20))
    assert {number for number, _ in Who.seen} == set(started) == {0, 1}
    assert data.get_worker_info() is None


def test_threads_that_are_slow_or_fail_at_once_are_reported():
    class Slow(Numbers):
        def __getitem__(self, index):
            time.sleep(0.5)

    options = {"num_workers": 1, "multiprocessing_context": "thread"}
    with pytest.raises(RuntimeError, match="timed out after 0.05 seconds"):
        next(iter(data.DataLoader(Slow(), timeout=0.05, **options)))

    def init(worker):
        raise OSError("no luck")

    with pytest.raises(OSError, match="Caught OSError in DataLoader worker thread 0"):
        next(iter(data.DataLoader(Numbers(), worker_init_fn=init, **options)))


def test_a_killed_worker_is_reported_within_a_second():
    class Deadly(Numbers):
        def __getitem__(self, index):
            os.kill(os.getpid(), signal.SIGKILL)

    batches = iter(data.DataLoader(Deadly(), num_workers=2))
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match="killed by signal 9"):
        next(batches)
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize(
    "options",
    [
        {"multiprocessing_context": "fork"},
        {"multiprocessing_context": "x", "num_workers": 1},
    ],
    ids=str,
)
def test_ways_to_start_are_refused_as_pytorch_refuses_them(options):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    words = []
    for library in data, torch.utils.data:
        with pytest.raises(ValueError) as caught:
            library.DataLoader(Numbers(), **options)
        words.append(str(caught.value))
    assert words[0] == words[1]


def test_pinning_without_a_device_is_warned_of_as_pytorch_does():
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    for library in data, torch.utils.data:
        with pytest.warns(UserWarning, match="pinned memory won't be used"):
            next(iter(library.DataLoader(Numbers(), pin_memory=True)))


class Stream(data.IterableDataset):
    def __iter__(self):
        yield from (1, 2, 3)


class OwnLoader:
    """A loader of a program's own, with what a pass reads of PyTorch's."""

    _auto_collation, _IterableDataset_len_called, drop_last = False, None, False
    _dataset_kind = data._DatasetKind.Iterable
    _index_sampler, generator, prefetch_factor = range(10**6), None, 2
    pin_memory, pin_memory_device, timeout, persistent_workers = False, "", 0, False
    worker_init_fn, multiprocessing_context, in_order = None, None, True
    dataset = Stream()

    def __init__(self, num_workers):
        self.num_workers = num_workers

    def collate_fn(self, sample):
        return sample * 10


def test_passes_are_made_of_any_loader():
    from rushlight.utils.data import dataloader

    loader = data.DataLoader(data.TensorDataset(rl.arange(6)), batch_size=4)
    kind = dataloader._SingleProcessDataLoaderIter
    assert [batch[0].tolist() for batch in kind(loader)] == [[0, 1, 2, 3], [4, 5]]
    assert list(kind(OwnLoader(0))) == [10, 20, 30]
    kind = dataloader._MultiProcessingDataLoaderIter
    assert list(kind(OwnLoader(1))) == [10, 20, 30]
