"""No more sizes become one than a program needs, and they have PyTorch's names."""

import importlib

import pytest

import rushlight as rl
from rushlight.export import Dim, export

torch = pytest.importorskip("torch")

# name -> the function of a module and two tensors, and their sizes
PROGRAMS = {
    "joined": (lambda lib, x, y: lib.cat([x, y]), (3, 4), (3, 4)),
    "joined along rows": (lambda lib, x, y: lib.cat([x, y], 1), (3, 4), (3, 4)),
    "added": (lambda lib, x, y: x + y, (3, 4), (3, 4)),
    "product": (lambda lib, x, y: x @ y, (4, 4), (4, 4)),
    "product, turned": (lambda lib, x, y: x @ y.t(), (4, 4), (4, 4)),
    "a row": (lambda lib, x, y: x + y[0], (4, 4), (4, 4)),
    "stacked rows": (lambda lib, x, y: lib.stack([x[0], y[0]]), (5, 4), (5, 4)),
    "square": (lambda lib, x, y: (x + x.t(), y), (4, 4), (4, 4)),
    "two steps": (lambda lib, x, y: (x + y, lib.cat([x, y])), (5, 4), (5, 4)),
    "products of a batch": (lambda lib, x, y: lib.bmm(x, y), (3, 3, 3), (3, 3, 3)),
    "chosen": (lambda lib, x, y: lib.where(x > 0, x, y), (3, 3), (3, 3)),
}


def exported(name, function, sizes, hint):
    lib = importlib.import_module(name)

    class Program(lib.nn.Module):
        def forward(self, x, y):
            return function(lib, x, y)

    open_sizes = getattr(importlib.import_module(f"{name}.export").Dim, hint)
    return lib.export.export(
        Program(),
        tuple(map(lib.ones, sizes)),
        dynamic_shapes=tuple((open_sizes,) * len(one) for one in sizes),
    )


def sizes_of(program):
    nodes = program.graph.find_nodes(op="placeholder")
    return [tuple(map(str, node.meta["val"].shape)) for node in nodes]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("hint", ["AUTO", "DYNAMIC"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_sizes_that_are_one_are_pytorchs(name, hint):
    function, *sizes = PROGRAMS[name]
    ours = exported("rushlight", function, sizes, hint)
    theirs = exported("torch", function, sizes, hint)
    assert sizes_of(ours) == sizes_of(theirs)


def test_what_is_joined_may_have_any_number_of_rows():
    class Joined(rl.nn.Module):
        def forward(self, x, y):
            return rl.cat([x, y]) * 2

    sizes = ((Dim.AUTO, Dim.AUTO),) * 2
    program = export(Joined(), (rl.ones(3, 4), rl.ones(3, 4)), dynamic_shapes=sizes)
    assert program.module()(rl.ones(2, 6), rl.ones(7, 6)).shape == (9, 6)
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(rl.ones(2, 6), rl.ones(7, 5))


def test_a_size_that_has_a_name_is_not_made_another_ones():
    class Added(rl.nn.Module):
        def forward(self, x, y):
            return x + y

    with pytest.raises(rl._dynamo.exc.UserError, match="must always be equal"):
        given = rl.ones(3), rl.ones(3)
        export(Added(), given, dynamic_shapes=((Dim("n"),), (Dim("m"),)))
