"""Comparisons of open sizes are truths of a program: branches of both, as PyTorch keeps them."""

from importlib import import_module

import pytest

import rushlight

torch = pytest.importorskip("torch")
LIBRARIES = rushlight, torch


def program(lib, case):
    """A module of a case, its arguments, and which of their sizes are open."""
    export = import_module(f"{lib.__name__}.export")
    n, k = export.Dim("n", min=2, max=64), export.Dim("k", min=2, max=64)

    class Program(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = lib.nn.Parameter(lib.full((3,), 2.0), requires_grad=False)

        def forward(self, x, y):
            return case(lib, self, x, y)

    args = lib.ones(3, 3), lib.full((5, 3), 3.0)
    return export, Program(), args, ({0: n}, {0: k})


def larger(lib, self, x, y):
    return lib.cond(x.shape[0] > 4, lambda x: x.sin(), lambda x: x.cos(), (x,))


def computed(lib, self, x, y):
    scaled = lambda x: x * self.scale + x.shape[0]  # noqa: E731
    return lib.cond(x.shape[0] * 2 <= 8, scaled, lambda x: x - 1, (x,))


def two_sizes(lib, self, x, y):
    both = (lambda x, y: x.sum() + y.sum()), (lambda x, y: x.sum() - y.sum())
    return lib.cond(x.shape[0] == y.shape[0], *both, (x, y))


def negated(lib, self, x, y):
    wanted = lib.sym_not(x.shape[0] < y.shape[0])
    return lib.cond(wanted, lambda x: x + 1, lambda x: x - 1, (x,))


def after_a_check(lib, self, x, y):
    """What is known leaves one branch, and no other is asked for."""
    lib._check(x.shape[0] >= 2)
    return lib.cond(x.shape[0] >= 1, lambda x: x + 1, lambda x: x - 1, (x,))


def within(lib, self, x, y):
    inner = lambda x: lib.cond(  # noqa: E731
        x.shape[0] > 6, lambda x: x * 3, lambda x: x * 2, (x,)
    )
    return lib.cond(x.shape[0] > 4, inner, lambda x: x * 1, (x,))


def between(lib, self, x, y):
    inside = (x.shape[0] > 4) & (x.shape[0] < 8)
    return lib.cond(inside, lambda x: x + 1, lambda x: x - 1, (x,))


def joined(lib, self, x, y):
    """A size, and how many elements there are that are not zero."""
    wanted = ((x.nonzero().shape[0] > 10) & (y.shape[0] > 4)) | False
    return lib.cond(wanted & True, lambda x: x + 1, lambda x: x - 1, (x,))


GRAPHS = [larger, computed, two_sizes, within, between]
CASES = [*GRAPHS, negated, after_a_check]  # proved, or turned around: other graphs
SIZES = [(3, 5), (6, 6), (9, 2), (2, 2), (5, 64)]


def given(lib, n, k):
    return lib.ones(n, 3), lib.full((k, 3), 3.0)


def exported(lib, case):
    export, module, args, shapes = program(lib, case)
    return module, export.export(module, args, dynamic_shapes=shapes, strict=False)


def branches(made):
    """The operators of each graph of a program, sorted: sizes have no order of their own."""
    graphs = [one for one in made.graph_module.modules() if hasattr(one, "graph")]
    return sorted(
        sorted(
            getattr(n.target, "__name__", str(n.target)) for n in one.graph.nodes
            if n.op == "call_function" and "sym_size" not in str(n.target)
        )
        for one in graphs
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:Pred is a Python constant")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_branch_by_a_size_has_both_graphs_and_takes_each(case, tmp_path):
    module, made = exported(rushlight, case)
    theirs_of, theirs = exported(torch, case)
    if case in GRAPHS:
        assert branches(made) == branches(theirs)
    path = str(tmp_path / "ours.pt2")
    rushlight.export.save(made, path)
    forms = [made.module(), rushlight.export.load(path).module()]
    forms.append(made.run_decompositions().module())
    their_form = torch.export.load(path).module()
    for n, k in SIZES:
        ours = given(rushlight, n, k)
        wanted = module(*ours)
        assert all(rushlight.equal(one(*ours), wanted) for one in forms)
        for one in (theirs_of, their_form):
            found = one(*given(torch, n, k)).tolist()
            assert rushlight.allclose(rushlight.tensor(found), wanted)


def asked(lib):
    """Which questions about an open size leave a guard."""
    shapes = import_module(f"{lib.__name__}.fx.experimental.symbolic_shapes")
    answers = {}

    def forward(lib, self, x, y):
        n = x.shape[0]
        answers["known"] = shapes.statically_known_true(n == 3), (
            shapes.statically_known_true(n >= 2), shapes.statically_known_false(n == 3)
        )  # fmt: skip
        return x + 1

    _, made = exported(lib, forward)
    return answers, {str(one): (int(r.lower), int(r.upper))
                     for one, r in made.range_constraints.items()}  # fmt: skip


def test_what_is_asked_statically_fixes_no_size():
    assert asked(rushlight) == asked(torch)
    _, made = exported(rushlight, lambda lib, self, x, y: (x + 1, x.shape[0] > 4))
    for n in (3, 7):
        assert made.module()(*given(rushlight, n, 2))[1] is (n > 4)


def test_a_truth_of_elements_is_kept_beside_one_that_is_known():
    """What hangs on elements is not asked for by `&` with a truth or with a size's."""
    shapes = ({0: rushlight.export.Dim("n", min=2)}, None)

    class Program(rushlight.nn.Module):
        def forward(self, x, y):
            return joined(rushlight, self, x, y)

    args = given(rushlight, 4, 5)
    made = rushlight.export.export(Program(), args, dynamic_shapes=shapes).module()
    for n in (2, 9):
        x, y = given(rushlight, n, 5)
        assert rushlight.equal(made(x, y), joined(rushlight, None, x, y))


def test_truths_of_sizes_are_truths_to_python():
    n = rushlight.fx.experimental.symbolic_shapes.ShapeEnv().symbol(5)
    larger, smaller = n > 3, n < 3
    assert bool(larger) and not smaller and larger == True and smaller != True  # noqa: E712
    assert (larger & True, larger | False, larger & smaller) == (True, True, False)
    inside = (n > 4) & (n < 9)
    assert inside and not ~inside and (smaller | inside)
    assert str(inside) == "(s0 > 4) & (s0 < 9)"
    assert int(larger) + 1 == 2 and rushlight.full((), larger).item() is True
    assert [1, 2][smaller] == 1 and larger in (False, True)


def tensors(lib, self, x, y):
    rows, truth = x.shape[0], x.sum().item()
    return (
        lib.tensor(rows), lib.tensor([rows, 2]), lib.tensor([[rows, 0.5], [1, truth]]),
        lib.tensor(rows, dtype=lib.float64), lib.as_tensor((rows, rows * 2)),
    )  # fmt: skip


def test_tensors_are_made_of_open_sizes_and_of_elements(tmp_path):
    _, made = exported(rushlight, tensors)
    path = str(tmp_path / "ours.pt2")
    rushlight.export.save(made, path)
    other = torch.export.load(path).module()
    for n in (3, 8):
        ours, theirs = given(rushlight, n, 2), given(torch, n, 2)
        wanted = tensors(torch, None, *theirs)
        for found in (made.module()(*ours), other(*theirs)):
            assert [one.tolist() for one in found] == [one.tolist() for one in wanted]
            kinds = [str(one.dtype).rpartition(".")[2] for one in found]
            assert kinds == [str(one.dtype).rpartition(".")[2] for one in wanted]
