"""What ``save`` writes and ``load`` reads, damaged files and hostile ones."""

import io
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import zipfile
from collections import Counter, OrderedDict, defaultdict

import pytest

import rushlight as rl
from rushlight import serialization


def stored(value, **options):
    file = io.BytesIO()
    rl.save(value, file)
    file.seek(0)
    return rl.load(file, **options)


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "model.pt"
    rl.save({"weight": rl.arange(12.0).view(3, 4), "step": 3}, path)
    return path


@pytest.mark.parametrize(
    "value",
    [
        3, 2.5, True, None, "text", b"bytes", 1 << 70, 1 + 2j, [1, [2]], (1, (2, 3)),
        {"a": {1: 2}}, {1, 2}, OrderedDict(a=1), Counter("aab"),
        defaultdict(list, a=[1]),
        rl.float16, rl.Size([2, 3]), rl.device("cpu"), rl.strided, bytearray(b"xy"),
    ],
    ids=repr,
)  # fmt: skip
def test_plain_values_come_back_equal(value):
    back = stored(value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "name", ["float32", "bfloat16", "float16", "int64", "uint8", "bool", "complex64",
             "uint16", "float64"],
)  # fmt: skip
def test_every_type_of_tensor_comes_back(name):
    tensor = rl.ones(2, 3).to(getattr(rl, name))
    back = stored(tensor)
    assert back.dtype is tensor.dtype
    assert back.tolist() == tensor.tolist()


def test_views_come_back_as_views_of_one_storage():
    base = rl.arange(12.0).view(3, 4)
    back = stored({"base": base, "turned": base.t()[1:]})
    assert back["turned"].stride() == (1, 4)
    back["base"][0, 1] = 50
    assert back["turned"][0, 0].item() == 50


def test_parameters_stay_parameters_and_leaves_keep_their_flag():
    back = stored(
        {"p": rl.nn.Parameter(rl.ones(2)), "t": rl.ones(1, requires_grad=True)}
    )
    assert type(back["p"]) is rl.nn.Parameter
    assert back["t"].requires_grad


def test_the_attribute_of_a_state_dict_comes_back():
    state = OrderedDict(weight=rl.ones(1))
    state._metadata = {"version": 1}
    assert stored(state)._metadata == {"version": 1}


def test_empty_and_zero_dimensional_tensors_come_back():
    back = stored([rl.empty(0, 3), rl.tensor(4.0)])
    assert back[0].shape == (0, 3)
    assert back[1].item() == 4.0


def test_meta_tensors_have_sizes_only():
    back = stored(rl.empty(2, 3, device="meta"))
    assert back.device.type == "meta"
    assert back.shape == (2, 3)


def test_map_location_chooses_the_device(checkpoint):
    assert rl.load(checkpoint, map_location="meta")["weight"].device.type == "meta"
    seen = []
    rl.load(checkpoint, map_location=lambda storage, place: seen.append(place))
    assert seen == ["cpu"]
    with pytest.raises(RuntimeError, match=r"map_location=rushlight.device\('cpu'\)"):
        rl.load(checkpoint, map_location="cuda")


def test_a_mapped_file_gives_the_same_values_and_is_not_changed(checkpoint):
    before = checkpoint.read_bytes()
    weight = rl.load(checkpoint, mmap=True)["weight"]
    assert weight.tolist() == rl.load(checkpoint)["weight"].tolist()
    weight.add_(1)
    assert checkpoint.read_bytes() == before


def test_records_are_aligned_in_the_file(checkpoint):
    data = checkpoint.read_bytes()
    with zipfile.ZipFile(checkpoint) as archive:
        for info in archive.infolist():
            name, extra = (
                data[info.header_offset + 26 :][:2],
                data[info.header_offset + 28 :],
            )
            start = info.header_offset + 30 + int.from_bytes(name, "little")
            assert (start + int.from_bytes(extra[:2], "little")) % 64 == 0


def test_python_objects_need_trust(tmp_path):
    path = tmp_path / "object.pt"
    rl.save({"when": random.Random}, path)
    with pytest.raises(
        pickle.UnpicklingError, match="random.Random was not an allowed"
    ):
        rl.load(path)
    assert serialization.get_unsafe_globals_in_checkpoint(path) == ["random.Random"]
    assert rl.load(path, weights_only=False)["when"] is random.Random
    with serialization.safe_globals([random.Random]):
        assert rl.load(path)["when"] is random.Random
    assert serialization.get_safe_globals() == []


class Program:
    """Pickles as a call that leaves a trace."""

    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_a_program_in_a_checkpoint_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rl.save({"x": Program()}, "bad.pt")
    with pytest.raises(pickle.UnpicklingError, match="posix is blocked"):
        rl.load("bad.pt")
    assert not os.path.exists("ran")


def with_program(checkpoint, program):
    """The checkpoint's bytes with another pickled part."""
    file = io.BytesIO()
    with zipfile.ZipFile(checkpoint) as old, zipfile.ZipFile(file, "w") as new:
        for info in old.infolist():
            own = info.filename.endswith("data.pkl")
            new.writestr(info.filename, program if own else old.read(info))
    file.seek(0)
    return file


LISTS = b"]q\x01" + b"0](h\x01h\x01eq\x01" * 40
SETS = b")q\x01" + b"0(h\x01h\x01\x86\x91q\x01" * 60


@pytest.mark.parametrize(
    "program, words",
    [
        (b"\x80\x02c__builtin__\neval\nX\x01\x00\x00\x001\x85R.", "eval was not"),
        (b"\x80\x02c__builtin__\nbytearray\n\x8a\x08\xff\xff\xff\xff\xff\x00\x00\x00\x85R.",
         "bytearray cannot be made"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "truncated"),
        (b"\x80\x02]", "truncated"),
        (b"\x80\x02.", "malformed"),
        (b"\x80\x02(" + b"\x85" * 200 + b"N.", "malformed|nested"),
        (b"\x80\x02)" + b"\x85" * 200 + b".", "nested"),
        (b"\x80\x02)" + b"q\x01h\x01\x86" * 90 + b".", "nested"),
        (b"\x80\x02K\x01K\x02R.", "may not do"),
        (b"\x80\x02K\x01Q.", "unknown persistent id"),
        # Lists in lists twice over, forty deep: to print one would take for ever.
        (b"\x80\x02" + LISTS + b"K\x01\x85R.", "may not do"),
        (b"\x80\x02" + LISTS + b"Q.", "unknown persistent id"),
        (b"\x80\x02ctorch\ndevice\n" + LISTS + b"\x85R.", "a device is"),
        (b"\x80\x02ctorch\nSize\n" + LISTS + b"\x85R.", "no numbers"),
        (b"\x80\x02c__builtin__\nbytearray\n" + LISTS + b"\x85R.", "made of list"),
        (b"\x80\x02ctorch.serialization\n_get_layout\n" + LISTS + b"\x85R.", "text"),
        # Tuples of frozensets: two equal ones take for ever to compare.
        (b"\x80\x04}" + SETS + SETS.replace(b"q\x01", b"q\x02").replace(
            b"h\x01", b"h\x02") + b"s.", "nested"),
        (b"\xff.", "Unsupported operand"),
    ],
    ids=["eval", "allocation", "length", "no end", "empty stack", "no mark", "deep",
         "doubling", "call a number", "persistent id", "call lists", "lists as an id",
         "lists as a device", "lists as a size", "lists as bytes", "lists as a layout",
         "equal sets", "opcode"],
)  # fmt: skip
def test_hostile_programs_are_refused(checkpoint, program, words):
    with pytest.raises(pickle.UnpicklingError, match=words):
        rl.load(with_program(checkpoint, program))


def test_sizes_beyond_the_storage_are_refused(checkpoint):
    with zipfile.ZipFile(checkpoint) as archive:
        program = archive.read("model/data.pkl")
    for old, new in [(b"K\x03K\x04\x86", b"K\x03K\x05\x86"),
                     (b"K\x03K\x04\x86", b"K\x03J\xff\xff\xff\xff\x86")]:  # fmt: skip
        assert old in program
        with pytest.raises(RuntimeError, match="out of bounds|impossible"):
            rl.load(with_program(checkpoint, program.replace(old, new, 1)))


def test_damage_anywhere_gives_an_error_or_the_old_value(checkpoint):
    whole = checkpoint.read_bytes()
    chance = random.Random(0)
    for _ in range(400):
        data = bytearray(whole)
        if chance.random() < 0.5:
            data = data[: chance.randrange(len(data))]
        else:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            value = rl.load(io.BytesIO(bytes(data)))
        except (RuntimeError, pickle.UnpicklingError, EOFError):
            continue
        assert value["weight"].tolist() == rl.arange(12.0).view(3, 4).tolist()


def test_a_truncated_file_is_named_with_the_remedy(checkpoint):
    os.truncate(checkpoint, 300)
    with pytest.raises(RuntimeError, match="failed reading zip archive") as caught:
        rl.load(checkpoint)
    assert str(checkpoint) in str(caught.value)
    assert "300 bytes" in str(caught.value)
    assert "earlier checkpoint" in str(caught.value)


def test_an_empty_file_has_nothing_to_read(tmp_path):
    (tmp_path / "empty.pt").touch()
    with pytest.raises(EOFError, match="empty"):
        rl.load(tmp_path / "empty.pt")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        rl.save({}, tmp_path / "no" / "file.pt")


def test_a_save_that_fails_leaves_the_last_file_and_no_draft(checkpoint):
    before = checkpoint.read_bytes()
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        rl.save({"x": (i for i in [])}, checkpoint)
    assert checkpoint.read_bytes() == before
    assert os.listdir(checkpoint.parent) == ["model.pt"]


def test_a_run_killed_while_it_saves_leaves_a_whole_checkpoint(tmp_path):
    program = textwrap.dedent("""
        import sys
        import rushlight as rl
        step = 0
        while True:
            rl.save({"step": step, "w": rl.full((20_000,), float(step))}, sys.argv[1])
            step += 1
            print(step, flush=True)
    """)
    path = tmp_path / "model.pt"
    for delay in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2 + delay * 5):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.communicate()
        value = rl.load(path)
        assert value["w"].tolist() == [float(value["step"])] * 20_000


def test_pickle_and_deepcopy_keep_values_types_and_shared_storage():
    import copy

    base = rl.arange(6.0).view(2, 3)
    value = {"a": base, "b": base.t(), "p": rl.nn.Parameter(rl.ones(2))}
    back = pickle.loads(pickle.dumps(value))
    assert back["b"].tolist() == base.t().tolist()
    assert type(back["p"]) is rl.nn.Parameter
    assert back["p"].requires_grad
    copied = copy.deepcopy(value)
    copied["a"][0, 1] = 9
    assert copied["b"][1, 0].item() == 9
    assert base[0, 1].item() == 1
