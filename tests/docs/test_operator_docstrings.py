"""``help`` of every operator teaches: a docstring, a signature, arguments, an example."""

import doctest
import inspect
import math
import re
import subprocess
import sys

import pytest

import rushlight
from opgen.__main__ import load
from opgen.documents import groups, unsaid, without_example
from rushlight.dispatch.packet import OperatorPacket
from rushlight.operators import registry
from tools.doctests import OPTIONS, Declarations, declarations, example_blocks


def packets():
    """Every operator that users call: functions, then methods."""
    for space in registry.namespaces.values():
        yield from (found for found in space.values())
    for name in dir(rushlight.Tensor):
        found = getattr(rushlight.Tensor, name)
        if isinstance(found, OperatorPacket) and not name.startswith("__"):
            yield found


PACKETS = list(packets())


@pytest.fixture(scope="module")
def entries():
    found, faults = load()
    assert not faults.messages
    return found


def test_every_operator_has_a_docstring_of_its_own():
    of_the_type = OperatorPacket.__doc__
    silent = [
        str(packet)
        for packet in PACKETS
        if not packet.__doc__ or packet.__doc__ == of_the_type
    ]
    assert len(PACKETS) > 1300
    assert silent == []


def test_declarations_are_found_with_their_examples():
    blocks = [block for p in declarations() for block in example_blocks(p.read_text())]
    assert len(blocks) > 600


def test_docstrings_of_functions_call_their_tensor_input():
    assert "self" not in rushlight.softmax.__doc__
    assert "input (Tensor)" in rushlight.softmax.__doc__
    assert "self (Tensor)" in rushlight.Tensor.softmax.__doc__
    assert rushlight.ones(2).softmax.__doc__ == rushlight.Tensor.softmax.__doc__


def test_in_place_forms_say_what_they_write():
    text = rushlight.Tensor.add_.__doc__
    assert "in-place form of ``add``" in text
    assert "out (Tensor" in rushlight.add.__doc__
    assert "out (Tensor" not in text


def calls(op, method):
    """Arguments of calls that a form takes: by place, with defaults left out, by name."""
    rows = op.signature.rows
    if method:
        rows = sorted(rows, key=lambda row: row[0] != "self")
    names = {row[0] for row in rows}
    placed = [row for row in rows if not row[3]]
    named = {row[0]: 1 for row in rows if row[3] and row[2] is ...}
    yield placed, named
    yield [row for row in placed if row[2] is ...], named
    tensor = "self" if method or "input" in names else "input"
    yield [], {tensor if name == "self" else name: 1 for name in names}


def test_every_call_that_a_form_takes_binds_to_the_signature():
    unbound = []
    for packet in PACKETS:
        signature = inspect.signature(packet)
        kinds = [p.kind for p in signature.parameters.values()]
        spread = inspect.Parameter.VAR_POSITIONAL in kinds
        by_place = inspect.Parameter.POSITIONAL_ONLY in kinds  # `from` is no keyword
        for op in packet.overloads:
            for placed, named in calls(op, packet.method):
                try:
                    if placed or not (
                        spread or by_place
                    ):  # `zeros(size=...)` is not shown
                        signature.bind(*placed, **named)
                except TypeError as error:
                    unbound.append(f"{packet}{signature}: {op.name}: {error}")
    assert unbound == []


def test_signatures_read_as_python_writes_them():
    assert str(inspect.signature(rushlight.softmax)) == (
        "(input, dim, dtype=None, *, out=None)"
    )
    assert inspect.signature(rushlight.conv2d).parameters["padding"].default == 0
    assert str(inspect.signature(rushlight.Tensor.view)) == "(self, *size, dtype=None)"
    assert str(inspect.signature(rushlight.ones(2).sum)) == (
        "(dim=None, keepdim=False, *, dtype=None)"
    )
    assert rushlight.add.__text_signature__ == "(input, other, *, alpha=1, out=None)"


def test_docstrings_are_not_loaded_before_somebody_asks():
    program = (
        "import sys, rushlight\n"
        "assert 'rushlight._generated.docs' not in sys.modules\n"
        "assert 'rushlight.operators.introspection' not in sys.modules\n"
        "assert 'Args:' in rushlight.linalg.svd.__doc__\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_operators_from_outside_have_a_docstring_and_a_signature():
    library = rushlight.library.Library("shifting", "DEF")
    library.define("shifted(Tensor self, int by=1) -> Tensor")
    packet = rushlight.ops.shifting.shifted
    assert str(inspect.signature(packet)) in ("(input, by=1)", "(self, by=1)")
    assert packet.__doc__


def test_every_argument_has_a_phrase(entries):
    silent = [f"{entry.location}: {name}" for entry, name in unsaid(entries)]
    assert silent == [], "say it in the entry's `args:` or in opgen/arguments.yaml"


def test_every_operator_has_an_example(entries):
    silent = [f"{e.location}: {e.name}" for e in without_example(entries)]
    assert silent == [], "give the entry an `example:`, or `like:` the one that has it"


def test_what_an_entry_says_of_arguments_is_of_its_own(entries):
    lost = []
    for rows in groups(entries).values():
        names = {arg.name for row in rows for arg in row.schema.args}
        lost += [
            f"{row.location}: {name}"
            for row in rows
            for name, _ in row.args
            if name not in names
        ]
        lost += [str(row.location) for row in rows if row.like == row.name]
    assert lost == []


@pytest.mark.parametrize("path", declarations(), ids=lambda path: path.stem)
def test_examples_of_the_declarations_run(path):
    page = Declarations(path).run()
    assert not page.faults, "\n".join(page.faults)


# What PyTorch does not have, or not on the CPU.
OURS_ALONE = re.compile(
    r"native_norm|(max_pool1d_with_indices|avg_pool[12]d|avg_pool3d)_backward\("
)


NUMBER = re.compile(r"-?\d+\.\d*(?:e[+-]\d+)?")


def prints_the_same(want, got):
    """Whether texts are alike and their numbers equal to the digits that are printed.

    Which way the last digit of 32 bits is rounded goes by the processor in PyTorch, and
    whether all elements are whole (``1.`` for ``1.0000``) by that.
    """
    words = ["".join(NUMBER.sub("#", text).split()) for text in (want, got)]
    pairs = zip(NUMBER.findall(want), NUMBER.findall(got))
    near = (
        math.isclose(*map(float, pair), rel_tol=1e-3, abs_tol=1e-4) for pair in pairs
    )
    return words[0] == words[1] and all(near)


class StridedTransform(doctest.DocTestRunner):
    """Keeps the examples of which PyTorch prints something else."""

    def __init__(self):
        super().__init__(verbose=False, optionflags=OPTIONS)
        self.differing = []

    def report_failure(self, out, test, example, got):
        want = example.want.replace("rushlight", "torch")
        if not prints_the_same(want, got):
            self.differing.append(f"{example.source}  {want}  PyTorch: {got}")

    def report_unexpected_exception(self, out, test, example, raised):
        self.differing.append(f"{example.source}  PyTorch raises {raised[1]!r}")


@pytest.mark.filterwarnings("ignore")
def test_examples_of_the_declarations_print_what_pytorch_prints():
    torch = pytest.importorskip("torch")
    runner = StridedTransform()
    for path in declarations():
        for line, code in example_blocks(path.read_text()):
            if not OURS_ALONE.search(code):
                examples = doctest.DocTestParser().get_examples(code)
                test = doctest.DocTest(
                    examples, {"torch": torch}, path.stem, str(path), line, code
                )
                runner.run(test, out=lambda text: None)
    assert runner.differing == []
