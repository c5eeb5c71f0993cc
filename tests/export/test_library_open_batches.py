"""A library of a program with an open batch size: each size's bits, one file of weights."""

import subprocess

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import Dim, aot_compile, export, load_library
from tests.export.test_library import COMPILER, same_bits

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


class Words(nn.Module):
    """Steps over positions and an embedding: how many kernels run hangs on the batch."""

    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(20, 16), nn.LSTM(16, 8, batch_first=True)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, words):
        return self.block(self.layer(self.table(words))[0]).softmax(-1)


class Doubled(nn.Module):
    """Two inputs, of which one has twice the rows, and a result of half of them."""

    def forward(self, x, y):
        return (x.repeat(2, 1) * y)[: x.shape[0]], x.reshape(-1), x.sum()


def images():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1),
        nn.BatchNorm2d(8), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    )  # fmt: skip


N = Dim("n", max=40)
CASES = {
    "images": (images, lambda n: (rl.randn(n, 1, 16, 16),), ({0: N},)),
    "words": (Words, lambda n: (rl.randint(0, 20, (n, 5)),), ({0: N},)),
    "doubled": (
        Doubled, lambda n: (rl.randn(n, 3), rl.randn(2 * n, 3)), ({0: N}, {0: 2 * N}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_size_has_the_programs_bits_over_one_file_of_weights(case, tmp_path):
    made, given, shapes = CASES[case]
    module = made().eval().requires_grad_(False)
    alone = aot_compile(module, given(4), directory=tmp_path, name="alone")
    program = export(module, given(4), dynamic_shapes=shapes)
    library = aot_compile(program, directory=tmp_path, name="open")
    with load_library(library) as loaded:
        for n in (*range(1, 41), 7, 1):
            args = given(n)
            wanted, found = module(*args), loaded(*args)
            several = isinstance(wanted, tuple)
            same_bits(found if several else [found], wanted if several else [wanted])
        with pytest.raises(RuntimeError, match=r"input 0 .* sizes \(0 to 40, "):
            loaded(*given(41))
    assert library.weights.stat().st_size == alone.weights.stat().st_size


def test_sizes_of_one_batch_go_together_and_fit_their_results(tmp_path):
    _, given, shapes = CASES["doubled"]
    program = export(Doubled(), given(4), dynamic_shapes=shapes)
    library = aot_compile(program, directory=tmp_path, name="open")
    text = library.header.read_text()
    assert "Buckets 0 to 40:\n   input 0: float32 (0 to 40, 3)\n" in text
    assert "input 1: float32 (0 to 80, 3)\n   output 0: float32 (0 to 40, 3)" in text
    with load_library(library) as loaded:
        with pytest.raises(RuntimeError, match="those of different buckets"):
            loaded(*given(4)[:1], *given(5)[1:])
        (x, y), outputs = given(3), [rl.empty(3, 3), rl.empty(8), rl.empty(())]
        with pytest.raises(RuntimeError, match=r"output 1 of .* float32 .*\(9\)"):
            loaded.run([x, y], outputs)


@pytest.mark.parametrize("most", [None, 300])
def test_a_size_of_too_many_values_is_the_examples(most, tmp_path):
    size = Dim("n", max=most)
    program = export(nn.ReLU(), (rl.ones(3, 2),), dynamic_shapes=({0: size},))
    library = aot_compile(program, directory=tmp_path, name="one")
    with load_library(library) as loaded:
        with pytest.raises(RuntimeError, match=r"sizes \(3, 2\)$"):
            loaded(rl.ones(2, 2))


def test_a_package_takes_each_size(tmp_path):
    module = images().eval()
    size = Dim("n", min=1, max=5)
    program = export(module, (rl.randn(2, 1, 16, 16),), dynamic_shapes=({0: size},))
    path = str(tmp_path / "images.pt2")
    rl._inductor.aoti_compile_and_package(program, package_path=path)
    loaded = rl._inductor.aoti_load_package(path)
    with rl.no_grad():
        for n in (1, 5, 3):
            x = rl.randn(n, 1, 16, 16)
            same_bits([loaded(x)], [module(x)])
    with pytest.raises(RuntimeError, match=r"\(1 to 5, 1, 16, 16\)"):
        loaded(rl.ones(6, 1, 16, 16))


PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "rows.h"
static rows *own;
static void *batches(void *start) {
  rows *model = rows_create("rows.weights", &(rows_options){.threads = 1});
  if (!model) return puts(rows_last_error(NULL)), start;
  for (int64_t k = 0; k < 24; k++) {
    int64_t n = 1 + (k * 5 + *(int *)start) % 12, sizes[2] = {n, 3};
    float *x = malloc(n * 3 * sizeof *x), *y = malloc(n * sizeof *y);
    for (int64_t i = 0; i < 3 * n; i++) x[i] = i;
    rows_tensor in = {x, "float32", 2, sizes};
    int bucket = rows_bucket(&in, 1);
    if (bucket < 0) return puts(rows_last_error(NULL)), start;
    rows_tensor out = *rows_bucket_output(bucket, 0);
    out.data = y;
    if (out.sizes[0] != n || rows_run(model, &in, 1, &out, 1))
      return puts(rows_last_error(model)), start;
    for (int64_t i = 0; i < n; i++)
      if (y[i] != 9 * i + 3) return printf("%d: %g\\n", (int)i, y[i]), start;
    free(x), free(y);
    if (!rows_run(own, &in, 1, &out, 0)) return puts("no error"), start;
  }
  return rows_free(model), NULL;
}
int main(void) {
  pthread_t threads[2];
  int starts[2] = {0, 7}, bad = 0;
  float x[39], y[13];
  rows_tensor in = {x, "float32", 2, (int64_t[]){13, 3}}, out = {y, "float32", 1, in.sizes};
  own = rows_create("rows.weights", NULL);
  if (!own || !rows_run(own, &in, 1, &out, 1) || rows_bucket(&in, 1) != -1) return 1;
  puts(rows_last_error(own));
  puts(rows_last_error(NULL));
  for (int t = 0; t < 2; t++) pthread_create(&threads[t], NULL, batches, &starts[t]);
  for (int t = 0; t < 2; t++) {
    void *result;
    pthread_join(threads[t], &result);
    bad |= result != NULL;
  }
  return rows_free(own), bad;
}
"""


def test_a_program_in_c_gives_batches_on_two_threads(tmp_path):
    """Each thread has its model; what neither may use meanwhile is refused, not mixed up."""
    shapes = ({0: Dim("n", min=1, max=12)},)
    program = export(Summed(), (rl.ones(2, 3),), dynamic_shapes=shapes)
    aot_compile(program, directory=tmp_path, name="rows")
    (tmp_path / "main.c").write_text(PROGRAM)
    subprocess.run(
        [*COMPILER.split(), "-O2", "-Wall", "-Werror", "-I.", "-o", "run", "main.c", "-L.",
         "-lrows", "-Wl,-rpath,.", "-pthread"],
        check=True, cwd=tmp_path,
    )  # fmt: skip
    done = subprocess.run(["./run"], cwd=tmp_path, capture_output=True, text=True)
    refused = "input 0 of rows is a float32 array of sizes (1 to 12, 3)\n"
    assert (done.returncode, done.stdout) == (0, 2 * refused)


class Summed(nn.Module):
    def forward(self, x):
        return x.sum(1)
