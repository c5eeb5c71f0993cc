"""Object files become flat images that run anywhere in memory."""

import array
import dataclasses
import math
import resource
import struct
from pathlib import Path

import pytest

from rushlight.runtime.cpu.image import HEADER, Image, ImageError, pack
from rushlight.runtime.cpu.launch import launch
from rushlight.runtime.cpu.link import LinkError, link
from tests.runtime.cpu.kernels import ADD_INDEX, USES_LIBRARY, object_file

KEY = bytes(range(16))


def loaded(text, name="kernel"):
    flat = link(object_file(text.format(name=name)))
    return Image(pack(flat, KEY), KEY).kernel(name)


def test_constants_tables_and_library_functions_are_found():
    out = array.array("d", [0.0])
    kernel = loaded(USES_LIBRARY)
    launch(kernel, (out.buffer_info()[0],), (), 1, 1)
    assert out[0] == math.sin(0.5)


def test_the_same_image_may_be_mapped_twice():
    out = array.array("q", [5, 5, 5])
    for kernel in (loaded(ADD_INDEX), loaded(ADD_INDEX)):
        launch(kernel, (out.buffer_info()[0],), (), 3, 8)
    assert out.tolist() == [5, 7, 9]


def test_a_kernel_keeps_its_memory_alive():
    out = array.array("q", [0] * 100)
    kernels = [loaded(ADD_INDEX) for _ in range(20)]
    for kernel in kernels:
        launch(kernel, (out.buffer_info()[0],), (), 100, 1000)
    assert out.tolist() == [20 * i for i in range(100)]


def test_code_is_never_writable_and_executable():
    kernel = loaded(ADD_INDEX)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            bounds, rights = line.split()[:2]
            first, end = (int(part, 16) for part in bounds.split("-"))
            if first <= kernel.address < end:
                assert rights == "r-xp"
                return
    raise AssertionError("the kernel is not mapped")


def test_writable_data_is_refused():
    text = ADD_INDEX.format(name="kernel") + "@counter = global i64 5\n"
    with pytest.raises(LinkError, match="writable data"):
        link(object_file(text))


def test_an_unknown_function_is_refused_when_loaded():
    text = USES_LIBRARY.replace("@fmod", "@no_such_function_anywhere")
    with pytest.raises(ImageError, match="no_such_function_anywhere"):
        loaded(text)


def test_an_unknown_entry_names_those_there_are():
    image = Image(pack(link(object_file(ADD_INDEX.format(name="kernel"))), KEY), KEY)
    with pytest.raises(ImageError, match=r"no function 'other', only \['kernel'\]"):
        image.kernel("other")


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"MZ" + bytes(200)])
def test_what_is_no_object_file_is_refused(data):
    with pytest.raises(LinkError, match="not a 64-bit little-endian ELF"):
        link(data)


def test_objects_for_aarch64_link_too():
    flat = link(object_file(USES_LIBRARY.format(name="kernel"), "aarch64-linux-gnu"))
    assert {name for _, _, name in flat.external} == {"fmod", "sin"}
    start = flat.symbols["kernel"]
    words = struct.unpack_from("<16I", flat.code, start)
    assert any(word >> 26 == 0b100101 for word in words)  # bl, to the stub of fmod
    stubs = struct.pack("<I", 0xD61F0200)  # br x16
    assert flat.code.count(stubs) == 1


@pytest.mark.parametrize("place", [0, 9, 30, HEADER.size, HEADER.size + 40, -1])
def test_one_changed_byte_is_noticed(place):
    packed = bytearray(pack(link(object_file(ADD_INDEX.format(name="kernel"))), KEY))
    packed[place] ^= 1
    with pytest.raises(ImageError):
        Image(bytes(packed), KEY)


@pytest.mark.parametrize("kept", [0, 10, HEADER.size, HEADER.size + 20])
def test_a_cut_image_is_noticed(kept):
    packed = pack(link(object_file(ADD_INDEX.format(name="kernel"))), KEY)
    with pytest.raises(ImageError):
        Image(packed[:kept], KEY)


def test_no_memory_for_code_is_a_memory_error():
    flat = link(object_file(ADD_INDEX.format(name="kernel")))
    flat = dataclasses.replace(flat, code=flat.code + bytes(1 << 26))
    packed = pack(flat, KEY)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (96 << 20), before[1]))
    try:
        with pytest.raises(MemoryError, match="no memory for"):
            Image(packed, KEY)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_an_image_made_under_another_key_is_foreign():
    packed = pack(link(object_file(ADD_INDEX.format(name="kernel"))), KEY)
    with pytest.raises(ImageError, match="foreign"):
        Image(packed, bytes(16))
