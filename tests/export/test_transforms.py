"""Programs with `vmap` and `grad` inside record each step once, and nothing of the example."""

import pytest

import rushlight as rl
from rushlight import func
from rushlight.export import export

PROGRAMS = {
    "vmap": (
        lambda x: func.vmap(lambda row: row.sin() + 1)(x),
        "sin add",
    ),
    "grad": (
        lambda x: func.grad(lambda x: (x * x).sum())(x),
        "mul sum ones_like expand mul mul add",
    ),
    "jvp": (lambda x: func.jvp(rl.sin, (x,), (x,))[1], "sin cos mul"),
    "vmap within vmap": (
        lambda x: func.vmap(func.vmap(lambda one: one * 2))(x).sum(), "mul sum",
    ),
    "gradients of examples": (
        lambda x: func.vmap(func.grad(lambda row: (row.sin() * row).sum()))(x), None,
    ),
    "jacrev": (lambda x: func.jacrev(lambda row: row.sin() * row.sum())(x[0]), None),
    "hessian": (lambda x: func.hessian(lambda row: (row**3).sum())(x[0]), None),
    "products": (
        lambda x: func.vmap(lambda row: rl.softmax(row @ x.t(), 0))(x), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_under_a_transform_are_those_that_it_calls(name):
    function, steps = PROGRAMS[name]

    class Program(rl.nn.Module):
        def forward(self, x):
            return function(x)

    program = export(Program(), (rl.randn(3, 2),))
    assert not program.constants, "a tensor of the example is in the program"
    found = [one.target for one in program.graph.nodes if one.op == "call_function"]
    if steps is not None:
        assert [one._opname for one in found] == steps.split()
    x = rl.randn(3, 2)
    assert rl.allclose(program.module()(x), function(x), 1e-5, 1e-5)
