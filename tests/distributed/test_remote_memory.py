"""Ranks of one machine read each other's arrays, or go through slabs where they may not."""

from __future__ import annotations

import ctypes
import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

import rushlight as rl
from rushlight.distributed import (
    DistBackendError,
    HashStore,
    ProcessGroupGloo,
    ReduceOp,
)
from rushlight.distributed.collectives import remote

pytestmark = pytest.mark.skipif(remote._READ is None, reason="Linux alone has it")
COUNT = 300_001


def together(size, body):
    """What ``body(rank, group)`` gives in a thread for each rank of a group of its own."""
    store = HashStore()

    def one(rank):
        group = ProcessGroupGloo(store, rank, size)
        try:
            return body(rank, group)
        finally:
            group.shutdown()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))


def values(rank, dtype):
    return (rl.arange(COUNT) % 7 + rank).to(dtype)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("is_refused", [False, True])
def test_sums_are_those_of_all_ranks_read_or_not(monkeypatch, size, is_refused):
    monkeypatch.setattr(remote, "LEAST_BYTES", 1 << 10)
    calls = []
    numbers = itertools.count(1)  # what threads count at once has no number twice
    read = remote.read_memory

    def counted(*args):
        calls.append(args)
        if is_refused and next(numbers) == 2:  # one rank may not: then none does
            raise PermissionError(1, "Operation not permitted")
        return read(*args)

    monkeypatch.setattr(remote, "read_memory", counted)

    def body(rank, group):
        found = []
        for dtype in (rl.float32, rl.float64, rl.int32):
            for op in (ReduceOp.SUM, ReduceOp.MAX):
                tensor = values(rank, dtype)
                group._all_reduce([tensor], op)
                found.append(tensor)
        return found

    ranks = together(size, body)
    for found in ranks:
        each = iter(found)
        for dtype in (rl.float32, rl.float64, rl.int32):
            parts = [values(rank, dtype) for rank in range(size)]
            assert rl.equal(next(each), sum(parts[1:], parts[0]))
            assert rl.equal(next(each), parts[-1])
    probes = size * (size - 1)  # a rank that was refused tries no other
    assert len(calls) <= probes if is_refused else len(calls) > 6 * probes


def test_memory_is_copied_and_what_is_not_there_is_refused():
    source = ctypes.create_string_buffer(b"what is read", 12)
    found = ctypes.create_string_buffer(12)
    remote.read_memory(
        os.getpid(), ctypes.addressof(source), ctypes.addressof(found), 12
    )
    assert found.raw == b"what is read"
    with pytest.raises(OSError, match="Bad address"):
        remote.read_memory(os.getpid(), 8, ctypes.addressof(found), 12)


def test_a_rank_whose_memory_is_gone_is_named(monkeypatch):
    monkeypatch.setattr(remote, "LEAST_BYTES", 1 << 10)

    def gone(*args):
        raise ProcessLookupError(3, "No such process")

    def body(rank, group):
        tensor = values(rank, rl.float32)
        group._all_reduce([tensor])
        if rank == 0:
            monkeypatch.setattr(remote, "read_memory", gone)
        group._barrier()
        with pytest.raises(DistBackendError) as caught:
            group._all_reduce([tensor])
        return str(caught.value)

    texts = together(2, body)
    assert any(
        "is lost: its process has ended (its memory: No such" in t for t in texts
    )
