"""Running statistics of odd types and of infinite batches, beside the oracle's."""

import itertools

import pytest

import rushlight as rl

TYPES = ("float32", "float64", "int64", "bfloat16")


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_statistics_of_two_types_go_as_on_pytorch(dtype, training):
    torch = pytest.importorskip("torch")

    def outcome(m, first, second):
        x = m.arange(24).reshape(2, 3, 4).to(getattr(m, dtype))
        mean = m.zeros(3, dtype=getattr(m, first))
        var = m.ones(3, dtype=getattr(m, second))
        try:
            m.nn.functional.instance_norm(x, mean, var, use_input_stats=training)
        except RuntimeError as error:
            return str(error).split("\n")[0]
        return [round(v, 1) for v in mean.tolist() + var.tolist()]

    for pair in itertools.product(TYPES, TYPES):
        assert outcome(rl, *pair) == outcome(torch, *pair), pair


@pytest.mark.parametrize("momentum", [0.1, -1.0, 0.5])
@pytest.mark.parametrize("limit", [float("inf"), -float("inf")])
def test_running_means_of_infinite_elements_are_infinite(limit, momentum):
    torch = pytest.importorskip("torch")
    kept = []
    for m in (rl, torch):
        x = m.arange(24).reshape(2, 3, 4).float()
        x[0, 1, 2] = limit
        mean, var = m.zeros(3), m.ones(3)
        m.nn.functional.batch_norm(x, mean, var, training=True, momentum=momentum)
        kept.append(str(mean.tolist() + var[[0, 2]].tolist()))
    assert kept[0] == kept[1]
