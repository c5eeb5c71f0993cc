"""Which records of an archive are read, what damage does, and what a save leaves."""

import io
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import time
import warnings
import zipfile

import pytest

import rushlight as rl
from rushlight.io import serialization

ALLOWED = (RuntimeError, EOFError, pickle.UnpicklingError)


def program(value):
    """The pickled part of a checkpoint."""
    file = io.BytesIO()
    rl.save(value, file)
    return zipfile.ZipFile(file).read("archive/data.pkl")


def archive(*records):
    """A zip file of these records, in this order."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # two records of one name
        with zipfile.ZipFile(file, "w") as made:
            for name, data in records:
                made.writestr(name, data)
    return file.getvalue()


VERSION = ("a/version", b"3\n")
P = [("a/data.pkl", program(i)) for i in range(4)]
CASES = {
    "two of a name": [P[0], P[1], VERSION],
    "three of a name": [P[0], P[1], P[2], VERSION],
    "four of a name": [*P, VERSION],
    "two of a name, apart": [P[0], VERSION, P[1]],
    "three of a name, apart": [P[0], VERSION, P[1], ("a/zzz", b""), P[2]],
    "two of a name, among many": [("a/b", b""), P[0], VERSION, ("a/0", b""), P[1]],
    "deeper": [("a/x/data.pkl", P[0][1]), VERSION, P[1]],
    "only deeper": [("a/x/data.pkl", P[0][1]), VERSION],
    "capitals": [("a/DATA.PKL", P[0][1]), VERSION],
    "capitals first": [("a/DATA.PKL", P[0][1]), P[1], VERSION],
    "capitals last": [P[1], ("a/DATA.PKL", P[0][1]), VERSION],
    "two folders": [P[0], VERSION, ("b/data.pkl", P[1][1])],
    "no version": [P[0]],
    "no folder": [("data.pkl", P[0][1]), ("version", b"3\n")],
    "a stranger first": [("z/x", b""), P[0], VERSION],
    "a file first": [("x", b""), P[0], VERSION],
    "a program": [("a/constants.pkl", b""), P[0], VERSION],
    "too new": [P[0], ("a/version", b"99\n")],
    "too old": [P[0], ("a/version", b"0\n")],
    "nothing": [],
}


@pytest.mark.parametrize("case", CASES)
def test_the_record_is_read_that_pytorch_reads(case):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    data = archive(*CASES[case])

    def answer(library):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return library.load(io.BytesIO(data), weights_only=True)
            except (RuntimeError, pickle.UnpicklingError):
                return "refused"

    assert answer(rl) == answer(torch)


def test_a_damaged_program_ends_in_an_error_or_a_value():
    state = {"a": rl.ones(3), "b": [rl.zeros(2, 2).t()], "c": (1 << 70, 2.5, "text")}
    file = io.BytesIO()
    rl.save(state, file)
    records = {
        info.filename: zipfile.ZipFile(file).read(info)
        for info in zipfile.ZipFile(file).infolist()
    }
    text = records["archive/data.pkl"]
    chance = random.Random(3)
    for _ in range(2000):
        damaged = bytearray(text)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(text))] = chance.randrange(256)
        records["archive/data.pkl"] = bytes(damaged)
        try:
            rl.load(io.BytesIO(archive(*records.items())))
        except ALLOWED:
            continue


def test_an_archive_cut_anywhere_is_refused():
    file = io.BytesIO()
    rl.save({"a": rl.ones(40)}, file)
    data = file.getvalue()
    for end in [*range(1, len(data), 7), len(data) - 1]:
        with pytest.raises(ALLOWED):
            rl.load(io.BytesIO(data[:end]))


def run(code, *arguments):
    """A program of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_full_disk_ends_in_one_error_and_no_afterword():
    if not os.path.exists("/dev/full"):
        pytest.skip("no device that is always full")
    done = run(
        """
        import rushlight as rl
        try:
            rl.save({"x": rl.ones(100000)}, "/dev/full")
        except OSError as error:
            print("refused", error.errno)
        """
    )
    assert done.stdout.split()[:1] == ["refused"]
    assert done.stderr == ""


def test_a_disk_that_fills_up_leaves_the_last_file_and_no_draft(tmp_path):
    path = tmp_path / "model.pt"
    rl.save({"x": 1}, path)
    done = run(
        """
        import resource, signal, sys
        import rushlight as rl
        values = rl.ones(100000)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
        try:
            rl.save({"x": values}, sys.argv[1])
        except OSError:
            print("refused")
        """,
        path,
    )
    assert done.stdout.split() == ["refused"]
    assert done.stderr == ""
    assert rl.load(path) == {"x": 1}
    assert os.listdir(tmp_path) == ["model.pt"]


def test_the_next_save_removes_the_draft_of_a_killed_one(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    code = """
        import os, signal, sys
        import rushlight as rl
        from rushlight.io import serialization
        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)
        serialization.Writer.close = die
        rl.save({"x": rl.ones(10)}, sys.argv[1])
        """
    assert run(code, path).returncode == -signal.SIGKILL
    (draft,) = os.listdir(tmp_path)
    rl.save({"x": 1}, path)  # too early: it could belong to a save that begins
    assert draft in os.listdir(tmp_path)
    monkeypatch.setattr(serialization.time, "time", lambda: time.time_ns() / 1e9 + 60)
    rl.save({"x": 2}, path)
    assert os.listdir(tmp_path) == ["model.pt"]
    assert rl.load(path) == {"x": 2}


def test_the_draft_of_a_save_that_runs_is_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    monkeypatch.setattr(serialization, "PATIENCE", -1)
    with serialization.replacing(path) as file:
        file.write(b"first")
        with serialization.replacing(path) as other:
            other.write(b"second")
    assert path.read_bytes() == b"first"
