"""Adaptive softmax, linear cross entropy and the older channel norm, by the oracle."""

from __future__ import annotations

import itertools

import pytest

import rushlight as rl
from tests.nn.sides import assert_same_on_both_sides


def test_adaptive_softmax_is_the_oracles():
    def program(m):
        layer = m.nn.AdaptiveLogSoftmaxWithLoss(
            8, 20, [5, 10, 15], div_value=2.0, head_bias=True
        )
        input = m.randn(6, 8, requires_grad=True)
        result = layer(input, m.tensor([0, 4, 7, 19, 12, 5]))
        result.loss.backward()
        single = layer(input[0], m.tensor(17))
        return (
            list(result),
            result._fields,
            input.grad,
            [each.grad for each in layer.parameters()],
            list(single),
            layer.log_prob(input),
            layer.predict(input),
            repr(layer),
        )

    assert_same_on_both_sides(program)


@pytest.mark.parametrize(
    "shapes", [((2, 4), (3,)), ((4,), (4,)), ((2, 4), ()), ((2, 4), (2, 2))], ids=str
)
def test_adaptive_softmax_refuses_what_the_oracle_refuses(shapes):
    def program(m):
        layer = m.nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2])
        return layer(m.ones(shapes[0]), m.zeros(shapes[1], dtype=m.int64))

    assert assert_same_on_both_sides(program)[0] == "RuntimeError"


@pytest.mark.parametrize(
    "cutoffs", [[], [3, 2], [0, 2], [2, 2], [6], [1.5], [2, 5]], ids=str
)
def test_cutoffs_are_checked_as_by_the_oracle(cutoffs):
    assert_same_on_both_sides(
        lambda m: m.nn.AdaptiveLogSoftmaxWithLoss(4, 6, cutoffs).head_size
    )


def test_targets_out_of_range_are_refused():
    layer = rl.nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2])
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 5\]"):
        layer(rl.ones(2, 4), rl.tensor([1, 6]))


OPTIONS = [
    None,
    {},
    {"batch_chunk_size": 2},
    {"chunking_method": "aspect_ratio:2", "allow_retain_graph": True},
    {"acc_policy": "accurate"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_linear_cross_entropy_is_the_oracles(options, reduction):
    def program(m):
        results = []
        for bias, weighted, ignore in itertools.product(
            (False, True), (False, True), (None, 2)
        ):
            chosen = None
            if options is not None:
                chosen = m.nn.LinearCrossEntropyOptions(**options)
            loss = m.nn.LinearCrossEntropyLoss(
                3,
                5,
                bias=bias,
                weight=m.arange(1.0, 6.0) if weighted else None,
                reduction=reduction,
                ignore_index=ignore,
                options=chosen,
            )
            input = m.randn(7, 3, requires_grad=True)
            result = loss(input, m.tensor([0, 1, 2, 3, 4, 2, 1]))
            (result * m.arange(1.0, 1.0 + result.numel())).sum().backward()
            results += [result, input.grad, *(p.grad for p in loss.parameters())]
            results.append(loss(input[0], m.tensor(3)))
        return results

    assert_same_on_both_sides(program)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_linear_cross_entropy_in_parts_is_differentiated_twice(reduction):
    options = rl.nn.LinearCrossEntropyOptions(
        batch_chunk_size=2, allow_retain_graph=True
    )
    rl.manual_seed(0)
    tensors = [rl.randn(*s, dtype=rl.float64) for s in ((5, 3), (4, 3), (4,))]

    def loss(input, weight, bias):
        return rl.nn.functional.linear_cross_entropy(
            input,
            weight,
            rl.tensor([0, 3, 1, 1, 2]),
            linear_bias=bias,
            reduction=reduction,
            options=options,
        )

    inputs = [x.requires_grad_() for x in tensors]
    assert rl.autograd.gradcheck(loss, inputs)
    assert rl.autograd.gradgradcheck(loss, inputs)


def test_linear_cross_entropy_of_positions_and_probabilities_is_the_oracles():
    def program(m):
        loss = m.nn.LinearCrossEntropyLoss(
            3, 4, out_features=(2, 3), label_smoothing=0.1, bias=True
        )
        input = m.randn(5, 3)
        labels = m.arange(30).reshape(5, 2, 3) % 4
        shares = m.rand(5, 4, 2, 3).softmax(1)
        return loss(input, labels), loss(input, shares), repr(loss)

    assert_same_on_both_sides(program)


FAULTS = {
    "a cube of inputs": lambda m, f: f(m.ones(1, 2, 3), m.ones(4, 3), m.tensor([0])),
    "a vector of weights": lambda m, f: f(m.ones(2, 3), m.ones(3), m.tensor([0, 1])),
    "other features": lambda m, f: f(m.ones(2, 3), m.ones(4, 2), m.tensor([0, 1])),
    "another bias": lambda m, f: f(
        m.ones(2, 3), m.ones(4, 3), m.tensor([0, 1]), linear_bias=m.ones(3)
    ),
    "positions without a batch": lambda m, f: f(
        m.ones(3), m.ones(4, 2, 3), m.tensor([0, 1])
    ),
    "ignoring probabilities": lambda m, f: f(
        m.ones(2, 3), m.ones(4, 3), m.ones(2, 4), ignore_index=1
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_linear_cross_entropy_refuses_what_the_oracle_refuses(name):
    call = FAULTS[name]
    found = assert_same_on_both_sides(
        lambda m: call(m, m.nn.functional.linear_cross_entropy)
    )
    assert found[0] == "RuntimeError"


@pytest.mark.parametrize(
    "options",
    [
        {"acc_policy": "other"},
        {"chunking_method": "aspect_ratio:0"},
        {"chunking_method": "rows"},
        {"batch_chunk_size": 0},
        {"acc_dtype": int},
    ],
    ids=str,
)
def test_unknown_options_are_refused_as_by_the_oracle(options):
    found = assert_same_on_both_sides(
        lambda m: m.nn.LinearCrossEntropyOptions(**options) and None
    )
    assert found[0] == "ValueError"


def test_gradients_computed_early_are_used_once_unless_asked():
    loss = rl.nn.LinearCrossEntropyLoss(
        3, 5, options=rl.nn.LinearCrossEntropyOptions(batch_chunk_size=1)
    )
    result = loss(rl.ones(2, 3), rl.tensor([0, 1]))
    result.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward a second time"):
        result.backward()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("channels", [1, 3, 7])
def test_the_older_channel_norm_is_the_oracles(size, channels):
    def program(m):
        layer = m.nn.CrossMapLRN2d(size, alpha=0.5, beta=0.6, k=2)
        return layer(m.randn(2, channels, 3, 2)), repr(layer)

    assert_same_on_both_sides(program)


def test_the_older_channel_norm_has_its_own_gradient():
    layer = rl.nn.CrossMapLRN2d(3, alpha=0.5)
    input = rl.randn(1, 5, 2, 2, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(layer, (input,))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_soft_margins_bend_as_in_double_precision(dtype, reduction):
    """Nothing cancels where the slope hardly changes: far from the margin."""

    def second(m, dtype):
        x = m.tensor([1.0, -1.09375, -2.0, 0.25], dtype=dtype, requires_grad=True)
        y = m.tensor([4.0, 4.0, 2.5, -1.0], dtype=dtype)
        loss = m.nn.functional.soft_margin_loss(x, y, reduction=reduction)
        (slope,) = m.autograd.grad(loss.sum(), x, create_graph=True)
        return m.autograd.grad(slope.sum(), x)[0].double()

    exact = second(rl, rl.float64)
    gap = (second(rl, getattr(rl, dtype)) - exact).abs() / exact
    assert gap.max() < {"float16": 0.02, "bfloat16": 0.1, "float32": 1e-5}[dtype]
