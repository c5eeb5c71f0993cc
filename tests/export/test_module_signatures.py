"""Modules inside of programs whose arguments and results are kept as they were."""

import dataclasses
import io

import pytest

import rushlight as rl
from rushlight import nn
from tests.export.sweep import quietly

torch = pytest.importorskip("torch")


def modules(lib):
    class Pair(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = lib.nn.Linear(4, 4)

        def forward(self, a, *, b):
            return {"sum": self.inner(a) + b, "rest": (a - b, [b], 3)}

    class Outer(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.pair = lib.nn.Linear(4, 4), Pair()

        def forward(self, x):
            one = self.pair(self.first(x), b=x)
            other = self.pair(x, b=one["sum"])
            return one["rest"][0] * one["rest"][2] + other["sum"]

    return Outer()


def steps(graph):
    return [
        (node.op, node.name, getattr(node.target, "__name__", node.target))
        for node in graph.nodes
        if node.op != "get_attr"
    ]


X = rl.arange(20.0).view(5, 4) / 10
KEPT = {"preserve_module_call_signature": ("pair",)}


def test_what_a_kept_module_gives_is_what_it_gave():
    model = modules(rl)
    program = rl.export.export(model, (X,), **KEPT)
    assert rl.equal(program.module()(X), model(X))
    assert [one.fqn for one in program.module_call_graph if one.signature] == [
        "", "pair", "pair@1",
    ]  # fmt: skip


def test_the_tree_calls_a_kept_module_as_the_program_did():
    class Ones(nn.Module):
        def forward(self, a, *, b):
            return {"sum": a * 0 + 1, "rest": (b * 0 + 2, [b], 3)}

    model = modules(rl)
    program = rl.export.export(model, (X,), **KEPT)
    file = io.BytesIO()
    rl.export.save(program, file)
    file.seek(0)
    for one in (program, rl.export.load(file)):
        tree = rl.export.unflatten(one)
        assert rl.allclose(tree(X), model(X))
        tree.pair = Ones()
        assert rl.equal(tree(X), rl.full((5, 4), 2.0 * 3 + 1))


def test_trees_have_pytorchs_steps():
    ours = rl.export.export(modules(rl), (X,), **KEPT)
    theirs = torch.export.export(modules(torch), (torch.ones(5, 4),), **KEPT)
    with quietly():
        expected = torch.export.unflatten(theirs)
    assert steps(rl.export.unflatten(ours).graph) == steps(expected.graph)


def test_calls_that_do_the_same_have_one_module():
    for lib in (rl, torch):

        class Twice(lib.nn.Module):
            def __init__(self, lib=lib):
                super().__init__()
                self.one = lib.nn.Sequential(lib.nn.Linear(4, 4))

            def forward(self, x):
                return self.one(self.one(x)) + self.one[0](x)

        model = Twice()
        program = lib.export.export(model, (lib.ones(2, 4),))
        with quietly():
            tree = lib.export.unflatten(program)
        calls = [n.target for n in tree.graph.nodes if n.op == "call_module"]
        assert calls == ["one", "one", "one.0"]
        assert lib.allclose(tree(lib.ones(2, 4)), model(lib.ones(2, 4)))


@dataclasses.dataclass
class Batch:
    data: rl.Tensor
    mask: rl.Tensor
    note: object = None


def test_a_dataclass_goes_in_and_comes_out():
    rl.export.register_dataclass(Batch, serialized_type_name="Batch")

    class Masked(nn.Module):
        def forward(self, batch):
            return Batch(batch.data * batch.mask, 1 - batch.mask)

    given = Batch(rl.arange(3.0), rl.tensor([1.0, 0.0, 1.0]))
    program = rl.export.export(Masked(), (given,))
    file = io.BytesIO()
    rl.export.save(program, file)
    file.seek(0)
    for one in (program, rl.export.load(file), program.run_decompositions()):
        made = one.module()(given)
        assert type(made) is Batch and made.note is None
        assert made.data.tolist() == [0, 0, 2] and made.mask.tolist() == [0, 1, 0]
