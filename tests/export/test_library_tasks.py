"""Libraries whose programs call LAPACK and draw random numbers, without Python."""

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import aot_compile, export, load_library
from rushlight.export._compile import Loaded
from rushlight.export._steps import NotExportable

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
F, linalg = nn.functional, rl.linalg


class Calls(nn.Module):
    """A function as a module, which has no gradients where it becomes a library."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def square(dtype, *batch, size=5):
    return rl.randn(*batch, size, size, dtype=dtype) + 3 * rl.eye(size, dtype=dtype)


def positive(dtype, *batch, size=5):
    a = rl.randn(*batch, size, size, dtype=dtype)
    return a @ a.mH + size * rl.eye(size, dtype=dtype)


def tall(dtype, *batch):
    return rl.randn(*batch, 9, 4, dtype=dtype)


def rebuilt(a):
    """What does not go by the signs of vectors, which rounding decides."""
    u, s, vh = linalg.svd(a, full_matrices=False)
    return (u * s.to(u.dtype).unsqueeze(-2)) @ vh, s


def turned_back(a):
    values, vectors = linalg.eigh(a)
    return (vectors * values.to(vectors.dtype).unsqueeze(-2)) @ vectors.mH, values


CALLS = {
    "inv": (linalg.inv, [square]),
    "solve": (lambda a: linalg.solve(a, a.mT.contiguous()), [square]),
    "det": (linalg.det, [square]),
    "slogdet": (lambda a: linalg.slogdet(a), [square]),
    "lu": (lambda a: linalg.lu(a), [square]),
    "lu_solve": (lambda a: linalg.lu_solve(*linalg.lu_factor(a), a.mT), [square]),
    "matrix_power": (lambda a: linalg.matrix_power(a, -2), [square]),
    "cholesky": (linalg.cholesky, [positive]),
    "upper": (lambda a: linalg.cholesky(a, upper=True), [positive]),
    "cholesky_solve": (lambda a: rl.cholesky_solve(a, linalg.cholesky(a)), [positive]),
    "cholesky_inverse": (lambda a: rl.cholesky_inverse(linalg.cholesky(a)), [positive]),
    "ldl": (lambda a: linalg.ldl_factor(a)[0], [positive]),
    "triangle": (lambda a: linalg.solve_triangular(a.triu(), a, upper=True), [square]),
    "eigh": (turned_back, [positive]),
    "eigvals": (lambda a: linalg.eigvals(a).abs().sum(-1), [square]),
    "eig": (lambda a: linalg.eig(a)[1].abs().sum(-1), [positive]),
    "svd": (rebuilt, [tall]),
    "svdvals": (linalg.svdvals, [tall]),
    "qr": (lambda a: linalg.qr(a), [tall]),
    "complete": (lambda a: linalg.qr(a, mode="complete"), [tall]),
    "pinv": (linalg.pinv, [tall]),
    "lstsq": (lambda a: linalg.lstsq(a, a[..., :2]).solution, [tall]),
    "matrix_rank": (linalg.matrix_rank, [tall]),
}


@pytest.mark.parametrize("dtype", [rl.float32, rl.complex128])
@pytest.mark.parametrize("name", CALLS)
def test_factorizations_go_on_without_python(name, dtype, tmp_path):
    """Of other matrices than the example's, small ones and one too large for one piece."""
    call, (made,) = CALLS[name]
    module = Calls(call)
    library = aot_compile(module, (made(dtype, 3),), directory=tmp_path, name="it")
    with load_library(library, threads=2) as loaded:
        for _ in range(2):
            given = made(dtype, 3)
            wanted, found = module(given), loaded(given)
            if isinstance(wanted, rl.Tensor):
                wanted, found = (wanted,), (found,)
            for one, other in zip(wanted, found, strict=True):
                rl.testing.assert_close(other, one, rtol=2e-3, atol=2e-3)


def test_large_systems_give_the_bits_of_the_program(tmp_path):
    """LAPACK's routines are called here and there: nothing stands in their place."""
    a = square(rl.float64, size=150)
    library = aot_compile(Calls(linalg.inv), (a,), directory=tmp_path, name="it")
    with load_library(library, threads=3) as loaded:
        other = square(rl.float64, size=150)
        assert rl.equal(loaded(other), linalg.inv(other))


@pytest.mark.parametrize(
    ("call", "operator"),
    [
        (linalg.inv, "linalg.inv"),
        (linalg.cholesky, "linalg.cholesky"),
        (lambda a: linalg.solve(a, a), "linalg.solve"),
        (lambda a: linalg.eig(a)[0], "linalg.eig"),
    ],
)
def test_what_cannot_be_factored_is_an_error_of_the_run(call, operator, tmp_path):
    good = positive(rl.float64, 2)
    library = aot_compile(Calls(call), (good,), directory=tmp_path, name="it")
    bad = good.clone()
    bad[1] = float("nan") if "eig" in operator else 0
    with load_library(library) as loaded:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=f"{operator}.*LAPACK's code is"):
                loaded(bad)
            rl.testing.assert_close(loaded(good), call(good))
    with pytest.raises(RuntimeError):
        call(bad)


def test_a_library_that_has_lost_its_lapack_says_so(tmp_path):
    library = aot_compile(
        Calls(linalg.inv), (square(rl.float32),), directory=tmp_path, name="it"
    )
    (blas,) = tmp_path.glob("*openblas*")
    assert f"{blas.name} beside it" in library.header.read_text()
    blas.unlink()
    line = "import sys; from rushlight.export import *; load_library(sys.argv[1])"
    command = [sys.executable, "-c", line, library.path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert re.search(f"RuntimeError: it: {blas.name}.*not beside the", done.stderr)


DRAWS = {
    "dropout": lambda x: F.dropout(x, 0.3, True),
    "of doubles": lambda x: F.dropout(x.double(), 0.3, True),
    "of bfloat16": lambda x: F.dropout(x.bfloat16(), 0.3, True),
    "of channels": lambda x: F.dropout1d(x[None], 0.3, True),
    "alpha": lambda x: F.alpha_dropout(x, 0.3, True),
    "alpha of channels": lambda x: F.feature_alpha_dropout(x[None], 0.3, True),
    "attention": lambda x: F.scaled_dot_product_attention(
        *[x[None, None]] * 3, dropout_p=0.5
    ),
    "rand": lambda x: rl.rand(7) + x,
    "rand of doubles": lambda x: rl.rand(7, dtype=rl.float64) + x,
    "uniform": lambda x: rl.empty(5, 7).uniform_(-3, 1.7) + x,
    "randn": lambda x: rl.randn_like(x),
    "normal": lambda x: rl.normal(0.5, 2.0, (5, 7)) * x,
    "bernoulli": lambda x: rl.bernoulli(x, 0.4),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_library_goes_on_with_the_stream_and_begins_anew_by_a_seed(name, tmp_path):
    x = rl.randn(5, 7)
    module = Calls(DRAWS[name])
    library = aot_compile(module, (x,), directory=tmp_path, name="it")
    with load_library(library) as loaded:
        for _ in range(100):  # more words than the generator makes at once
            assert rl.equal(loaded(x), module(x))
        for seed in (0, 2**40 + 3):
            loaded.seed(seed)
            rl.manual_seed(seed)
            assert rl.equal(loaded(x), module(x))
        loaded.save(tmp_path / "later.weights")
        with load_library(library, weights=tmp_path / "later.weights") as later:
            assert rl.equal(later(x), module(x))


def test_training_with_dropout_goes_on_without_python(tmp_path):
    model = nn.Sequential(nn.Linear(7, 16), nn.Dropout(0.5), nn.Linear(16, 3))
    update = rl.optim.Adam(model.parameters(), lr=0.01)

    def step(x, target):
        update.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        update.step()
        return loss

    args = rl.randn(8, 7), rl.randint(0, 3, (8,))
    library = aot_compile(step, args, directory=tmp_path, name="step")
    with load_library(library) as loaded:
        for _ in range(4):
            assert loaded(*args).item() == step(*args).item()
    program = export(model.train(), args[:1])
    library = aot_compile(program, directory=tmp_path, name="model")
    with load_library(library) as loaded:
        loaded.seed(3)
        rl.manual_seed(3)
        assert rl.equal(loaded(args[0]), model(args[0]))


def test_what_draws_otherwise_is_refused_with_its_operator(tmp_path):
    own = rl.Generator()
    for call, operator in (
        (lambda x: rl.randperm(9) + x, "randperm"),
        (lambda x: x + rl.rand(9, generator=own), "rand"),
    ):
        with pytest.raises(NotExportable, match=f"aten.{operator}.*random numbers"):
            aot_compile(Calls(call), (rl.ones(9),), directory=tmp_path, name="it")
    library = aot_compile(nn.ReLU(), (rl.ones(9),), directory=tmp_path, name="it")
    with load_library(library) as loaded:
        with pytest.raises(RuntimeError, match="it draws no random numbers"):
            loaded.seed(1)


def entries(header, name):
    """What a header declares: functions and the types of their arguments."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    text = text.partition("_options;")[2]
    for found in re.finditer(rf"{name}_(\w+)\(([^)]*)\);", text):
        args = [one.strip() for one in found[2].replace("\n", " ").split(",")]
        yield found[1], [] if args == ["void"] else args


def test_null_in_any_argument_of_any_function_is_an_error(tmp_path):
    """Every function that the header declares, every pointer, every pointer in a struct."""
    drawing = Calls(lambda x: F.dropout(linalg.inv(x), 0.5, True))
    x, out = rl.eye(3), rl.empty(3, 3)
    library = aot_compile(drawing, (x,), directory=tmp_path, name="it")
    loaded = Loaded(library, "it")
    path = str(tmp_path / "a.weights").encode()
    path = ctypes.create_string_buffer(path)
    found = {
        "it *model": loaded.model, "const it *model": loaded.model, "uint64_t seed": 1,
        "const it_tensor *inputs": loaded._arrays([x]), "int n_inputs": 1,
        "const it_tensor *outputs": loaded._arrays([out]), "int n_outputs": 1,
        "int number": 0, "int bucket": 0, "const it_options *options": None,
    }  # fmt: skip
    known = dict(entries(library.header.read_text(), "it"))
    assert len(known) == 14
    allowed = {("create", "options"), ("free", "model"), ("last_error", "model")}
    tried = 0
    for function, arguments in known.items():
        own = str(library.weights).encode() if function == "create" else path.value
        good = [own if one.endswith("*weights") else found[one] for one in arguments]
        pointers = [at for at, one in enumerate(arguments) if "*" in one]
        for at in pointers:
            name = arguments[at].rpartition("*")[2]
            given = [*good]
            given[at] = None
            kind = (
                ctypes.c_void_p
                if function in ("create", "last_error")
                else ctypes.c_int
            )
            call = loaded._function(function, kind)
            given = [
                ctypes.c_void_p(one) if arguments[k].endswith("*model") else one
                for k, one in enumerate(given)
            ]
            result = call(*given)
            tried += 1
            if (function, name) in allowed:
                continue
            failed = not result if function == "create" else result  # bucket: -1
            assert failed, (function, name)
            assert "NULL" in _said(loaded, function, name), (function, name)
    assert tried == 11
    for arrays in ("inputs", "outputs"):
        for field in ("data", "type", "sizes"):
            given = {"inputs": loaded._arrays([x]), "outputs": loaded._arrays([out])}
            setattr(given[arrays][0], field, None)
            call = loaded._function("run")
            model = ctypes.c_void_p(loaded.model)
            assert call(model, given["inputs"], 1, given["outputs"], 1), field
    loaded.run([x], [out])
    loaded.close()


def _said(loaded, function, name):
    of_none = function in ("create", "bucket") or name == "model"
    model = None if of_none else loaded.model
    said = loaded._function("last_error", ctypes.c_char_p)(ctypes.c_void_p(model))
    return said.decode()


PROGRAM = """
#include <stdio.h>
#include "it.h"
int main(void) {
  float x[9] = {2, 0, 1, 0, 3, 0, 1, 0, 2}, y[2][9];
  it *model = it_create("it.weights", &(it_options){.threads = 3});
  if (!model) return puts(it_last_error(NULL)), 2;
  it_tensor in = *it_input(0), out = *it_output(0);
  in.data = x;
  for (int k = 0; k < 2; k++) {
    out.data = y[k];
    if (it_seed(model, 7)) return 3;
    for (int i = 0; i < 200; i++)
      if (it_run(model, &in, 1, &out, 1)) return puts(it_last_error(model)), 4;
  }
  for (int i = 0; i < 9; i++) if (y[0][i] != y[1][i]) return 5;
  if (it_save(model, "it.weights")) return 6;
  x[0] = x[2] = 0;
  if (!it_run(model, &in, 1, &out, 1)) return 7;
  puts(it_last_error(model));
  return it_free(model), 0;
}
"""


def test_sanitizers_find_nothing_in_what_a_library_runs(tmp_path):
    drawing = Calls(lambda x: F.dropout(linalg.inv(x), 0.5, True))
    aot_compile(drawing, (rl.eye(3),), directory=tmp_path, name="it")
    (tmp_path / "main.c").write_text(PROGRAM)
    command = [
        COMPILER, "-std=gnu11", "-g", "-fsanitize=address,undefined", "-Wall", "-Werror",
        "-fno-sanitize-recover=all", "-o", "run", "main.c", "it.c", "-lm", "-ldl", "-pthread",
    ]  # fmt: skip
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    if "cannot find" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert not built.returncode, built.stderr
    done = subprocess.run(["./run"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "linalg.inv: matrix 0 is singular" in done.stdout
    assert not done.stderr
