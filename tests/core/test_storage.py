"""Storages: bytes, the pool behind them, and what happens at the limits."""

import gc
import mmap
import os
import pickle
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushlight import cpu
from rushlight.core.device import Device
from rushlight.core.storage import UntypedStorage, wrap_address

guarding = os.environ.get("RUSHLIGHT_GUARD") == "1"


@pytest.fixture(autouse=True)
def no_garbage_and_no_limit():
    gc.collect()
    yield
    cpu.set_memory_limit(None)


# Bytes.


def test_a_storage_of_values_holds_them():
    storage = UntypedStorage([1, 2, 255])
    assert storage.tolist() == [1, 2, 255]
    assert (storage.nbytes(), storage.size(), len(storage)) == (3, 3, 3)
    assert storage.element_size() == 1


def test_memory_starts_on_a_cache_line():
    for size in (1, 63, 64, 65, 1000, 4097, 3 << 20):
        assert UntypedStorage(size).data_ptr() % 64 == 0


def test_an_empty_storage_has_no_address():
    storage = UntypedStorage(0)
    assert storage.data_ptr() == 0
    assert storage.tolist() == []
    assert storage.clone().nbytes() == 0


@pytest.mark.parametrize("index", [0, 2, -1, -3])
def test_bytes_are_read_and_written_by_index(index):
    storage = UntypedStorage([10, 20, 30])
    storage[index] = 7
    assert storage[index] == 7
    assert storage.tolist().count(7) == 1


def test_a_slice_shares_memory_and_takes_one_value():
    storage = UntypedStorage(range(6))
    part = storage[1:4]
    part[0] = 99
    assert storage.tolist() == [0, 99, 2, 3, 4, 5]
    storage[::2] = 8
    assert storage.tolist() == [8, 99, 8, 3, 8, 5]


@pytest.mark.parametrize("index", [3, -4, 10**12])
def test_an_index_outside_is_refused(index):
    with pytest.raises(IndexError, match=f"index {index} out of range .* size 3"):
        UntypedStorage(3)[index]


def test_a_value_must_fit_in_a_byte():
    with pytest.raises((OverflowError, ValueError)):
        UntypedStorage(1)[0] = 256


def test_resizing_keeps_what_fits():
    storage = UntypedStorage([1, 2, 3])
    assert storage.resize_(2) is storage
    assert storage.tolist() == [1, 2]
    storage.resize_(5000)
    assert storage[0] == 1 and storage[1] == 2 and storage.nbytes() == 5000
    storage.resize_(0)
    assert storage.data_ptr() == 0


def test_a_negative_size_is_refused():
    with pytest.raises(RuntimeError, match="negative"):
        UntypedStorage(-1)
    with pytest.raises(RuntimeError, match="negative size -5"):
        UntypedStorage(3).resize_(-5)


def test_copies_need_equal_sizes():
    target, source = UntypedStorage(3).fill_(0), UntypedStorage([7, 8, 9])
    assert target.copy_(source) is target
    assert target.tolist() == [7, 8, 9]
    with pytest.raises(RuntimeError, match="self was 3 bytes but src was 2 bytes"):
        target.copy_(UntypedStorage(2))


def test_a_clone_is_independent():
    storage = UntypedStorage([1, 2])
    storage.clone()[0] = 5
    assert storage.tolist() == [1, 2]


def test_a_pickled_storage_keeps_its_bytes():
    storage = UntypedStorage([1, 2, 3])
    assert pickle.loads(pickle.dumps(storage)).tolist() == [1, 2, 3]
    meta = pickle.loads(pickle.dumps(UntypedStorage(7, device=Device("meta"))))
    assert meta.nbytes() == 7 and meta.device.type == "meta"


def test_a_meta_storage_has_a_size_but_no_bytes():
    storage = UntypedStorage(1 << 60, device=Device("meta"))
    assert storage.nbytes() == 1 << 60
    assert storage.data_ptr() == 0
    for use in (storage.tolist, lambda: storage[0], lambda: storage.fill_(0)):
        with pytest.raises(NotImplementedError, match="meta"):
            use()
    storage.resize_(8)
    assert storage.nbytes() == 8 and storage.data_ptr() == 0


# Foreign memory.


def test_a_buffer_is_shared_and_stays_exported():
    data = bytearray(b"hello")
    storage = UntypedStorage.over_buffer(data)
    storage[0] = ord("J")
    assert data == b"Jello"
    with pytest.raises(BufferError):
        data.append(1)
    del storage
    data.append(1)


def test_part_of_a_buffer_can_be_taken():
    storage = UntypedStorage.over_buffer(b"0123456789", count=3, offset=4)
    assert storage.bytes() == b"456"
    with pytest.raises(ValueError, match="has 10"):
        UntypedStorage.over_buffer(b"0123456789", count=7, offset=4)
    with pytest.raises(ValueError, match="has 10"):
        UntypedStorage.over_buffer(b"0123456789", offset=11)


def test_foreign_memory_cannot_be_resized():
    storage = UntypedStorage.over_buffer(bytearray(4))
    assert not storage.resizable()
    with pytest.raises(RuntimeError, match="not resizable"):
        storage.resize_(8)


def test_a_mapped_file_serves_as_memory(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(b"abcdef")
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        storage = UntypedStorage.over_buffer(mapped)
        storage[0] = ord("A")
        del storage
        mapped.flush()
    assert path.read_bytes() == b"Abcdef"


def test_wrapped_memory_lives_as_long_as_the_storage():
    freed = []

    class Owner:
        def __del__(self):
            freed.append(True)

    data = UntypedStorage([5, 6])
    storage = wrap_address(data.data_ptr(), 2, Owner())
    gc.collect()
    assert not freed and storage.tolist() == [5, 6]
    del storage
    assert freed == [True]


# The pool.


def test_a_freed_block_serves_the_next_request_of_its_size():
    storage = UntypedStorage(1000)
    address = storage.data_ptr()
    del storage
    assert UntypedStorage(1001).data_ptr() == address


@given(st.integers(1, 1 << 24))
def test_a_block_is_large_enough_and_not_much_larger(size):
    before = cpu.memory_allocated()
    storage = UntypedStorage(size)
    taken = cpu.memory_allocated() - before
    # A large request may take an idle block of the next size.
    assert size <= taken < size * (1.25 if size < 1 << 20 else 1.6) + 64
    assert storage.nbytes() == size


@pytest.mark.skipif(guarding, reason="guarded blocks are not pooled: none is reserved")
def test_the_statistics_follow_allocations():
    cpu.reset_peak_memory_stats()
    before = cpu.memory_stats()
    kept = UntypedStorage(5 << 20)
    del kept
    after = cpu.memory_stats()
    assert cpu.memory_allocated() == before["allocated_bytes.all.current"]
    assert cpu.max_memory_allocated() >= cpu.memory_allocated() + (5 << 20)
    difference = {name: after[name] - before[name] for name in after}
    assert difference["requested_bytes.all.allocated"] == 5 << 20
    assert difference["requested_bytes.all.freed"] == 5 << 20
    assert difference["allocation.all.allocated"] == 1
    assert difference["allocation.all.current"] == 0
    assert cpu.memory_reserved() >= cpu.memory_allocated()
    assert "reserved_bytes" in cpu.memory_summary()


@pytest.mark.skipif(guarding, reason="guarded blocks are not pooled: none is reserved")
def test_emptying_the_cache_returns_all_idle_blocks():
    keep = UntypedStorage(3 << 20)
    del keep
    cpu.empty_cache()
    stats = cpu.memory_stats()
    assert stats["reserved_bytes.all.current"] == stats["allocated_bytes.all.current"]
    assert stats["segment.all.current"] == stats["allocation.all.current"]


@pytest.mark.parametrize("size", [1 << 46, 1 << 62, (1 << 63) - 1])
def test_an_impossible_request_is_an_error_and_harmless(size):
    before = cpu.memory_allocated()
    with pytest.raises(RuntimeError, match=f"you tried to allocate {size} bytes"):
        UntypedStorage(size)
    assert cpu.memory_allocated() == before
    assert UntypedStorage([1]).tolist() == [1]


@pytest.mark.skipif(guarding, reason="guarded blocks are not pooled: no limit is kept")
def test_the_limit_is_kept_and_named():
    cpu.empty_cache()
    cpu.set_memory_limit(cpu.memory_reserved() + (4 << 20))
    first = UntypedStorage(3 << 20)
    with pytest.raises(RuntimeError, match="can't allocate memory.*") as caught:
        UntypedStorage(3 << 20)
    assert "set_memory_limit" in str(caught.value)
    del first
    assert UntypedStorage(2 << 20).nbytes() == 2 << 20  # the idle block made room


def test_changing_sizes_do_not_pile_up_idle_blocks():
    cpu.empty_cache()
    cpu.reset_peak_memory_stats()
    for size in range(8, 64):
        UntypedStorage(size << 20)
    assert cpu.memory_reserved() < 1.25 * cpu.max_memory_allocated() + (70 << 20)


def test_threads_may_allocate_at_once():
    def work(seed):
        for step in range(2000):
            kept = [UntypedStorage((seed * 31 + step * 7 + i) % 5000) for i in range(3)]
            for i, storage in enumerate(kept):
                storage.fill_(i)
            for i, storage in enumerate(kept):
                assert set(storage.bytes()) <= {i}

    before = cpu.memory_allocated()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cpu.memory_allocated() == before
