"""What a loader and pipes are told is heeded: functions, groups, files that end."""

import importlib
import io

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def data_of(m, name=""):
    return importlib.import_module(f"{m.__name__}.utils.data{name}")


def collated_by_a_function(m):
    data = data_of(m)
    rows = data.TensorDataset(m.arange(6.0), m.arange(6))
    loader = data.DataLoader(rows, batch_size=4, collate_fn=len)
    return list(loader), len(list(data.DataLoader(rows, batch_size=4))[0])


told = []


class Newer:
    def apply_sharding(self, n, i, sharding_group=None):
        told.append((n, i, str(sharding_group)))


class Older:
    def apply_sharding(self, n, i):
        told.append((n, i))


class OurNewer(Newer, rl.utils.data.IterDataPipe): ...


class OurOlder(Older, rl.utils.data.IterDataPipe): ...


class TheirNewer(Newer, torch.utils.data.IterDataPipe): ...


class TheirOlder(Older, torch.utils.data.IterDataPipe): ...


def shared_by_group(m):
    told.clear()
    settings = data_of(m, ".graph_settings")
    groups = data_of(m, ".datapipes.iter.sharding").SHARDING_PRIORITIES
    for kind in (OurNewer, OurOlder) if m is rl else (TheirNewer, TheirOlder):
        settings.apply_sharding(kind(), 3, 1, groups.MULTIPROCESSING)
    return list(told)


def files_of_a_fork(m):
    """A file that no branch has taken is closed with what forks it."""
    stream = data_of(m, ".datapipes.utils.common").StreamWrapper
    files = [io.StringIO(str(n)) for n in range(3)]
    pipe = data_of(m).datapipes.iter.IterableWrapper(
        [stream(file) for file in files], deepcopy=False
    )
    first, second = pipe.demux(2, lambda file: 0)
    taken = next(iter(first))
    wrapped = stream(io.StringIO())
    wrapped.close()
    closed = wrapped.closed
    wrapped.close()
    return closed, taken.closed, [file.closed for file in files]


def odd(file):
    return int(file.read()) % 2


PROGRAMS = [collated_by_a_function, shared_by_group, files_of_a_fork]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_pipes_and_loaders_are_told_counts_as_in_pytorch(program):
    assert program(rl) == program(torch)


@pytest.mark.filterwarnings("ignore")
def test_a_demultiplexer_that_ends_closes_what_waits_in_it():
    stream = data_of(rl, ".datapipes.utils.common").StreamWrapper
    files = [io.StringIO(str(n)) for n in range(3)]
    source = data_of(rl).datapipes.iter.IterableWrapper(
        [stream(file) for file in files], deepcopy=False
    )
    branches = source.demux(2, odd)
    assert next(iter(branches[1])).closed is False
    waiting = branches[0].main_datapipe
    del branches
    waiting.__del__()
    assert [file.closed for file in files] == [True, False, False]
