"""Exported programs whose sizes follow from elements, beside PyTorch's."""

import contextlib
import io
import re

import pytest

import rushlight as rl
from rushlight.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from rushlight.ir.symbolic import SymInt
from tests.export.numbers import PROGRAMS, REFUSED, arguments, exported
from tests.export.steps import our_steps, their_steps

torch = pytest.importorskip("torch")


def plain(value):
    """A result's numbers, whichever library it is of."""
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value


def same(left, right):
    """Whether two results are near each other, element by element."""
    left, right = plain(left), plain(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == pytest.approx(right)


def through_file(lib, program, reader=None):
    file = io.BytesIO()
    lib.export.save(program, file)
    file.seek(0)
    return (reader or lib).export.load(file)


def bounds(program):
    """The bounds of numbers; PyTorch lists those of offsets in memory, too."""
    return {
        str(name): (float(one.lower), float(one.upper))
        for name, one in program.range_constraints.items()
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_numbers_from_elements_has_pytorchs_steps(name):
    kinds, function = PROGRAMS[name]
    theirs, _ = exported(torch, function, kinds)
    ours, _ = exported(rl, function, kinds)
    assert our_steps(ours.graph) == their_steps(theirs.graph)
    found, expected = bounds(ours), bounds(theirs)
    if name != "in a branch":  # they count a recording of each branch of their own
        assert found == {key: one for key, one in expected.items() if key in found}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_on_other_elements_saved_and_taken_apart(name):
    kinds, function = PROGRAMS[name]
    program, module = exported(rl, function, kinds)
    ways = {
        "recorded": program,
        "loaded": through_file(rl, program),
        "taken apart": program.run_decompositions(),
        "loaded and taken apart": through_file(rl, program).run_decompositions(),
        "saved taken apart": through_file(rl, program.run_decompositions()),
    }
    for way, one in ways.items():
        one.validate()
        for other in (False, True):
            found = one.module()(*arguments(rl, kinds, other))
            assert same(found, module(*arguments(rl, kinds, other))), way


@pytest.mark.parametrize("name", PROGRAMS)
def test_files_with_numbers_from_elements_go_both_ways(name):
    kinds, function = PROGRAMS[name]
    ours, module = exported(rl, function, kinds)
    theirs, _ = exported(torch, function, kinds)
    with contextlib.redirect_stderr(io.StringIO()):
        read = through_file(rl, ours, torch)
    for other in (False, True):
        expected = module(*arguments(rl, kinds, other))
        assert same(read.module()(*arguments(torch, kinds, other)), expected)
        back = through_file(torch, theirs, rl)
        assert same(back.module()(*arguments(rl, kinds, other)), expected)
        apart = back.run_decompositions().module()
        assert same(apart(*arguments(rl, kinds, other)), expected)


@pytest.mark.parametrize("name", REFUSED)
def test_what_asks_for_an_unknown_number_names_its_line_and_a_remedy(name):
    kinds, function = REFUSED[name]
    with (
        contextlib.redirect_stdout(io.StringIO()),
        pytest.raises(
            torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode
        ),
    ):
        exported(torch, function, kinds)
    with pytest.raises((GuardOnDataDependentSymNode, RuntimeError)) as caught:
        exported(rl, function, kinds)
    if name != "classes of one_hot":
        assert isinstance(caught.value, GuardOnDataDependentSymNode)
        text = str(caught.value)
        assert text.startswith("Could not guard on data-dependent expression ")
        assert "numbers.py" in text and "remedy: torch.cond" in text


@pytest.mark.parametrize("lib", [torch, rl], ids=["torch", "rushlight"])
def test_a_promise_that_does_not_hold_is_an_error_of_the_run(lib):
    program, _ = exported(
        lib,
        PROGRAMS["a number: promised size"][1],
        PROGRAMS["a number: promised size"][0],
    )
    ways = [program]
    if lib is rl:
        apart = program.run_decompositions()
        ways += [apart, through_file(lib, program), through_file(lib, apart)]
        ways.append(through_file(lib, program).run_decompositions())
    for one in ways:
        with pytest.raises(
            RuntimeError, match="Runtime assertion failed for expression"
        ):
            one.module()(lib.tensor([12, 1, 1]))


@pytest.mark.parametrize("lib", [torch, rl], ids=["torch", "rushlight"])
def test_two_sizes_that_were_taken_for_one_are_checked(lib):
    def function(lib, x, y):
        return x[x > 1] + y[y > 1]

    class Program(lib.nn.Module):
        def forward(self, x, y):
            return function(lib, x, y)

    x = lib.tensor([0.5, 1.5, 2.5])
    program = lib.export.export(Program(), (x, x + 0))
    message = re.escape(
        "Runtime assertion failed for expression Eq(u0, u1) on node 'eq'"
    )
    with pytest.raises(RuntimeError, match=message):
        program.module()(x, x + 1)


def test_numbers_are_symbols_with_pytorchs_names():
    program, _ = exported(rl, PROGRAMS["two masks"][1], "f")
    values = [node.meta.get("val") for node in program.graph.nodes]
    assert [str(one) for one in values if isinstance(one, SymInt)] == ["u0", "u1"]
    assert list(program.range_constraints) == ["u0", "u1"]
    node = next(one for one in program.graph.nodes if one.name == "index")
    assert node.meta["unbacked_bindings"] == {"u0": ((), 0)}


def test_sizes_stay_open_beside_those_that_follow_from_elements():
    class Program(rl.nn.Module):
        def forward(self, x):
            return rl.cat([x[x > 1], x * 2])

    program = rl.export.export(
        Program(), (rl.tensor([0.5, 1.5]),), dynamic_shapes=({0: rl.export.Dim("n")},)
    )
    assert set(program.range_constraints) == {"s77", "u0"}
    x = rl.arange(7.0)
    assert program.module()(x).tolist() == Program()(x).tolist()
    assert through_file(rl, program).module()(x).tolist() == Program()(x).tolist()


def test_what_is_read_is_not_taken_for_a_constant_of_the_same_value():
    class Program(rl.nn.Module):
        def forward(self, x, i):
            return x.repeat(i[0].item()), x + 12, x.repeat(12)

    program = rl.export.export(Program(), (rl.ones(2), rl.tensor([12])))
    found = program.module()(rl.ones(2), rl.tensor([3]))
    assert [tuple(one.shape) for one in found] == [(6,), (2,), (24,)]


def sized_by_elements(m, name):
    """A program around an operator whose function for shapes asks for a new size."""

    @m.library.custom_op(f"tests_get_ctx::{name}", mutates_args=())
    def places(x: m.Tensor) -> m.Tensor:
        return x.nonzero()

    @places.register_fake
    def _(x):
        count = m.library.get_ctx().new_dynamic_size(max=6)
        return x.new_empty([count, x.dim()], dtype=m.int64)

    class Net(m.nn.Module):
        def forward(self, x):
            return places(x) * 2

    return Net()


def test_operators_from_outside_make_sizes_that_follow_from_elements():
    import rushlight as rl

    torch = pytest.importorskip("torch")
    program = rl.export.export(sized_by_elements(rl, "ours"), (rl.ones(3, 2),))
    theirs = torch.export.export(
        sized_by_elements(torch, "theirs"), (torch.ones(3, 2),)
    )
    for ones in ([[1.0, 0.0]] * 3, [[0.0, 0.0]] * 3):
        result = program.module()(rl.tensor(ones)).tolist()
        assert result == theirs.module()(torch.tensor(ones)).tolist()
    sizes = [
        len([n for n in one.graph.nodes if "sym_size" in str(n.target)])
        for one in (program, theirs)
    ]
    assert sizes[0] == sizes[1] == 1
    assert rl.library.get_ctx() is None


def test_a_function_for_shapes_takes_no_open_or_negative_bounds():
    from rushlight._fake_context import FakeImplCtx

    context = FakeImplCtx(None, RuntimeError("no sizes here"))
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        context.new_dynamic_size(min=-1)
    with pytest.raises(RuntimeError, match="no sizes here"):
        context.new_dynamic_size()
