"""Steps write to memory that nobody reads any more, and to no other."""

import random

import pytest

import rushlight as rl
from rushlight._subclasses import FakeTensorMode
from rushlight.func import functionalize
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.fx.passes.reinplace import reinplace


def added(x):
    a = x.clone()
    a.add_(1)
    return a


def through_a_view(x):
    a = x.clone()
    a.view(-1).mul_(2)
    return a


def in_a_row(x):
    a = x.clone()
    a[1].add_(3)
    return a


def in_two_ways(x):
    a = rl_of(x).zeros(4, 4)
    a[:2].add_(x[:2])
    a[:, 1].mul_(2)
    return a, a.sum()


def read_later(x):
    y = x + 1
    z = y * 2
    return y + z


def chained(x):
    return (x + 1).sin().cos()


def in_a_part_of_a_part(x):
    a = x.clone()
    a[0][1:].add_(5)
    return a


def of_another_type(x):
    a = x + 1
    return a.double() + a, a > 0


def spread(x):
    return x.sum(0).expand(4, 4) + 1


def argument(x):
    return x.relu()


PROGRAMS = [added, through_a_view, in_a_row, in_two_ways, read_later, chained]
PROGRAMS += [in_a_part_of_a_part, of_another_type, spread, argument]


def rl_of(x):
    return rl if isinstance(x, rl.Tensor) else pytest.importorskip("torch")


def steps(graph):
    return [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]


def leaves(result):
    return list(result) if isinstance(result, tuple) else [result]


def right(graph, program, x):
    given = x.clone()
    for ours, wanted in zip(
        leaves(graph(given)), leaves(program(x.clone())), strict=True
    ):
        assert rl.equal(ours, wanted)
    assert rl.equal(given, x)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_steps_are_in_place_where_pytorchs_are(program):
    torch = pytest.importorskip("torch")
    from torch.func import functionalize as theirs
    from torch.fx.experimental.proxy_tensor import make_fx as their_make_fx
    from torch.fx.passes.reinplace import reinplace as their_reinplace

    x, y = rl.arange(16.0).view(4, 4), torch.arange(16.0).view(4, 4)
    ours = make_fx(functionalize(program, remove="mutations"))(x.clone())
    other = their_make_fx(theirs(program, remove="mutations"))(y.clone())
    before, wanted = steps(ours), steps(their_reinplace(other, y))
    ours = reinplace(ours, x)
    written = [one for one in steps(ours) if one.partition(".")[2].count("_.")]
    assert written == [one for one in wanted if one.partition(".")[2].count("_.")], (
        before
    )
    right(ours, program, x)


def test_arguments_may_be_without_elements():
    with FakeTensorMode() as mode:
        x = mode.from_tensor(rl.ones(2))
    graph = reinplace(make_fx(chained)(rl.ones(2)), x)
    assert steps(graph)[1:] == ["aten.sin_.default", "aten.cos_.default"]


def test_a_scatter_of_something_else_becomes_a_copy():
    def program(x):
        return rl.select_scatter(x.clone(), rl.zeros(4), 0, 1)

    x = rl.ones(4, 4)
    graph = reinplace(make_fx(program)(x), x)
    assert steps(graph)[-2:] == ["aten.select.int", "aten.copy_.default"]
    right(graph, program, x)


def test_memory_that_is_read_twice_at_once_is_not_written_to():
    def program(x):
        a = x.clone()
        return a + a.t()

    x = rl.arange(16.0).view(4, 4)
    graph = reinplace(make_fx(program)(x), x)
    assert "aten.add.Tensor" in steps(graph)
    right(graph, program, x)


def random_program(seed):
    def run(x):
        rng = random.Random(seed)
        values = [x.clone()]
        for _ in range(8):
            a, b = rng.choice(values), rng.choice(values)
            kind = rng.randrange(6)
            if kind == 0:
                values.append(a + b)
            elif kind == 1:
                values.append(a.sin())
            elif kind == 2:
                a[rng.randrange(4)].mul_(0.5)
            elif kind == 3:
                a[:, 1:3].add_(b[:, :2].clone())
            elif kind == 4:
                a.t().sub_(1)
            else:
                values.append(a.view(-1).flip(0).view(4, 4))
        return tuple(values[-2:])

    return run


def test_random_programs_give_the_same():
    x = rl.arange(16.0).view(4, 4)
    in_place = 0
    for seed in range(20):
        program = random_program(seed)
        graph = make_fx(functionalize(program, remove="mutations"))(x.clone())
        reinplace(graph, x)
        in_place += any("_." in one for one in steps(graph))
        right(graph, program, x)
    assert in_place > 10
