"""The two views of the work: `rushlight.explain` and ``tools/where``."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.__main__ import main
from rushlight._explain import describe
from rushlight.operators import registry

ROOT = Path(__file__).parents[1]


def explained(operator, only=None):
    """What `explain` prints."""
    out = io.StringIO()
    rl.explain(operator, only=only, file=out)
    return out.getvalue()


def titles(text):
    return [line[5:] for line in text.splitlines() if line.startswith("==== ")]


def test_every_stage_of_an_elementwise_operator_is_shown():
    text = explained(F.gelu)
    shown = "\n".join(titles(text))
    for part in (
        "declaration: rushlight/operators/elementwise/activation.yaml:",
        "kernel: rushlight/operators/elementwise/activation.py:",
        "derivative: ",
        "dispatch table: aten::gelu",
        "gelu: tensor expression",
        "gelu: loops, built",
        "gelu: LLVM IR",
        "gelu: assembly",
    ):
        assert part in shown
    assert "- op: gelu(Tensor self" in text
    assert "x * normal_cdf(x)" in text
    assert "define i32 @gelu" in text


def test_a_reduction_and_a_loop_kernel_are_shown():
    assert "loops, built" in explained("sum", "loops")
    text = explained("max_pool2d_with_indices", "kernel,loops")
    assert "for p in range(begin, end):" in text
    assert "max_pool_inside: loops, fold_indices" in text


def test_sections_and_overloads_may_be_chosen():
    text = explained("add.Tensor", ["declaration", "dispatch"])
    assert [title.partition(":")[0] for title in titles(text)] == [
        "declaration",
        "dispatch table",
    ]
    assert "CPU " in text and "Autograd " in text


def test_functions_made_of_operators_list_them():
    text = explained(F.cross_entropy)
    assert "def cross_entropy(" in text


def test_every_operator_can_be_explained():
    names = [name for name in vars(registry.call) if not name.startswith("__")]
    assert len(names) > 150
    for name in names:
        assert list(describe(name, {"declaration", "kernel", "derivative", "dispatch"}))


def test_unknown_names_are_refused(capsys):
    with pytest.raises(AttributeError, match="there is no operator 'nonsense'"):
        explained("nonsense")
    with pytest.raises(AttributeError, match="'add' has no overload 'Nonsense'"):
        explained("add.Nonsense")
    with pytest.raises(ValueError, match="explain: no section 'loop'; there are"):
        explained("add", "loop")
    assert main(["explain", "nonsense"]) == 1
    assert "no operator 'nonsense'" in capsys.readouterr().err


def test_the_command_prints_an_explanation(capsys):
    assert main(["explain", "gelu", "--only", "declaration"]) == 0
    assert "- op: gelu(" in capsys.readouterr().out


def where(name):
    """The finished process of ``tools/where NAME``."""
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "where"), name],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["logaddexp", "cumsum", "max_pool2d_with_indices"])
def test_where_names_files_and_lines(name):
    done = where(name)
    assert done.returncode == 0, done.stderr
    rows = dict(line.split(maxsplit=2)[:2] for line in done.stdout.splitlines())
    assert {"declared", "kernel", "derivative", "tests"} <= set(rows)
    path, _, line = rows["declared"].partition(":")
    assert f"op: {name}(" in (ROOT / path).read_text().splitlines()[int(line) - 1]


OF_LAYOUTS = ("(sparse_coo)", "(sparse_csr)", "(quantized)")
SHOWN = {  # of each operator: its rules and its forms by device
    "gelu": (
        "one expression for every device",
        "elementwise: the derivative's formula",
        "elementwise",
    ),
    "cumsum": ("HostScans", "linear: the operator itself", "along_dim"),
    "scatter_reduce": ("_combine_by_index", "transposed twice", "example by example"),
    "linalg_qr": ("one function for all", "transposed twice", "batch_last"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_rules_and_forms_by_device_are_shown(name):
    shown = explained(name, "tangent,batching,variants")
    for title, words in zip(("variants", "tangent", "batching"), SHOWN[name]):
        found = [part for part in shown.split("==== ") if part.startswith(title)]
        text = "".join(found)
        assert words in text, (title, text)
    assert "kernel: rushlight/" in explained(name, "kernel")


@pytest.mark.parametrize("name", SHOWN)
def test_an_operator_is_made_in_the_folder_of_its_family(name):
    rows = [line.split(maxsplit=2) for line in where(name).stdout.splitlines()]
    kinds = {row[0] for row in rows}
    assert {"declared", "kernel", "derivative"} <= kinds
    assert "variants" in kinds or name in ("gelu", "linalg_qr")
    folder = next(row[1] for row in rows if row[0] == "declared").rpartition("/")[0]
    for what, place, *said in rows:
        shared = what == "variants" and place.count("/") == 2  # by all families
        if said and said[0] in OF_LAYOUTS:  # in those layouts' rooms
            continue
        if what in ("declared", "kernel", "variants", "derivative") and not shared:
            assert place.startswith((folder, "rushlight/kernels")), (what, place)


def test_kernels_of_other_keys_are_where_they_are_declared():
    rows = where("relu").stdout
    for key in ("(pointwise)", *OF_LAYOUTS):
        assert key in rows


def test_forms_of_layouts_stand_beside_the_one_of_all_devices():
    shown = explained("relu", "variants")
    assert "one expression for every device" in shown and "QuantizedCPU" in shown


def test_where_fails_for_unknown_names():
    done = where("nonsense")
    assert done.returncode == 1 and "no operator 'nonsense'" in done.stderr


def test_the_kernel_shown_is_the_one_that_a_plain_call_runs():
    assert "def add(x: f32, y: f32):" in explained("add", "expression")


def test_what_is_no_operator_is_refused_by_type():
    with pytest.raises(TypeError, match="expected an operator.*'int'>"):
        rl.explain(int)


def test_tables_are_the_same_before_and_after_masked_tensors_are_used():
    before = explained("matmul", "dispatch"), explained("mul", "dispatch")
    rl.masked.masked_tensor(rl.ones(2), rl.tensor([True, False])) * 2
    assert (explained("matmul", "dispatch"), explained("mul", "dispatch")) == before


def test_kernels_that_are_partial_calls_are_named():
    import functools

    from rushlight._explain import kernel_name
    from rushlight.dispatch.python_kernels import PythonKernel

    kernel = PythonKernel(functools.partial(pow, 2))
    assert kernel_name(kernel) == "builtins.pow"
