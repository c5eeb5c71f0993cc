"""Kernels that come with the package, and the limit of the cache's directory."""

import os

import numpy as np
import pytest

from rushlight.codegen.lower import lower
from rushlight.codegen.target import LEVELS, current, described, level_of, named
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.runtime.cpu import code_cache, warm
from rushlight.runtime.cpu.launch import launch

NAME = "shipped_sum"


def doubled():
    """A kernel that stores twice each element."""
    b = Builder()
    out, source = (b.let(f"p{k}", ir.argument(k, ir.f32)) for k in range(2))
    with b.loop("i", ir.BEGIN, ir.END, kind="vectorized") as i:
        b.store(out, i, ir.load(source, i) * 2.0)
    return lower(ir.kernel(NAME, b.statements))


def results(kernel):
    x, out = np.arange(37, dtype=np.float32), np.zeros(37, np.float32)
    launch(kernel, [out.ctypes.data, x.ctypes.data], [], 37, 37)
    return out.tolist()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache directory, and beside it a place for packs."""
    place = tmp_path / "cache"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(place))
    monkeypatch.setattr(code_cache, "PACKS", str(tmp_path / "packs"))
    for function in (code_cache.directory, code_cache._known_sources):
        function.cache_clear()
    code_cache.forget()
    monkeypatch.setattr(code_cache, "counts", dict.fromkeys(code_cache.counts, 0))
    yield place
    monkeypatch.undo()
    for function in (code_cache.directory, code_cache._known_sources):
        function.cache_clear()
    code_cache.forget()


@pytest.fixture
def pack(folder):
    """The file of a pack with one kernel, for this processor's level."""
    level = level_of(current())
    if level is None:
        pytest.skip("no pack is made for processors of this kind")
    path = os.path.join(code_cache.PACKS, f"{level.name}.pack")
    assert code_cache.ship({NAME: ("digest", doubled)}, level, path) > 100
    return path


def refused():
    raise AssertionError("the kernel was compiled")


def test_a_shipped_kernel_is_run_and_not_compiled(folder, pack):
    kernel = code_cache.native(NAME, "digest", refused)
    assert results(kernel) == [2.0 * n for n in range(37)]
    assert code_cache.counts == {"built": 0, "loaded": 1, "refused": 0}
    assert not any(path.suffix == code_cache.SUFFIX for path in folder.iterdir())


def test_a_kernel_that_has_changed_is_compiled(folder, pack):
    assert code_cache.native(NAME, "another digest", doubled)
    assert code_cache.counts["built"] == 1


def test_a_damaged_pack_is_not_run(folder, pack):
    with open(pack, "r+b") as file:
        file.seek(-400, os.SEEK_END)
        file.write(bytes(200))
    kernel = code_cache.native(NAME, "digest", doubled)
    assert results(kernel) == [2.0 * n for n in range(37)]
    assert code_cache.counts["built"] == 1


def test_a_pack_for_another_level_is_not_looked_at(folder, pack):
    os.rename(pack, os.path.join(code_cache.PACKS, "pentium.pack"))
    assert code_cache.native(NAME, "digest", doubled)
    assert code_cache.counts["built"] == 1


def test_the_kernels_that_exercises_ask_for_are_shipped():
    import rushlight

    asked = warm.kernels_of([lambda: rushlight.rand(5).cosh() - 0.5])
    for digest, make in asked.values():
        assert digest
        assert make().parameters == ir.KERNEL_PARAMETERS


def test_levels_are_of_themselves_and_processors_of_what_they_have():
    assert [level_of(named(name)).name for name in LEVELS] == list(LEVELS)
    flags = (
        "cx16 lahf_lm popcnt ssse3 sse4_1 sse4_2 avx avx2 bmi1 bmi2 f16c fma abm movbe"
    )
    assert level_of(described("x86_64", flags.split())).name == "x86-64-v3"
    assert level_of(described("x86_64", flags.split()[1:])) is None
    assert level_of(described("aarch64", ["asimd"])).name == "neoverse-n1"


def test_the_oldest_files_go_where_they_are_too_many(folder):
    for age in range(8):
        path = folder / f"{age:032x}{code_cache.SUFFIX}"
        path.write_bytes(bytes(8192))
        os.utime(path, (1000 - age, 1000 - age))
    (folder / "pack").write_bytes(bytes(8192))
    assert code_cache.trim(8 * 8192) == 0
    assert code_cache.trim(8 * 8192 - 1) == 3
    left = {path.name for path in folder.iterdir()}
    assert left == {"pack", *(f"{age:032x}{code_cache.SUFFIX}" for age in range(5))}
