"""The kernel cache: found warm, rebuilt when damaged, shared between processes."""

import array
import os
import subprocess
import sys
import threading

import pytest

from rushlight.runtime.cpu import code_cache
from rushlight.runtime.cpu.launch import launch
from tests.runtime.cpu.kernels import ADD_INDEX, object_file

FILL = """
import os, sys
from rushlight.runtime.cpu import code_cache
from tests.runtime.cpu.kernels import ADD_INDEX, object_file
for number in range({count}):
    name = f"k{{number}}"
    code_cache.load_or_build(
        ("tests", name), name, lambda: object_file(ADD_INDEX.format(name=name)))
print(code_cache.counts["built"], code_cache.counts["loaded"], code_cache.counts["refused"],
      "llvmlite" in sys.modules)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache directory of the test's own."""
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    for function in (code_cache.directory, code_cache._known_sources):
        function.cache_clear()
    code_cache.forget()
    monkeypatch.setattr(code_cache, "counts", dict.fromkeys(code_cache.counts, 0))
    yield tmp_path
    monkeypatch.undo()
    for function in (code_cache.directory, code_cache._known_sources):
        function.cache_clear()
    code_cache.forget()


def find(name="k0"):
    return code_cache.load_or_build(
        ("tests", name), name, lambda: object_file(ADD_INDEX.format(name=name))
    )


def works(kernel):
    out = array.array("q", [0] * 50)
    launch(kernel, (out.buffer_info()[0],), (), 50, 100)
    return out.tolist() == list(range(50))


def entries(folder):
    return sorted(path for path in folder.iterdir() if path.suffix == code_cache.SUFFIX)


def in_another_process(folder, count):
    changes = {"RUSHLIGHT_CACHE": str(folder), "PYTHONPATH": os.getcwd()}
    return subprocess.Popen(
        [sys.executable, "-c", FILL.format(count=count)],
        env={**os.environ, **changes}, stdout=subprocess.PIPE, text=True)  # fmt: skip


def test_a_kernel_is_built_once_and_then_found(folder):
    assert works(find()) and code_cache.counts["built"] == 1
    assert find() is find()
    code_cache.forget()
    assert works(find())
    assert code_cache.counts == {"built": 1, "loaded": 1, "refused": 0}


def test_a_warm_process_never_imports_llvmlite(folder):
    for expected in ("3 0 0 True", "0 3 0 False"):
        process = in_another_process(folder, 3)
        assert process.communicate()[0].strip() == expected


def test_two_processes_may_fill_the_cache_at_once(folder):
    processes = [in_another_process(folder, 8) for _ in range(2)]
    for process in processes:
        built, loaded, refused, _ = process.communicate()[0].split()
        assert (int(built) + int(loaded), refused) == (8, "0")
    assert len(entries(folder)) == 8
    assert not [path for path in folder.iterdir() if path.name.endswith(".new")]
    assert works(find("k7")) and code_cache.counts["loaded"] == 1


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "noise", "swap"])
def test_a_damaged_entry_is_rebuilt_not_run(folder, damage):
    find("k0"), find("k1")
    first, second = entries(folder)
    data = bytearray(first.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 0x40
    elif damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "empty":
        data.clear()
    elif damage == "noise":
        data[:] = os.urandom(len(data))
    else:
        data = second.read_bytes()
    first.write_bytes(data)
    code_cache.forget()
    assert works(find("k0")) and works(find("k1"))
    assert code_cache.counts == {"built": 3, "loaded": 1, "refused": 1}
    code_cache.forget()
    assert works(find("k0")) and works(find("k1")) and code_cache.counts["loaded"] == 3


def test_the_pack_holds_all_entries_in_one_file(folder):
    for number in range(5):
        find(f"k{number}")
    assert code_cache.merge() == 5
    assert entries(folder) == [] and (folder / "pack").exists()
    assert all(works(find(f"k{number}")) for number in range(5))
    code_cache.forget()
    assert all(works(find(f"k{number}")) for number in range(6))
    assert code_cache.counts["loaded"] == 5
    assert code_cache.merge() == 6


@pytest.mark.parametrize("place", [0, 10, 40, -20])
def test_a_damaged_pack_is_ignored_where_it_is_damaged(folder, place):
    for number in range(3):
        find(f"k{number}")
    code_cache.merge()
    data = bytearray((folder / "pack").read_bytes())
    data[place] ^= 1
    (folder / "pack").write_bytes(data)
    code_cache.forget()
    assert all(works(find(f"k{number}")) for number in range(3))
    assert code_cache.counts["refused"] >= 1
    assert code_cache.merge() == 3


def test_a_cut_pack_is_ignored(folder):
    find()
    code_cache.merge()
    path = folder / "pack"
    for kept in (0, 5, 40, path.stat().st_size - 3):
        path.write_bytes(path.read_bytes()[:kept])
        code_cache.forget()
        assert works(find())


def test_clearing_deletes_entries_and_nothing_else(folder):
    (folder / "notes").write_text("mine")
    find()
    code_cache.merge()
    find("k1")
    assert code_cache.clear() >= 2
    assert [path.name for path in folder.iterdir()] == ["notes"]


def test_a_directory_that_refuses_is_no_obstacle(folder, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE", "/proc/no/such/place")
    code_cache.directory.cache_clear()
    code_cache._known_sources.cache_clear()
    assert code_cache.directory() is None
    assert works(find()) and code_cache.counts["built"] == 1
    assert code_cache.merge() == 0


def test_a_directory_that_others_may_write_is_not_used(tmp_path, monkeypatch):
    monkeypatch.delenv("RUSHLIGHT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code_cache.directory.cache_clear()
    place = code_cache.directory()
    assert place.startswith(str(tmp_path))
    os.chmod(place, 0o777)
    code_cache.directory.cache_clear()
    assert code_cache.directory() is None
    code_cache.directory.cache_clear()


def test_a_chosen_directory_that_others_may_write_is_refused_aloud(folder):
    os.chmod(folder, 0o777)
    code_cache.directory.cache_clear()
    with pytest.warns(RuntimeWarning, match="(?s)other users may write.*go-w"):
        assert code_cache.directory() is None
    assert works(find()) and entries(folder) == []
    os.chmod(folder, 0o755)


def test_entries_are_writable_by_their_owner_alone(folder):
    before = os.umask(0)
    try:
        find()
    finally:
        os.umask(before)
    assert entries(folder)[0].stat().st_mode & 0o777 == 0o600


def test_a_damaged_entry_of_the_pack_is_replaced_in_it(folder):
    for number in range(3):
        find(f"k{number}")
    code_cache.merge()
    data = bytearray((folder / "pack").read_bytes())
    data[-20] ^= 1
    (folder / "pack").write_bytes(data)
    for refused in (1, 0):
        code_cache.forget()
        code_cache.counts.update(built=0, loaded=0, refused=0)
        assert all(works(find(f"k{number}")) for number in range(3))
        assert code_cache.counts == {
            "built": refused,
            "loaded": 3 - refused,
            "refused": refused,
        }
    assert entries(folder) == []


def constant_kernel(name, value):
    """A function that writes one number."""
    from rushlight.ir import expr as ir
    from rushlight.ir.builder import Builder

    b = Builder()
    b.store(ir.argument(0, ir.i64), 0, ir.Const(ir.i64, value))
    return ir.kernel(name, b.statements)


def written(kernel):
    out = array.array("q", [0])
    launch(kernel, (out.buffer_info()[0],), (), 1, 1)
    return out[0]


def test_a_note_leads_to_a_kernel_without_lowering_it(folder):
    def lower():
        return constant_kernel("noted", 5)

    def never():
        raise AssertionError("lowered again")

    assert written(code_cache.native("noted", "as told", lower)) == 5
    for packed in (False, True):
        code_cache.forget()
        assert written(code_cache.native("noted", "as told", never)) == 5
        assert not packed and code_cache.merge() == 1 or packed


@pytest.mark.parametrize("damage", ["flip", "cut", "swap"])
def test_a_damaged_note_is_written_anew(folder, damage):
    for value in (1, 2):
        code_cache.native(
            f"n{value}", "told", lambda v=value: constant_kernel(f"n{v}", v)
        )
    first, second = sorted(folder.glob("*" + code_cache.NOTE_SUFFIX))
    data = bytearray(first.read_bytes())
    if damage == "flip":
        data[30] ^= 1
    first.write_bytes(
        {"flip": data, "cut": data[:-1], "swap": second.read_bytes()}[damage]
    )
    for _ in range(2):
        code_cache.forget()
        for value in (1, 2):
            make = lambda v=value: constant_kernel(f"n{v}", v)  # noqa: E731
            assert written(code_cache.native(f"n{value}", "told", make)) == value
    assert code_cache.counts["built"] == 2


def test_kernels_are_known_by_what_they_compute(folder):
    for told in ("this way", "that way"):
        assert (
            written(code_cache.native("same", told, lambda: constant_kernel("same", 3)))
            == 3
        )
    assert code_cache.counts["built"] == 1
    other = code_cache.native("same", "a third way", lambda: constant_kernel("same", 4))
    assert written(other) == 4


def test_the_key_follows_the_source(folder, tmp_path):
    source = tmp_path / "kernel.py"
    source.write_text("x = 1\n")
    first = code_cache.source_digest(str(source))
    assert code_cache.source_digest(str(source)) == first
    source.write_text("x = 22\n")
    assert code_cache.source_digest(str(source)) != first


def test_remembered_digests_survive_and_damage_to_them_does_not_matter(folder):
    digest = code_cache.compiler_digest.__wrapped__()
    notes = folder / "sources"
    assert notes.exists()
    for damaged in (notes.read_bytes()[:-1], b"", b"\0" * 50):
        notes.write_bytes(damaged)
        code_cache._known_sources.cache_clear()
        assert code_cache.compiler_digest.__wrapped__() == digest


def test_different_specialisations_have_different_keys():
    keys = {
        code_cache.key_digest(key, entry)
        for key in (("a", "float32"), ("a", "float64"), ("b", "float32"))
        for entry in ("k", "l")
    }
    assert len(keys) == 6


def test_a_text_is_compiled_again_where_llvm_is_asked_for_other_code(monkeypatch):
    text = "define void @f() { ret void }"
    before = code_cache.text_digest(text)
    assert before == code_cache.text_digest(text)
    monkeypatch.setattr(code_cache, "toolchain_digest", lambda: "another")
    assert code_cache.text_digest(text) != before


def test_the_command_line_packs_lists_and_clears(folder, capsys):
    find()
    assert code_cache.main(["pack"]) == 0
    assert code_cache.main(["list"]) == 0
    assert code_cache.main(["clear"]) == 0
    assert code_cache.main([]) == 2
    text = capsys.readouterr().out
    assert "1 kernels in" in text and "1 packed, 0 single" in text and "usage" in text


def test_threads_that_build_a_kernel_at_once_have_one(folder):
    """Plans keep addresses: machine code that any of them may have has to stay."""
    both = threading.Barrier(2)
    text = "define i32 @twice(ptr %d, ptr %i, i64 %b, i64 %e) {{\n  ret i32 {}\n}}\n"
    text = text.format(int.from_bytes(os.urandom(3), "little"))
    asked = code_cache.text_digest(text)
    found = []

    class Slow(dict):
        """Waits, where a key is missed, until both threads have missed it."""

        def get(self, key, default=None):
            known = super().get(key, default)
            if key == asked and known is None:
                both.wait(timeout=60)
            return known

    kernels, code_cache._kernels = code_cache._kernels, Slow(code_cache._kernels)
    try:
        threads = [
            threading.Thread(
                target=lambda: found.append(code_cache.native_text("twice", text))
            )
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        kernels.update(code_cache._kernels)
        code_cache._kernels = kernels
    assert len(found) == 2 and found[0] is found[1]
