"""Pickled programs put together by chance end in a value or in an error, and soon."""

import io
import pickle
import random
import time
import zipfile

import pytest

import rushlight as rl

ALLOWED = (RuntimeError, EOFError, pickle.UnpicklingError, ValueError)
PLACE = (
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
    b"X\x03\x00\x00\x00cpuK\x03tQ"
)
NAMED = [
    f"c{module}\n{name}\n".encode()
    for module, names in {
        "torch": "Size device float32 FloatStorage Tensor",
        "collections": "OrderedDict Counter defaultdict",
        "torch._utils": "_rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_parameter "
        "_rebuild_parameter_with_state _rebuild_meta_tensor_no_storage",
        "torch.nn.parameter": "Parameter",
        "torch.serialization": "_get_layout",
        "_codecs": "encode",
        "__builtin__": "set frozenset complex bytearray list",
    }.items()
    for name in names.split()
]
STEPS = [
    *(bytes([code]) for code in b"(NR}])tlaesu01bQ\x81\x85\x86\x87\x88\x8f\x90\x91\x93\x94"),
    b"K\x01", b"K\x03", b"J\xff\xff\xff\x7f", b"h\x01", b"h\x02", b"q\x01", b"q\x02",
    b"X\x01\x00\x00\x00a", b"X\x06\x00\x00\x00latin1", PLACE, PLACE, PLACE, *NAMED,
]  # fmt: skip


def archive(program, records):
    """The archive with another program."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in records.items():
            made.writestr(name, program if name.endswith("data.pkl") else data)
    return file.getvalue()


@pytest.fixture(scope="module")
def records():
    value = {
        "a": rl.ones(3), "b": [rl.zeros(2, 2).t(), rl.nn.Parameter(rl.ones(2))],
        "c": (1 << 70, 2.5, {1}, frozenset([(1, 2)])), "d": rl.Size([1]), "e": bytearray(b"x"),
    }  # fmt: skip
    file = io.BytesIO()
    rl.save(value, file)
    with zipfile.ZipFile(file) as found:
        return {info.filename: found.read(info) for info in found.infolist()}


@pytest.mark.parametrize("seed", range(3))
def test_programs_of_random_steps_end_soon(records, seed):
    chance = random.Random(seed)
    whole = records["archive/data.pkl"]
    for turn in range(500):
        steps = b"".join(chance.choices(STEPS, k=chance.randint(1, 50)))
        program = b"\x80\x02" + steps + b"."
        if turn % 2:  # a few of them in the midst of a proper one
            at = chance.randrange(2, len(whole))
            program = (
                whole[:at] + steps[:20] + whole[at + chance.choice([0, 0, 1, 5]) :]
            )
        begun = time.process_time()
        try:
            rl.load(io.BytesIO(archive(program, records)))
        except ALLOWED:
            pass
        assert time.process_time() - begun < 2, program
