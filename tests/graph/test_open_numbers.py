"""Integers and sizes that change are arguments of graphs for backends, as in PyTorch."""

import random
import re

import pytest

import rushlight as rl
from rushlight._dynamo.backends.common import aot_autograd
from rushlight.fx.experimental.proxy_tensor import make_fx

torch = pytest.importorskip("torch")


def branch(lib, x, n):
    return x * n if n > 4 else x + n


PROGRAMS = {
    "a factor": (lambda lib, x, n: x * n, 4, (0, 1, 2, 3)),
    "a branch": (branch, 4, (3, 5, 7, 2)),
    "a float": (lambda lib, x, n: x * n, 4, (3.0, 5.0, 7.0)),
}


def calls_of(lib, program, size, numbers, dynamic):
    """How often a backend is called, after the program's results were compared."""
    lib._dynamo.reset()
    counter = lib._dynamo.testing.CompileCounter()
    compiled = lib.compile(
        lambda x, n: program(lib, x, n), backend=counter, dynamic=dynamic
    )
    x = lib.arange(float(size))
    for number in numbers:
        for _ in range(2):
            assert lib.equal(compiled(x, number), program(lib, x, number))
    return counter.frame_count


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_backend_is_called_as_often_as_pytorchs_for_numbers_that_change(name):
    import torch._dynamo.testing

    for dynamic in (None, True):
        ours, theirs = (calls_of(lib, *PROGRAMS[name], dynamic) for lib in (rl, torch))
        assert ours == theirs, dynamic
    program, size, numbers = PROGRAMS[name]
    assert calls_of(rl, program, size, numbers, False) == len(numbers)


def graphs_of(function, calls, **how):
    graphs = []

    def backend(graph, inputs):
        graphs.append((graph, inputs))
        return graph.forward

    compiled = rl.compile(function, backend=backend, **how)
    for args in calls:
        for _ in range(2):
            assert rl.equal(compiled(*args), function(*args))
    return graphs


def test_an_open_integer_is_a_named_argument_before_the_tensors():
    x = rl.ones(4)
    graphs = graphs_of(lambda x, n: (x * n).sum(0), [(x, 3), (x, 5), (x, 7)])
    assert len(graphs) == 2
    graph, inputs = graphs[1]
    inputs_of = [node.target for node in graph.graph.nodes if node.op == "placeholder"]
    assert inputs_of == ["s0", "arg0"]
    assert isinstance(inputs[0], rl.SymInt) and str(inputs[0]) == "s0"
    assert graph(*inputs)[0].item() == 20.0  # it computes as the integer that it was
    assert "sum.dim_IntList(mul, [0]" in graph.code


def test_dimensions_stay_constants_of_graphs():
    x = rl.rand(2, 3, 4)
    graphs = graphs_of(lambda x, n: x.sum(n), [(x, 0), (x, 1), (x, 2)], dynamic=True)
    assert len(graphs) == 3


def test_numbers_of_graphs_are_those_of_the_call_in_random_programs():
    draw = random.Random(7)
    steps = [
        lambda x, n, m: x * n + m,
        lambda x, n, m: x[: n + 1].sum() + x[m:],
        lambda x, n, m: x.view(-1).roll(n) - m,
        lambda x, n, m: rl.cat([x, rl.full((n,), float(m))]),
        lambda x, n, m: x.expand(m, x.shape[0]).sum(0) / max(n, 1),
    ]
    for _ in range(5):
        chosen = [draw.choice(steps) for _ in range(3)]

        def program(x, n, m, chosen=chosen):
            for step in chosen:
                x = step(x, n, m)
            return x * n

        calls = [
            (rl.rand(draw.randint(6, 9)), draw.randint(0, 3), draw.randint(1, 4))
            for _ in range(6)
        ]
        for dynamic in (None, True):
            graphs_of(program, calls, dynamic=dynamic)


MARKS = {"mark_dynamic": 2, "mark_unbacked": 2, "mark_static": 3}


@pytest.mark.parametrize("mark", MARKS)
def test_marked_sizes_are_open_or_fixed_as_in_pytorch(mark):
    from torch._dynamo import decorators

    found = []
    for lib, home in ((rl, rl._dynamo.decorators), (torch, decorators)):
        lib._dynamo.reset()
        counter = lib._dynamo.testing.CompileCounter()
        compiled = lib.compile(lambda x: x + 1, backend=counter)
        for rows, columns in ((3, 5), (4, 5), (6, 7), (6, 8)):
            x = lib.ones(rows, columns)
            getattr(home, mark)(x, 0)
            compiled(x)
        found.append(counter.frame_count)
    assert found[0] == found[1] == MARKS[mark]


def test_decompositions_that_ask_for_sizes_are_right_for_others():
    def mean(x, *args, **kwargs):
        return x.sum() / x.numel()

    def halved(x):
        return x * 2 if x.shape[0] > 7 else x * 0.5

    table = {rl.ops.aten.mean.default: mean, rl.ops.aten.relu.default: halved}
    backend = aot_autograd(fw_compiler=lambda g, i: g.forward, decompositions=table)
    compiled = rl.compile(lambda x, n: (x * n).mean() + x.relu().sum(), backend=backend)
    for size, n in ((6, 2), (6, 3), (8, 4), (12, 3), (5, 2)):
        x = rl.rand(size)
        for _ in range(2):
            given = compiled(x, n)
        wanted = (x * n).mean() + x.sum() * (2 if size > 7 else 0.5)
        assert rl.allclose(given, wanted), (size, n)


def test_arguments_that_stay_constants_are_int_and_not_symint_in_pytorch():
    from rushlight.dispatch.schema import STATIC_INTEGERS

    wrong = set()
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if schema.name == name or not hasattr(rl.ops.aten, name):
            continue
        found = re.findall(r"SymInt\S* (\w+)", str(schema).partition("->")[0])
        wrong |= {(name, one) for one in found if one in STATIC_INTEGERS}
    assert not wrong - {("_fft_c2c", "dim"), ("tile", "dims")}


def test_integers_are_arguments_of_symbolic_records():
    programs = [
        lambda x, n: x * n + n // 2,
        lambda x, n: x[:n].sum() + x.new_zeros(2 * n),
        lambda x, n: x + n % 3 * x.shape[0],
    ]
    for program in programs:
        graph = make_fx(program, tracing_mode="symbolic")(rl.rand(12), 3)
        for n in (4, 5, 9):
            x = rl.rand(11)
            assert rl.equal(graph(x, n), program(x, n))
