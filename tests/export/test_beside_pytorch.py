"""Exported programs beside PyTorch's: the same steps, the same names, the same files."""

import io

import pytest

import rushlight as rl
from tests.export.programs import NAMES, programs
from tests.export.steps import our_steps, their_steps

torch = pytest.importorskip("torch")

# Modules that call other operators than PyTorch's do: attention's fast way, zeros.
OTHERWISE = {"encoder", "lstm"}


def signature(program):
    """Arguments and results; results' names are counted otherwise."""
    text = str(program.graph_signature)
    return [line for line in text.split("\n") if not line.startswith("getitem")]


def arrays(result):
    leaves = rl.utils._pytree.tree_leaves(result)
    return [one.detach().numpy() if hasattr(one, "numpy") else one for one in leaves]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHERWISE])
def test_graph_and_signature_are_those_of_pytorch(name):
    theirs = torch.export.export(*programs(torch)[name])
    ours = rl.export.export(*programs(rl)[name])
    assert our_steps(ours.graph) == their_steps(theirs.graph)
    assert signature(ours) == signature(theirs)
    assert list(ours.state_dict) == list(theirs.state_dict)
    assert sorted(ours.constants) == sorted(theirs.constants)
    entries = [
        [one.fqn for one in program.module_call_graph] for program in (ours, theirs)
    ]
    assert entries[0] == entries[1]


@pytest.mark.parametrize("name", NAMES)
def test_pytorch_reads_what_is_saved_here(name, tmp_path):
    module, args, kwargs = programs(rl)[name]
    program = rl.export.export(module.eval(), args, kwargs)
    path = tmp_path / "program.pt2"
    rl.export.save(program, path)
    theirs = torch.export.load(path).module()
    given = rl.utils._pytree.tree_map(
        lambda one: (
            torch.from_numpy(one.numpy()) if isinstance(one, rl.Tensor) else one
        ),
        (args, kwargs),
    )
    got = arrays(theirs(*given[0], **given[1]))
    wanted = arrays(program.module()(*args, **kwargs))
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted):
        assert one == pytest.approx(other, rel=1e-5, abs=1e-6)


@pytest.mark.filterwarnings("ignore:The tensor attribute")  # PyTorch's of its LSTM
@pytest.mark.parametrize("name", NAMES)
def test_what_pytorch_saves_is_read_here(name):
    module, args, kwargs = programs(torch)[name]
    program = torch.export.export(module.eval(), args, kwargs)
    file = io.BytesIO()
    torch.export.save(program, file)
    ours = rl.export.load(file).module()
    given = torch.utils._pytree.tree_map(
        lambda one: (
            rl.from_numpy(one.numpy()) if isinstance(one, torch.Tensor) else one
        ),
        (args, kwargs),
    )
    got = arrays(ours(*given[0], **given[1]))
    wanted = arrays(program.module()(*args, **kwargs))
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted):
        assert one == pytest.approx(other, rel=1e-5, abs=1e-6)


class Sizes:
    """Programs that ask something of sizes, by what they ask."""

    @staticmethod
    def more_than_three(x):
        return x + 1 if x.shape[0] > 3 else x * 2

    @staticmethod
    def sum_with_five(x):
        return x + x.new_ones(5)

    @staticmethod
    def nothing(x):
        return x.view(x.shape[0] * 2, -1)

    @staticmethod
    def halves(x):
        return x.view(2, x.shape[0] // 2, -1).sum(0)


def exported(lib, function, spec, size=6):
    class Program(lib.nn.Module):
        def forward(self, x):
            return function(x)

    return lib.export.export(
        Program(), (lib.ones(size, 4),), dynamic_shapes=({0: spec},)
    )


SPECS = {
    "name": lambda d: d("b"),
    "bounded": lambda d: d("b", min=4, max=10),
    "auto": lambda d: d.AUTO,
    "dynamic": lambda d: d.DYNAMIC,
}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("ask", ["more_than_three", "nothing"])
def test_open_sizes_are_bounded_or_refused_as_in_pytorch(ask, spec):
    outcomes = []
    for lib in (torch, rl):
        try:
            program = exported(lib, getattr(Sizes, ask), SPECS[spec](lib.export.Dim))
        except Exception as error:
            fix = str(error).partition("Suggested fixes:")[2].split("\n")
            outcomes.append((type(error).__name__, [one.strip() for one in fix[1:2]]))
        else:
            bounds = [str(one) for one in program.range_constraints.values()]
            outcomes.append((bounds, our_or_their(program)))
    assert outcomes[0] == outcomes[1]


def our_or_their(program):
    ours = isinstance(program, rl.export.ExportedProgram)
    return (our_steps if ours else their_steps)(program.graph)


BAD_SHAPES = {
    "too few": lambda d: ({0: d("b")}, None),
    "no such dimension": lambda d: ({5: d("b")},),
    "no dimensions": lambda d: ((d("b"),),),
    "a name": lambda d: {"y": None},
    "a number": lambda d: 3,
    "a text": lambda d: ("b",),
}


@pytest.mark.parametrize("case", BAD_SHAPES)
def test_descriptions_of_sizes_that_cannot_be_are_refused(case):
    kinds = []
    for lib in (torch, rl):

        class Program(lib.nn.Module):
            def forward(self, x):
                return x

        with pytest.raises(Exception) as error:
            lib.export.export(
                Program(),
                (lib.ones(3, 4),),
                dynamic_shapes=BAD_SHAPES[case](lib.export.Dim),
            )
        kinds.append(type(error.value).__name__)
    assert kinds[0] == kinds[1]


CONTROL = {
    "cond": lambda t: t.cond(
        t.tensor(False), lambda x: x + 1, lambda x: x * 3, (t.ones(2),)
    ),
    "while_loop": lambda t: t.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (t.tensor(0), t.ones(2))
    ),
    "map": lambda t: t._higher_order_ops.map(
        lambda x, y: {"a": x * y}, t.arange(6.0).reshape(3, 2), t.tensor(2.0)
    ),
    "scan": lambda t: t._higher_order_ops.scan(
        lambda c, x: (c + x, c * x), t.zeros(2), t.arange(6.0).reshape(2, 3), dim=1
    ),
    "scan_reversed": lambda t: t._higher_order_ops.scan(
        lambda c, x: (c + x, c * x),
        t.zeros(2),
        t.arange(6.0).reshape(3, 2),
        reverse=True,
    ),
    "pred_of_two": lambda t: t.cond(t.ones(2), abs, abs, (t.ones(2),)),
    "no_function": lambda t: t.cond(t.tensor(True), 2, abs, (t.ones(2),)),
    "no_operands": lambda t: t.cond(t.tensor(True), abs, abs, (2,)),
    "no_loop": lambda t: t.while_loop(2, abs, (t.ones(2),)),
    "map_of_a_number": lambda t: t._higher_order_ops.map(lambda x: x, 2),
    "map_of_nothing": lambda t: t._higher_order_ops.map(lambda x: x, t.ones(0, 2)),
}


@pytest.mark.parametrize("case", CONTROL)
def test_control_flow_gives_and_refuses_what_pytorch_does(case):
    outcomes = []
    for lib in (torch, rl):
        try:
            result = CONTROL[case](lib)
        except Exception as error:
            outcomes.append((type(error).__name__, str(error).split("\n")[0]))
        else:
            outcomes.append([one.tolist() for one in arrays(result)])
    assert outcomes[0] == outcomes[1]
