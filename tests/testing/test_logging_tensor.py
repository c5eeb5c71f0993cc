"""The logging mode and type tell each operator below autograd, in order."""

import rushlight as rl
from rushlight.testing._internal.logging_tensor import (
    LoggingTensor,
    LoggingTensorMode,
    capture_logs,
    capture_logs_with_logging_tensor_mode,
    log_input,
)


def names(lines):
    return [line.split(" = ")[1].split("(")[0].partition("aten.")[2] for line in lines]


def test_the_type_logs_forward_and_backward_passes():
    with capture_logs() as lines:
        x = LoggingTensor(rl.tensor([3.0]), requires_grad=True)
        log_input("x", x)
        (x * x).sum().backward()
    assert lines[:2] == [
        "$0: f32[1] = input('x')",
        "$1: f32[1] = rushlight._ops.aten.mul.Tensor($0, $0)",
    ]
    assert "expand.default" in names(lines[2:])
    assert x.grad.elem.tolist() == [6.0]


def test_the_mode_logs_what_a_block_calls_and_nothing_after_it():
    with capture_logs(is_mode=True) as lines:
        with LoggingTensorMode():
            values, places = rl.ones(2).max(0)
        rl.ones(3)
    assert names(lines) == ["ones.default", "max.dim"]
    assert lines[1].startswith("('$1: f32[]', '$2: i64[]')")


def test_modes_nest_with_the_default_device():
    with capture_logs_with_logging_tensor_mode() as lines, rl.device("meta"):
        made = rl.ones(2) * 2
    assert made.is_meta
    assert names(lines) == ["ones.default", "mul.Tensor"]


def test_results_in_lists_are_numbered_each():
    with capture_logs(is_mode=True) as lines, LoggingTensorMode():
        rl.split(rl.ones(2), 1)
    assert lines[1].startswith("['$1: f32[1]', '$2: f32[1]']")
