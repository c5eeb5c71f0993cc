"""Operators from outside that write to arguments, in graphs; and what is said of them."""

import logging

import pytest

import rushlight as rl
from rushlight.library import custom_op


@custom_op("mutating_tests::add_to", mutates_args=("x",))
def add_to(x: rl.Tensor, y: rl.Tensor) -> None:
    x.add_(y)


@custom_op("mutating_tests::add_and_scale", mutates_args=("x",))
def add_and_scale(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
    x.add_(y)
    return x * y


add_and_scale.register_fake(lambda x, y: rl.empty_like(x))


def program(x):
    y = x.clone()
    add_to(y[:2], x[:2])
    z = add_and_scale(y, x)
    return y + 10 * z


def test_a_compiled_function_is_one_graph_and_writes_what_the_function_writes():
    compiled = rl.compile(program, fullgraph=True)
    for factor in (1.0, 2.0, 3.0):
        x = rl.arange(3.0) * factor + 1
        assert rl.equal(compiled(x), program(x))


def test_an_exported_program_keeps_what_operators_write():
    class Program(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", rl.zeros(3))

        def forward(self, x):
            add_to(self.total, x)
            return program(x) + self.total

    x = rl.arange(3.0) + 1
    expected = program(x)
    exported = rl.export.export(Program(), (x,))
    calls = 0  # both have one buffer
    for one in (exported, exported.run_decompositions()):
        module = one.module()
        for _ in range(2):
            calls += 1
            assert rl.equal(module(x), expected + calls * x)
    names = [str(node.target) for node in exported.run_decompositions().graph.nodes]
    assert names.count("auto_functionalized_v2") == 3


def test_functionalized_operators_do_not_write_to_what_is_given():
    x = rl.ones(3)
    found = rl.func.functionalize(program)(x)
    assert rl.equal(found, program(x)) and rl.equal(x, rl.ones(3))


@pytest.mark.parametrize("op", [add_to, add_and_scale])
def test_operators_that_write_pass_the_check_of_operators(op):
    found = rl.library.opcheck(op, (rl.ones(2), rl.ones(2)))
    assert set(found.values()) == {"SUCCESS"}


def test_autocast_casts_what_an_operator_from_outside_is_given():
    @custom_op("mutating_tests::sine", mutates_args=())
    def sine(x: rl.Tensor) -> rl.Tensor:
        return x.sin()

    sine.register_autocast("cpu", rl.bfloat16)
    with rl.autocast("cpu"):
        assert sine(rl.ones(1)).dtype is rl.bfloat16
        assert sine(rl.ones(1, dtype=rl.float64)).dtype is rl.float64
    assert sine(rl.ones(1)).dtype is rl.float32
    with pytest.raises(ValueError, match="Unknown device type: tpu"):
        rl.library.register_autocast("mutating_tests::sine", "tpu", rl.bfloat16)
    with pytest.raises(ValueError, match="unexpected type for op"):
        rl.library.register_autocast(3, "cpu", rl.bfloat16)


def test_a_kernel_is_disabled_in_a_block(caplog):
    @custom_op("mutating_tests::twice", mutates_args=())
    def twice(x: rl.Tensor) -> rl.Tensor:
        return x * 2

    twice.register_kernel("cpu", lambda x: x * 3)
    assert twice(rl.ones(1)).item() == 3
    with twice.set_kernel_enabled("cpu", enabled=False):
        assert twice(rl.ones(1)).item() == 2
    assert twice(rl.ones(1)).item() == 3
    with caplog.at_level(logging.WARNING):
        with twice.set_kernel_enabled("cuda", enabled=False):
            pass
    assert "no kernel was registered" in caplog.text


def test_results_that_are_new_are_none_of_what_was_written_to():
    schema = rl.ops.mutating_tests.add_and_scale.default._schema
    assert str(schema).endswith("(Tensor(a!) x, Tensor y) -> Tensor")
    x = rl.ones(2)
    assert add_and_scale(x, x + 1) is not x and x.tolist() == [3.0, 3.0]
