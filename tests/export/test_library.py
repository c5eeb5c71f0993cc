"""Libraries without Python: the same bits, from C, on any number of threads."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.codegen.target import current
from rushlight.export import Dim, aot_compile, export
from rushlight.export._compile import Loaded
from rushlight.export._steps import NotExportable
from rushlight.operators.matmul import matmul_amx
from tests.export.programs import programs

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


def tensors(result):
    leaves = rl.utils._pytree.tree_leaves(result)
    return [one for one in leaves if isinstance(one, rl.Tensor)]


def results_of(library, name, inputs, like, threads=1):
    loaded = Loaded(library, name, threads)
    made = [rl.empty(one.shape, dtype=one.dtype) for one in like]
    try:
        loaded.run([one.contiguous() for one in inputs], made)
    finally:
        loaded.close()
    return made


def same_bits(one, other):
    assert len(one) == len(other)
    for left, right in zip(one, other):
        assert left.dtype is right.dtype
        assert left.shape == right.shape
        assert left.detach().numpy().tobytes() == right.detach().numpy().tobytes()


EXPORTED = ["lenet", "views", "block_eval", "attention", "layers", "encoder", "lstm"]


@pytest.mark.parametrize("name", EXPORTED)
def test_a_library_gives_the_bits_of_its_program(name, tmp_path):
    module, args, kwargs = programs(rl)[name]
    module.eval()
    library = aot_compile(export(module, args, kwargs), directory=tmp_path, name="it")
    other = [
        one + 0.5 * rl.rand_like(one) if one.is_floating_point() else one.flip(0)
        for one in tensors((args, kwargs))
    ]
    with rl.no_grad():
        for inputs in (tensors((args, kwargs)), other):
            wanted = tensors(module(*inputs))
            for threads in (1, 3):
                same_bits(results_of(library, "it", inputs, wanted, threads), wanted)


LIST = rl.tensor([3, 0, 299])


def test_large_kernels_are_divided_among_threads(tmp_path):
    x = rl.randn(300, 1000)
    library = aot_compile(Sums(), (x,), directory=tmp_path, name="sums")
    wanted = tensors(Sums()(x))
    for threads in (1, 2, 5):
        same_bits(results_of(library, "sums", [x], wanted, threads), wanted)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float16])
def test_attention_by_blocks_needs_no_python(dtype, tmp_path):
    q, k, v = (rl.randn(2, 3, 150, 16).to(dtype) for _ in range(3))
    mask = rl.randn(150, 150) > -1
    inputs = q, k, v, mask
    library = aot_compile(Blocks(), inputs, directory=tmp_path, name="blocks")
    wanted = tensors(Blocks()(*inputs))
    for threads in (1, 3):
        same_bits(results_of(library, "blocks", inputs, wanted, threads), wanted)


class Blocks(nn.Module):
    def forward(self, q, k, v, mask):
        attend = nn.functional.scaled_dot_product_attention
        return attend(q, k, v, attn_mask=mask), attend(v, q, k, is_causal=True)


class Sums(nn.Module):
    def forward(self, x):
        many = x.view(20, 15, 10, 100).permute(3, 1, 0, 2).contiguous()
        parts = x.sum(), x.sum(0), x.cumsum(0), x.index_select(0, LIST)
        return ((x @ x.t()).softmax(1), many, (x.t() * 2.5).contiguous(), *parts)


def training(kind, **options):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    update = kind(model.parameters(), **options)

    def step(x, target):
        update.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        update.step()
        return loss

    return step, (rl.randn(5, 4), rl.tensor([0, 1, 2, 0, 1]))


@pytest.mark.parametrize(
    "options", [{}, {"momentum": 0.9, "nesterov": True}, {"foreach": False}]
)
def test_a_training_step_goes_on_without_python(options, tmp_path):
    step, args = training(rl.optim.SGD, lr=0.1, **options)
    library = aot_compile(step, args, directory=tmp_path, name="step")
    loaded = Loaded(library, "step")
    loss = rl.empty(())
    for _ in range(4):
        loaded.run(list(args), [loss])
        assert loss.item() == step(*args).item()
    later = tmp_path / "later.weights"
    assert loaded._function("save")(
        ctypes.c_void_p(loaded.model), str(later).encode()
    ) == 0  # fmt: skip
    loaded.close()
    again = Loaded(library._replace(weights=later), "step")
    again.run(list(args), [loss])
    again.close()
    assert loss.item() == step(*args).item()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"amsgrad": True, "weight_decay": 0.1},
        {"maximize": True, "betas": (0.5, 0.9)},
    ],
)
@pytest.mark.parametrize("kind", [rl.optim.Adam, rl.optim.AdamW])
def test_counted_steps_go_on_without_python(kind, options, tmp_path):
    """The counters are the library's, and what Adam takes from them its kernels'."""
    step, args = training(kind, lr=0.1, **options)
    step(*args)
    library = aot_compile(step, args, directory=tmp_path, name="step")
    loaded = Loaded(library, "step")
    loss, losses = rl.empty(()), []
    for _ in range(8):
        loaded.run(list(args), [loss])
        losses.append(loss.item())
        assert abs(losses[-1] - step(*args).item()) < 2e-5 * abs(losses[-1])
    loaded.close()
    assert len(set(losses)) == 8


@pytest.mark.parametrize("dtype, near", [(rl.float32, 1e-5), (rl.float64, 1e-12)])
def test_counted_steps_of_large_parameters_are_divided(dtype, near, tmp_path):
    p = rl.nn.Parameter(rl.linspace(-1, 1, 3 * 8192 + 5, dtype=dtype))
    update = rl.optim.AdamW([p], lr=0.1)

    def step(x):
        update.zero_grad()
        loss = (p * x).square()
        loss.sum().backward()
        update.step()
        return loss

    x = rl.linspace(2, 3, p.numel(), dtype=dtype)
    step(x)
    loaded = Loaded(aot_compile(step, (x,), directory=tmp_path, name="step"), "step", 2)
    found = rl.empty_like(x)
    for _ in range(5):
        loaded.run([x], [found])
        assert rl.allclose(found, step(x), near, near)
    loaded.close()


def test_what_changes_from_run_to_run_is_refused(tmp_path):
    calls = []

    def counts(x):
        calls.append(x)
        return x * float(len(calls))

    with pytest.raises(NotExportable, match="differs from run to run"):
        aot_compile(counts, (rl.ones(2),), directory=tmp_path)
    kept = [rl.zeros(2)]

    def anew(x):
        kept[0] = kept[0] + x
        return kept[0]

    with pytest.raises(NotExportable, match=r"add\.Tensor.*memory that nobody"):
        aot_compile(anew, (rl.ones(2),), directory=tmp_path)


REFUSED = {
    "random numbers": (lambda x: x + rl.randperm(3), "randperm"),
    "an element": (lambda x: x * x.sum().item(), "_local_scalar_dense"),
    "a number of steps": (rl.linalg.matrix_exp, "linalg_matrix_exp"),
    "decisions": (lambda x: x if (x > 0).any() else -x, "Python reads an element"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_needs_python_is_refused_by_name(case, tmp_path):
    function, named = REFUSED[case]
    with pytest.raises(NotExportable, match=named):
        aot_compile(function, (rl.randn(3, 3),), directory=tmp_path, name="no")


def test_a_bad_index_is_an_error_of_the_run(tmp_path):
    module = nn.Embedding(10, 4)
    index = rl.tensor([1, 2, 3])
    library = aot_compile(module, (index,), directory=tmp_path, name="rows")
    loaded = Loaded(library, "rows")
    out = rl.empty(3, 4)
    with pytest.raises(RuntimeError, match="index 10 is out of range"):
        loaded.run([rl.tensor([1, 10, 3])], [out])
    loaded.run([index], [out])
    loaded.close()
    same_bits([out], [module(index)])


def test_arrays_and_files_that_do_not_fit_are_refused(tmp_path):
    library = aot_compile(
        nn.Linear(2, 1), (rl.ones(3, 2),), directory=tmp_path, name="a"
    )
    loaded = Loaded(library, "a")
    out = rl.empty(3, 1)
    with pytest.raises(
        RuntimeError, match=r"input 0 of a is a float32 array of sizes \(3, 2\)"
    ):
        loaded.run([rl.ones(2, 2)], [out])
    with pytest.raises(RuntimeError, match="float32"):
        loaded.run([rl.ones(3, 2, dtype=rl.float64)], [out])
    with pytest.raises(RuntimeError, match="takes 1 inputs, not 2"):
        loaded.run([rl.ones(3, 2)] * 2, [out])
    loaded.close()
    data = library.weights.read_bytes()
    for bad in (data[:-1], data + b"\0", b"x" + data[1:], b""):
        library.weights.write_bytes(bad)
        with pytest.raises(RuntimeError, match="does not hold the weights"):
            Loaded(library, "a")
    with pytest.raises(ValueError, match="no name of a C function"):
        aot_compile(nn.ReLU(), (rl.ones(1),), directory=tmp_path, name="a b")


def test_open_sizes_are_those_of_the_arguments(tmp_path):
    shapes = ({0: Dim("n")},)
    program = export(nn.Linear(2, 1), (rl.ones(3, 2),), dynamic_shapes=shapes)
    x = rl.randn(7, 2)
    library = aot_compile(program, (x,), directory=tmp_path, name="seven")
    wanted = [program.module()(x).detach()]
    same_bits(results_of(library, "seven", [x], wanted), wanted)


def test_a_program_in_c_runs_the_libraries(tmp_path):
    """The example: LeNet, an encoder and a training step, built by a C compiler alone."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CC": COMPILER}
    subprocess.run(
        [sys.executable, ROOT / "examples/library/build.py", tmp_path],
        check=True, env=environment, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    names = ["lenet", "encoder", "step"]
    subprocess.run(
        [
            COMPILER, "-std=gnu11", "-O2", "-Wall", "-Werror", "-I.", "-o", "run",
            ROOT / "examples/library/main.c", "-L.", *(f"-l{name}" for name in names),
            "-Wl,-rpath,.",
        ],
        check=True, cwd=tmp_path,
    )  # fmt: skip
    done = subprocess.run(
        ["./run"], cwd=tmp_path, env={}, capture_output=True, text=True, check=True
    )
    for name in names:
        assert f"{name}: same bits" in done.stdout
    assert done.stdout.count("refused:") == 4
    needed = subprocess.run(
        ["objdump", "-p", tmp_path / "liblenet.so"], capture_output=True, text=True
    ).stdout
    libraries = {line.split()[1] for line in needed.split("\n") if "NEEDED" in line}
    assert libraries <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


SQUARED = """
#include <stdio.h>
#include "squared.h"
int main(void) {
  static uint16_t x[4096], y[4096];
  squared *model = squared_create("squared.weights", NULL);
  if (!model) return puts(squared_last_error(NULL)), 2;
  for (int i = 0; i < 4096; i++) x[i] = 0x3f80;
  squared_tensor in = *squared_input(0), out = *squared_output(0);
  in.data = x, out.data = y;
  if (squared_run(model, &in, 1, &out, 1)) return puts(squared_last_error(model)), 3;
  for (int i = 0; i < 4096; i++) if (y[i] != 0x4280) return 4;
  return squared_free(model), 0;
}
"""


def test_a_library_asks_for_what_its_kernels_need(tmp_path):
    """A process of its own has no room for tiles until it asks."""
    x = rl.ones(64, 64, dtype=rl.bfloat16)
    aot_compile(lambda x: x @ x, (x,), directory=tmp_path, name="squared")
    (tmp_path / "main.c").write_text(SQUARED)
    subprocess.run(
        [COMPILER, "-O2", "-Wall", "-Werror", "-I.", "-o", "run", "main.c", "-L.",
         "-lsquared", "-Wl,-rpath,."],
        check=True, cwd=tmp_path,
    )  # fmt: skip
    done = subprocess.run(["./run"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    text = (tmp_path / "squared.c").read_text()
    assert ("SYS_arch_prctl" in text) == matmul_amx.has("bf16")
    for name, needed in (("amx-bf16", "bf16"), ("amx-tile", "bf16")):
        assert (f"lacks {name}" in text) == matmul_amx.has(needed)
    asked = current().has("dot_bf16") and not matmul_amx.has("bf16")
    assert ("lacks avx512bf16" in text) == asked
