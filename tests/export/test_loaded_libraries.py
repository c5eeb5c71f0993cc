"""A library is called from Python, and refuses what it could not do rightly."""

import ctypes
import shutil
import subprocess
import threading

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.codegen.target import current
from rushlight.export import aot_compile, load_library

COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    """A training step as a library, and the parameter that it keeps."""
    rl.manual_seed(0)
    model = nn.Linear(3, 2)
    update = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def learn(x):
        update.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        update.step()
        return loss, x.sum()

    folder = tmp_path_factory.mktemp("library")
    made = aot_compile(learn, (rl.ones(4, 3),), directory=folder, name="learn")
    return made, learn


def test_it_is_a_function_that_goes_on_where_it_was_saved(step, tmp_path):
    made, learn = step
    x = rl.randn(4, 3)
    with load_library(made) as library:
        assert library.inputs == [(rl.float32, (4, 3))]
        assert [shape for _, shape in library.outputs] == [(), ()]
        library.save(tmp_path / "kept")
        found = [library(x)[0].item() for _ in range(3)]
    assert found == [learn(x)[0].item() for _ in range(3)]
    for _ in range(2):
        with load_library(made.path, weights=tmp_path / "kept", threads=2) as library:
            assert [library(x)[0].item() for _ in range(3)] == found
    with pytest.raises(RuntimeError, match="learn is closed"):
        library(x)


def test_arguments_that_do_not_fit_are_refused(step):
    with load_library(step[0].path) as library:
        for wrong in ((), (rl.ones(4, 3),) * 2, (1.0,)):
            with pytest.raises(TypeError, match="learn takes 1 tensors, not "):
                library(*wrong)
        for wrong in (rl.ones(3, 4), rl.ones(4, 3).double()):
            with pytest.raises(RuntimeError, match="a float32 array of sizes"):
                library(wrong)


def test_nothing_in_the_place_of_an_array_or_a_path_is_an_error(step):
    with load_library(step[0]) as library:
        model, run = ctypes.c_void_p(library.model), library._function("run")
        x = library._arrays([rl.ones(4, 3)])
        out = library._arrays([rl.ones(()), rl.ones(())])
        sizes = library._arrays([rl.ones(4, 3)])
        sizes[0].sizes = None
        for args, said in (
            ((None, x, 1, out, 2), "the model is NULL"),
            ((model, None, 1, out, 2), "the inputs are NULL"),
            ((model, x, 1, None, 2), "the outputs are NULL"),
            ((model, sizes, 1, out, 2), "input 0 of learn is a float32 array"),
        ):
            assert run(*args)
            error = library._function("last_error", ctypes.c_char_p)
            assert said in error(args[0]).decode()
        assert library._function("save")(model, None)
        assert "the path of the weights is NULL" in library.error()
        assert not library._function("create", ctypes.c_void_p)(None, None)


def test_changed_weights_are_refused_and_a_file_is_replaced_whole(step, tmp_path):
    data = bytearray(step[0].weights.read_bytes())
    data[-1] ^= 1
    (tmp_path / "changed").write_bytes(data)
    with pytest.raises(RuntimeError, match="have changed since they were written"):
        load_library(step[0], weights=tmp_path / "changed")
    with load_library(step[0]) as library:
        library.save(tmp_path / "changed")
        with pytest.raises(RuntimeError, match="cannot write"):
            library.save(tmp_path / "none" / "kept")
        (tmp_path / "folder").mkdir()
        with pytest.raises(RuntimeError, match="cannot be written"):
            library.save(tmp_path / "folder")
    load_library(step[0], weights=tmp_path / "changed").close()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["changed", "folder"]


def test_names_that_c_or_the_library_has_are_refused(tmp_path):
    for name in ("long", "while", "free", "run", "check", "step_t", "once", "refused"):
        with pytest.raises(ValueError, match=f"has something called '{name}'"):
            aot_compile(nn.ReLU(), (rl.ones(1),), directory=tmp_path, name=name)
    for name in ("model",):
        made = aot_compile(nn.ReLU(), (rl.ones(1),), directory=tmp_path, name=name)
        with load_library(made) as library:
            assert library(-rl.ones(1)).item() == 0


@pytest.mark.skipif(
    not current().triple.startswith("x86_64") or current().vector_bytes < 32,
    reason="this processor cannot run code for x86-64-v3",
)
def test_a_library_may_be_for_an_older_processor(tmp_path):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    program = rl.export.export(model, (rl.randn(5, 8),))
    made = aot_compile(program, directory=tmp_path, name="older", target="x86-64-v3")
    text = made.source.read_text()
    assert '__builtin_cpu_supports("avx2")' in text and "avx512" not in text
    x = rl.randn(5, 8)
    with load_library(made) as library:
        assert rl.allclose(library(x), model(x), 1e-5, 1e-6)
    with pytest.raises(ValueError, match="code for neoverse-n1 cannot be run here"):
        aot_compile(program, directory=tmp_path, target="neoverse-n1")
    with pytest.raises(ValueError, match="x87 is no target; there are "):
        aot_compile(program, directory=tmp_path, target="x87")
    with pytest.raises(ValueError, match="an exported program with its example alone"):
        aot_compile(model, (x,), directory=tmp_path, target="x86-64-v3")


@pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no objdump")
@pytest.mark.parametrize(("level", "bits"), [("v2", 128), ("v3", 256), ("v4", 512)])
def test_code_for_a_level_has_no_registers_of_a_wider_one(level, bits, tmp_path):
    here = current()
    if not here.triple.startswith("x86_64") or here.vector_bytes * 8 < bits:
        pytest.skip("this processor cannot run such code")
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.GELU(), nn.Flatten(), nn.Linear(288, 5)
    )
    program = rl.export.export(model.eval(), (rl.randn(2, 3, 8, 8),))
    aot_compile(program, directory=tmp_path, name="it", target=f"x86-64-{level}")
    command = ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "it.kernels"]
    text = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    found = {name for name in ("xmm", "ymm", "zmm") if f"%{name}" in text}
    assert found == {128: {"xmm"}, 256: {"xmm", "ymm"}}.get(bits, {"xmm", "ymm", "zmm"})


def test_a_library_is_written_to_the_working_directory_by_default(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with load_library(aot_compile(nn.ReLU(), (rl.ones(1),))) as library:
        assert library(-rl.ones(1)).item() == 0


def test_a_second_thread_is_refused_while_the_first_one_runs(tmp_path):
    made = aot_compile(
        lambda x: (x @ x).sum(),
        (rl.ones(700, 700),),
        directory=tmp_path,
        name="product",
    )
    said, x = [], rl.ones(700, 700)
    with load_library(made) as library:

        def call():
            for _ in range(1000):  # until they meet, however busy the machine is
                try:
                    said.append(library(x).item())
                except RuntimeError as error:
                    said.append(str(error))
                if any(isinstance(one, str) for one in said):
                    break

        threads = [threading.Thread(target=call) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert library(x).item() == 700.0**3
    assert {*said} <= {700.0**3, "product: the model runs in another thread"}
    assert any(isinstance(one, str) for one in said)
