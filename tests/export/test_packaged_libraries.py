"""Compiled programs in one file: what they give, and what is refused."""

import io
import threading
import zipfile

import pytest

import rushlight as rl
from rushlight._inductor import aoti_compile_and_package, aoti_load_package
from rushlight.export import export


class Program(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = rl.nn.Linear(3, 2)

    def forward(self, x, scale, *, mask):
        y = self.inner(x) * scale["by"]
        return {"sums": y.sum(1), "kept": [y * mask, mask, 7]}


def given():
    rl.manual_seed(1)
    return (rl.randn(4, 3), {"by": 2.0}), {"mask": rl.rand(4, 2) > 0.5}


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A program, the file that it was compiled to, and the program loaded from it."""
    rl.manual_seed(0)
    program = Program()
    args, kwargs = given()
    path = tmp_path_factory.mktemp("packed") / "program.pt2"
    found = aoti_compile_and_package(export(program, args, kwargs), package_path=path)
    assert found == str(path) and [one.name for one in path.parent.iterdir()] == [
        path.name
    ]
    plain = path.with_name("plain")
    plain.touch()  # others may read the file where they may read any
    assert path.stat().st_mode == plain.stat().st_mode
    return program, path, aoti_load_package(path)


def test_it_gives_what_the_program_gives_nested_alike(packed):
    program, _, loaded = packed
    args, kwargs = given()
    with rl.no_grad():
        wanted, found = program(*args, **kwargs), loaded(*args, **kwargs)
    assert rl.equal(found["sums"], wanted["sums"]) and found["kept"][2] == 7
    assert all(map(rl.equal, found["kept"][:2], wanted["kept"][:2]))
    turned = rl.randn(3, 4).t()
    with rl.no_grad():
        wanted, found = (
            program(turned, *args[1:], **kwargs),
            loaded(turned, *args[1:], **kwargs),
        )
    assert rl.allclose(found["sums"], wanted["sums"])


def test_other_arguments_are_refused(packed):
    _, _, loaded = packed
    (x, scale), kwargs = given()
    wrong = [
        ((x, {"by": 3.0}), kwargs, RuntimeError, "was 2.0"),
        ((x[:2], scale), kwargs, RuntimeError, "input 0"),
        ((x.double(), scale), kwargs, RuntimeError, "input 0"),
        ((1, scale), kwargs, RuntimeError, "tensor"),
        ((x,), kwargs, ValueError, "same number"),
    ]
    for args, named, kind, words in wrong:
        with pytest.raises(kind, match=words):
            loaded(*args, **named)


def test_a_file_that_was_changed_is_refused(packed, tmp_path):
    _, path, _ = packed
    other = tmp_path / "other.pt2"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            data = bytearray(old.read(name))
            if name == "model.weights":
                data[-1] ^= 1
            new.writestr(name, bytes(data))
    with pytest.raises(RuntimeError, match="weights are not those"):
        aoti_load_package(other)
    other.write_bytes(b"PK nothing")
    with pytest.raises(RuntimeError, match="no package"):
        aoti_load_package(other)


def test_two_threads_at_once_are_refused(packed):
    _, _, loaded = packed
    args, kwargs = given()
    inside, go_on = threading.Event(), threading.Event()
    run = loaded.loader.run

    def slowly(*arrays):
        inside.set()
        go_on.wait(10)
        run(*arrays)

    loaded.loader.run = slowly
    try:
        thread = threading.Thread(target=loaded, args=args, kwargs=kwargs)
        thread.start()
        inside.wait(10)
        with pytest.raises(RuntimeError, match="another thread"):
            loaded(*args, **kwargs)
    finally:
        go_on.set()
        thread.join()
        loaded.loader.run = run
    assert loaded(*args, **kwargs)["kept"][2] == 7


def test_what_is_no_program_or_no_path_is_refused(tmp_path):
    program = export(rl.nn.ReLU(), (rl.ones(2),))
    with pytest.raises(ValueError, match="Only ExportedProgram"):
        aoti_compile_and_package(rl.nn.ReLU())
    with pytest.raises(AssertionError, match="ending in .pt2"):
        aoti_compile_and_package(program, package_path=tmp_path / "relu.so")
    file = io.BytesIO()
    assert aoti_compile_and_package(program, package_path=file) is file
    file.seek(0)
    assert aoti_load_package(file)(rl.tensor([-1.0, 2.0])).tolist() == [0, 2]
