"""Sizes of exported programs are PyTorch's expressions, as the algebra of sizes has them."""

import functools
import io

import pytest

import rushlight as rl
from rushlight.ir.sizes import compared
from rushlight.ir.symbolic import ShapeEnv, SymInt

torch = pytest.importorskip("torch")


def halves(lib, x, y):
    n = x.shape[0]
    return x[: n // 2] * 1, x[: (n + 1) // 2] * 1, lib.zeros(n // 2, (n + 1) // 2)


def thirds(lib, x, y):
    n = x.shape[0]
    return [lib.ones((n + k) // 3, (n + 2 * k) // 3) for k in range(3)]


def extremes(lib, x, y):
    n, m = x.shape[0], y.shape[0]
    return lib.zeros(lib.sym_max(n, m)), lib.ones(lib.sym_min(n + 2, 2 * m))


PROGRAMS = {
    "halves": halves,
    "thirds": thirds,
    "extremes": extremes,
    "products": lambda lib, x, y: (x[:, None] * y).view(-1),
    "sums": lambda lib, x, y: lib.cat([x, y, x[1:]]),
    "polynomial": lambda lib, x, y: lib.ones(3 * x.shape[0] * y.shape[0] + 2),
    "windows": lambda lib, x, y: x.unfold(0, 3, 2),
    "strides": lambda lib, x, y: (x[::2], x[1::3]),
    "convolution": lambda lib, x, y: lib.nn.functional.conv1d(
        x[None, None], lib.ones(1, 1, 3), stride=2, padding=1
    ),
    "pooling": lambda lib, x, y: lib.nn.functional.avg_pool1d(x[None], 2, ceil_mode=True),
    "chunks": lambda lib, x, y: x.chunk(2),
    "repeated": lambda lib, x, y: (x.repeat(3), y.repeat_interleave(2)),
    "padding": lambda lib, x, y: lib.nn.functional.pad(x, (1, 2)),
    "outer": lambda lib, x, y: lib.outer(x, y).flatten(),
    "power": lambda lib, x, y: lib.ones(x.shape[0] ** 2 - 1),
    "nested": lambda lib, x, y: x[: ((x.shape[0] + 1) // 2 + 1) // 2] * 2,
    "both": lambda lib, x, y: lib.ones(2 * (x.shape[0] // 2) + 1, y.shape[0] - 1),
}  # fmt: skip


@functools.cache
def exported(lib, name):
    function = PROGRAMS[name]

    class Program(lib.nn.Module):
        def forward(self, x, y):
            return function(lib, x, y)

    given = lib.arange(10.0), lib.arange(7.0)
    open_size = {0: lib.export.Dim.DYNAMIC}
    return lib.export.export(Program(), given, dynamic_shapes=(open_size, open_size))


def sizes_of(program):
    """The sizes of the results, and of the two arguments."""
    output = next(one for one in program.graph.nodes if one.op == "output")
    inputs = [one for one in program.graph.nodes if one.op == "placeholder"]
    values = [one.meta["val"] for one in output.args[0]]
    return [size for v in values for size in v.shape], [
        one.meta["val"].shape[0] for one in inputs
    ]


def parsed(text, symbols):
    """PyTorch's expression as an expression of our symbols."""
    env: ShapeEnv = next(iter(symbols.values())).env
    words = {
        name: lambda *a, n=name: env.computed(n.lower(), *a) for name in ("Min", "Max")
    }
    words |= {"Mod": lambda a, b: a % b, "FloorDiv": lambda a, b: a // b}
    return eval(text, {**symbols, **words})


def expr_of(size):
    return size.expr if isinstance(size, SymInt) else size


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_and_their_bounds_are_pytorchs_expressions(name):
    ours, theirs = exported(rl, name), exported(torch, name)
    (found, symbols), (wanted, names) = sizes_of(ours), sizes_of(theirs)
    named = {str(name): symbol for name, symbol in zip(names, symbols)}
    for size, text in zip(found, wanted, strict=True):
        expected = expr_of(parsed(str(text), named))
        assert compared("eq", expr_of(size), expected), (size, text)
    bounds = {str(named[str(key)]): (float(one.lower), float(one.upper))
              for key, one in theirs.range_constraints.items()}  # fmt: skip
    for key, one in ours.range_constraints.items():
        low, high = bounds[key]
        assert one.upper == high and one.lower <= low


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_sizes_run_with_others_and_go_through_files(name):
    function = PROGRAMS[name]
    program = exported(rl, name)
    file = io.BytesIO()
    rl.export.save(program, file)
    file.seek(0)
    modules = program.module(), rl.export.load(io.BytesIO(file.getvalue())).module()
    read = torch.export.load(file).module()
    for n, m in ((10, 7), (9, 8), (12, 4), (23, 11)):
        wanted = function(rl, rl.arange(float(n)), rl.arange(float(m)))
        wanted = [wanted] if isinstance(wanted, rl.Tensor) else list(wanted)
        for module in modules:
            found = module(rl.arange(float(n)), rl.arange(float(m)))
            found = [found] if isinstance(found, rl.Tensor) else list(found)
            assert all(map(rl.equal, found, wanted)), (n, m)
        theirs = read(torch.arange(float(n)), torch.arange(float(m)))
        theirs = [theirs] if isinstance(theirs, torch.Tensor) else list(theirs)
        assert [list(one.shape) for one in theirs] == [
            list(one.shape) for one in wanted
        ]


def test_which_of_two_sizes_is_the_smaller_is_no_fact_about_them():
    class Program(rl.nn.Module):
        def forward(self, x):
            return rl.linalg.lu(x)[1]

    given = rl.eye(9)[:3, :7] + 1
    sizes = {0: rl.export.Dim.DYNAMIC, 1: rl.export.Dim.DYNAMIC}
    program = rl.export.export(Program(), (given,), dynamic_shapes=(sizes,))
    (rows, columns), _ = sizes_of(program)
    assert (str(rows), str(columns)) == ("s77", "Min(s27, s77)")
    assert program.module()(rl.eye(9)[:, :4]).shape == (9, 4)


def test_a_size_below_what_a_formula_holds_for_is_refused():
    class Program(rl.nn.Module):
        def forward(self, x):
            return x[5:] + 1, x.chunk(2)[1]

    least = rl.export.Dim("n", min=3)
    with pytest.raises(RuntimeError, match="n = Dim\\('n', min=5\\)"):
        rl.export.export(Program(), (rl.ones(9),), dynamic_shapes=({0: least},))
