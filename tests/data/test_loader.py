"""The loader's order, its workers, and what happens when they fail."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.utils import data

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


class Samples(data.Dataset):
    """Samples with a tensor, a number, text, and draws of three generators."""

    def __len__(self):
        return 23

    def __getitem__(self, index):
        draws = [random.random(), float(np.random.rand()), rl.rand(1).item()]
        return rl.full((2,), index), index, {"text": str(index), "draws": draws}


class Share(data.IterableDataset):
    """Each worker's share of the numbers up to 23."""

    def __iter__(self):
        info = data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(first, 23, step))


class Failing(Samples):
    def __init__(self, action, at=10):
        self.action = action
        self.at = at

    def __getitem__(self, index):
        if index == self.at:
            self.action()
        return index


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    gc.collect()  # an exception holds its pass, and the pass its workers
    deadline = time.monotonic() + 5
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not multiprocessing.active_children()


def numbers(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_every_sample_comes_once_and_in_order(workers):
    loader = data.DataLoader(Samples(), batch_size=5, num_workers=workers)
    assert len(loader) == 5
    batches = list(loader)
    assert [i for _, index, _ in batches for i in index.tolist()] == list(range(23))
    assert batches[4][0].tolist() == [[20, 20], [21, 21], [22, 22]]
    assert batches[0][2]["text"] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("workers", [0, 2])
def test_without_batches_samples_come_as_they_are(workers):
    loader = data.DataLoader(Samples(), batch_size=None, num_workers=workers)
    assert [index for _, index, _ in loader] == list(range(23))


def drawn_ahead(package, options):
    """How many indices an order has given, before a pass and after each of its batches."""

    class Counted(package.utils.data.Sampler):
        drawn = 0

        def __len__(self):
            return 20

        def __iter__(self):
            for index in range(20):
                self.drawn += 1
                yield index

    order = Counted()
    passing = iter(package.utils.data.DataLoader(range(20), sampler=order, **options))
    counts = [order.drawn]
    for _ in range(4):
        next(passing)
        counts.append(order.drawn)
    return counts


@pytest.mark.parametrize(
    "options",
    [{}, {"num_workers": 1}, {"num_workers": 2, "prefetch_factor": 1}]
    + [{"num_workers": 2, "prefetch_factor": ahead} for ahead in (2, 3)],
    ids=str,
)
def test_as_many_batches_are_under_way_as_in_pytorch(options):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    assert drawn_ahead(rl, options) == drawn_ahead(torch, options)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 2, 3])
def test_iterable_datasets_are_shared_between_workers(workers):
    loader = data.DataLoader(Share(), batch_size=4, num_workers=workers)
    assert sorted(i for batch in numbers(loader) for i in batch) == list(range(23))


def test_persistent_workers_serve_every_pass():
    loader = data.DataLoader(
        Failing(int, at=-1), batch_size=6, num_workers=2, persistent_workers=True
    )
    passes = [numbers(loader) for _ in range(3)]
    assert passes[0] == passes[1] == passes[2]
    pids = {process.pid for process in multiprocessing.active_children()}
    next(iter(loader))  # leaves batches of a pass that nobody finishes
    assert numbers(loader) == passes[0]
    assert {process.pid for process in multiprocessing.active_children()} == pids
    del loader


def test_a_pass_that_is_dropped_ends_its_workers():
    iterator = iter(data.DataLoader(Samples(), num_workers=2))
    next(iterator)
    assert multiprocessing.active_children()
    del iterator


def test_batches_from_workers_can_be_written_and_kept():
    kept = [
        batch[0] for batch in data.DataLoader(Samples(), batch_size=5, num_workers=2)
    ]
    kept[0].add_(100)
    assert kept[0][4].tolist() == [104, 104]
    assert kept[1][0].tolist() == [5, 5]


def test_unordered_batches_are_all_there():
    loader = data.DataLoader(
        Failing(int, at=-1), batch_size=2, num_workers=2, in_order=False
    )
    assert sorted(i for batch in numbers(loader) for i in batch) == list(range(23))


@pytest.mark.parametrize("kind", [KeyError, ValueError, StopIteration])
def test_a_workers_exception_comes_with_its_traceback(kind):
    def action():
        raise kind("a bad sample")

    loader = data.DataLoader(Failing(action), batch_size=4, num_workers=2)
    with pytest.raises(Exception, match="a bad sample") as caught:
        list(loader)
    assert "in DataLoader worker process 0" in str(caught.value)
    assert "in __getitem__" in str(caught.value)
    if kind is not StopIteration:
        assert caught.type is kind


def test_a_worker_that_dies_is_reported_with_its_exit_code():
    loader = data.DataLoader(Failing(lambda: os._exit(3)), batch_size=4, num_workers=2)
    with pytest.raises(RuntimeError, match="exited unexpectedly with exit code 3"):
        list(loader)


def test_a_worker_that_is_killed_is_reported_with_the_signal():
    loader = data.DataLoader(
        Failing(lambda: os.kill(os.getpid(), 9)), batch_size=4, num_workers=1
    )
    with pytest.raises(RuntimeError, match="killed by signal 9"):
        list(loader)


def test_a_slow_worker_runs_into_the_timeout():
    loader = data.DataLoader(
        Failing(lambda: time.sleep(60), at=0), num_workers=1, timeout=0.3
    )
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="timed out after 0.3 seconds"):
        list(loader)
    assert time.monotonic() - start < 10


def test_a_result_that_cannot_be_sent_is_the_batchs_error():
    loader = data.DataLoader(
        Failing(int, at=-1), num_workers=1, collate_fn=lambda samples: lambda: samples
    )
    with pytest.raises(Exception, match="pickle"):
        list(loader)


def test_a_failing_init_function_is_reported():
    def init(worker):
        raise OSError(f"no luck in {worker}")

    with pytest.raises(OSError, match="no luck in 0"):
        list(data.DataLoader(Samples(), num_workers=1, worker_init_fn=init))


def test_workers_know_who_they_are():
    class Who(Samples):
        def __getitem__(self, index):
            info = data.get_worker_info()
            return info.id, info.num_workers, info.seed, rl.initial_seed()

    rows = list(data.DataLoader(Who(), batch_size=None, num_workers=2))
    assert [row[0] for row in rows[:2]] == [0, 1]
    assert {row[1] for row in rows} == {2}
    assert rows[1][2] == rows[0][2] + 1
    assert all(row[2] == row[3] for row in rows)
    assert data.get_worker_info() is None


@pytest.mark.parametrize(
    "options, words",
    [
        ({"num_workers": -1}, "non-negative"),
        ({"timeout": -1}, "non-negative"),
        ({"prefetch_factor": 2}, "num_workers > 0"),
        ({"persistent_workers": True}, "needs num_workers > 0"),
        ({"shuffle": True, "sampler": [1]}, "mutually exclusive"),
        ({"batch_sampler": [[1]], "drop_last": True}, "mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "mutually exclusive"),
        ({"batch_size": 0}, "positive integer"),
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        data.DataLoader(Samples(), **options)


def test_an_iterable_dataset_has_its_own_order():
    with pytest.raises(ValueError, match="unexpected|unspecified shuffle"):
        data.DataLoader(Share(), shuffle=True)


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True},
        {"shuffle": True, "num_workers": 2},
        {"shuffle": True, "num_workers": 1, "persistent_workers": True},
        {"batch_size": None, "num_workers": 2},
        {"drop_last": True, "batch_size": 7, "shuffle": True},
    ],
    ids=str,
)
def test_order_seeds_and_draws_are_pytorchs(options):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")

    class Theirs(torch.utils.data.Dataset):
        __len__ = Samples.__len__

        def __getitem__(self, index):
            draws = [random.random(), float(np.random.rand()), torch.rand(1).item()]
            return torch.full((2,), index), index, {"text": str(index), "draws": draws}

    outcomes = []
    for library, samples in (rl, Samples()), (torch, Theirs()):
        random.seed(1)
        np.random.seed(1)
        library.manual_seed(5)
        loader = library.utils.data.DataLoader(samples, **{"batch_size": 4, **options})
        seen = [plain(batch) for _ in range(2) for batch in loader]
        outcomes.append((seen, library.rand(1).item()))
        del loader
    assert outcomes[0] == outcomes[1]


def plain(value):
    """The value with tensors as lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def test_workers_can_be_spawned_in_place_of_forked(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from rushlight.utils import data\n"
        "import rushlight as rl\n"
        "if __name__ == '__main__':\n"
        "    rows = data.TensorDataset(rl.arange(5))\n"
        "    loader = data.DataLoader(\n"
        "        rows, 2, num_workers=1, multiprocessing_context='spawn')\n"
        "    print([batch[0].tolist() for batch in loader])\n"
    )
    result = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert result.stdout == "[[0, 1], [2, 3], [4]]\n", result.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL], ids=str)
def test_workers_do_not_outlive_the_main_process(sent):
    program = (
        "import os, signal, time\n"
        # a background job starts with interrupts ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from rushlight.utils import data\n"
        "class Slow(data.Dataset):\n"
        "    def __len__(self): return 100\n"
        "    def __getitem__(self, i):\n"
        "        os.write(1, b'%d\\n' % os.getpid())\n"
        "        time.sleep(0.3)\n"
        "        return i\n"
        "for batch in data.DataLoader(Slow(), num_workers=2): pass\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    pids = {int(child.stdout.readline()) for _ in range(4)}
    child.send_signal(sent)
    _, errors = child.communicate(timeout=20)
    assert sent == signal.SIGKILL or "KeyboardInterrupt" in errors
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.05)
