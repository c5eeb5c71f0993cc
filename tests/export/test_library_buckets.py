"""A library takes several sets of sizes over one file of weights, and one code."""

import subprocess

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.codegen.target import current
from rushlight.export import Dim, aot_compile, export, load_library
from tests.export.test_library import COMPILER, same_bits, training

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


def network():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)
    ).eval()  # fmt: skip


def test_batches_of_each_size_share_one_file_of_weights(tmp_path):
    model = network()
    first, *more = (rl.randn(n, 1, 8, 8) for n in (4, 1, 33))
    alone = aot_compile(model, (first,), directory=tmp_path, name="alone")
    made = aot_compile(
        model, (first,), examples=[(x,) for x in more], directory=tmp_path, name="open"
    )
    assert made.weights.stat().st_size == alone.weights.stat().st_size
    parameters = sum(one.nbytes for one in (*model.parameters(), *model.buffers()))
    assert made.weights.stat().st_size < parameters + 10 * 64  # no activations
    with load_library(made) as library:
        assert [inputs[0][1][0] for inputs, _ in library.buckets] == [4, 1, 33]
        for x in (first, *more, first):
            x = rl.randn_like(x)
            same_bits([library(x)], [model(x).detach()])
        with pytest.raises(
            RuntimeError,
            match=r"a float32 array of sizes \(4, 1, 8, 8\) or \(1, 1, 8, 8\) or \(33, ",
        ):
            library(rl.ones(2, 1, 8, 8))
    assert "Bucket 2:\n   input 0: float32 (33, 1, 8, 8)" in made.header.read_text()


def test_an_exported_program_is_open_where_its_sizes_are(tmp_path):
    shapes = ({0: Dim("n", max=64)},)
    program = export(network(), (rl.randn(2, 1, 8, 8),), dynamic_shapes=shapes)
    others = [(rl.randn(7, 1, 8, 8),)]
    made = aot_compile(program, examples=others, directory=tmp_path, name="open")
    with load_library(made) as library:
        for n in (7, 2):
            x = rl.randn(n, 1, 8, 8)
            same_bits([library(x)], [program.module()(x).detach()])


def test_a_last_batch_trains_what_the_others_do(tmp_path):
    """Parameters and momentum are one, whichever bucket a step is of."""
    step, args = training(rl.optim.SGD, lr=0.1, momentum=0.9)
    last = rl.randn(2, 4), rl.tensor([2, 1])
    made = aot_compile(step, args, examples=[last], directory=tmp_path, name="step")
    with load_library(made) as library:
        for given in (args, last, args, args, last):
            assert library(*given).item() == step(*given).item()
        library.save(tmp_path / "later")
    with load_library(made, weights=tmp_path / "later") as library:
        assert library(*last).item() == step(*last).item()


def maybe(x, y=None):
    return x + 1


def test_examples_that_no_call_could_tell_apart_are_refused(tmp_path):
    x, y = rl.ones(2, 3), rl.ones(4, 3)
    with pytest.raises(ValueError, match="example 2 has the sizes of example 0"):
        aot_compile(nn.ReLU(), (x,), examples=[(y,), (x,)], directory=tmp_path)
    with pytest.raises(ValueError, match="example 1 has 2 tensors"):
        aot_compile(maybe, (x,), examples=[(x, y)], directory=tmp_path)
    assert not list(tmp_path.iterdir())


def test_sizes_of_different_buckets_do_not_go_together(tmp_path):
    small, large = (rl.ones(2), rl.ones(2)), (rl.ones(3), rl.ones(3))
    made = aot_compile(
        lambda x, y: x + y, small, examples=[large], directory=tmp_path, name="pair"
    )
    with load_library(made) as library:
        assert library(*large).tolist() == [2.0] * 3
        with pytest.raises(RuntimeError, match="are those of different buckets"):
            library(small[0], large[1])


@pytest.mark.skipif(
    not current().triple.startswith("x86_64"), reason="v2 is a level of x86-64"
)
def test_another_processors_library_has_all_buckets(tmp_path):
    program = export(nn.Linear(3, 2), (rl.ones(2, 3),), dynamic_shapes=({0: Dim("n")},))
    made = aot_compile(
        program, examples=[(rl.ones(5, 3),)], directory=tmp_path, target="x86-64-v2"
    )
    with load_library(made, name="program") as library:
        assert [inputs[0][1] for inputs, _ in library.buckets] == [(2, 3), (5, 3)]
        x = rl.randn(5, 3)
        assert rl.allclose(library(x), program.module()(x))


ASKED = """
#include <stdio.h>
#include "rows.h"
int main(void) {
  float x[6] = {-1, 2, -3, 4, -5, 6}, y[6];
  rows *model = rows_create("rows.weights", NULL);
  if (!model) return puts(rows_last_error(NULL)), 2;
  for (int b = 0; b < rows_buckets(); b++) {
    rows_tensor in = *rows_bucket_input(b, 0), out = *rows_bucket_output(b, 0);
    in.data = x, out.data = y;
    if (rows_run(model, &in, 1, &out, 1)) return puts(rows_last_error(model)), 3;
    printf("%d %g\\n", (int)in.sizes[0], y[in.sizes[0] - 1]);
  }
  if (rows_bucket_input(2, 0) || rows_bucket_input(-1, 0) || rows_bucket_output(0, 1))
    return 4;
  return rows_free(model), 0;
}
"""


def test_a_program_in_c_asks_for_the_buckets(tmp_path):
    aot_compile(
        nn.ReLU(),
        (rl.ones(6),),
        examples=[(rl.ones(2),)],
        directory=tmp_path,
        name="rows",
    )
    (tmp_path / "main.c").write_text(ASKED)
    subprocess.run(
        [*COMPILER.split(), "-O2", "-Wall", "-Werror", "-I.", "-o", "run", "main.c", "-L.",
         "-lrows", "-Wl,-rpath,."],
        check=True, cwd=tmp_path,
    )  # fmt: skip
    done = subprocess.run(["./run"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "6 6\n2 2\n")
