"""Functions of layers beside PyTorch: types, layouts, random streams, odd numbers."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

PAIRS = (
    *(("uint8",) * 2, ("int64",) * 2, ("float16",) * 2),
    *(("float32",) * 2, ("float64",) * 2, ("float32", "float64"), ("int64", "float32")),
    *(("float64", "float32"), ("float32", "int64"), ("float32", "uint8")),
    *(("float32", "complex64"), ("float16", "float32"), ("uint8", "int64")),
)


def losses(module):
    """Losses of an input and a target of one shape."""
    functions = module.nn.functional

    def with_variance(input, target, reduction):
        var = module.ones_like(input)
        return functions.gaussian_nll_loss(input, target, var, reduction=reduction)

    def of_triplets(input, target, reduction):
        return functions.triplet_margin_loss(input, target, target, reduction=reduction)

    def of_ranks(input, target, reduction):
        return functions.margin_ranking_loss(input, input, target, reduction=reduction)

    def of_pairs(input, target, reduction):
        return functions.cosine_embedding_loss(
            input, input, target[:, 0], reduction=reduction
        )

    def without_parabola(input, target, reduction):
        return functions.smooth_l1_loss(input, target, beta=0, reduction=reduction)

    named = (
        "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div",
        "binary_cross_entropy_with_logits", "poisson_nll_loss", "soft_margin_loss",
        "hinge_embedding_loss", "multilabel_soft_margin_loss", "cross_entropy",
    )  # fmt: skip
    table = {name: getattr(functions, name) for name in named}
    made = (with_variance, of_triplets, of_ranks, of_pairs, without_parabola)
    return table | {function.__name__: function for function in made}


def outcome(module, function, *args, **kwargs):
    """The dtype and shape of a result, or the class of the exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return str(result.dtype).rpartition(".")[2], tuple(result.shape)


@pytest.mark.parametrize("name", losses(rl))
def test_losses_of_all_types_have_the_oracles_types_and_refusals(name):
    values = [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]
    for (first, second), reduction in itertools.product(PAIRS, ("none", "mean", "sum")):
        found = []
        for module in (torch, rl):
            input = module.tensor(values).to(getattr(module, first))
            target = module.tensor(values[::-1]).to(getattr(module, second))
            loss = losses(module)[name]
            found.append(outcome(module, loss, input, target, reduction=reduction))
        expected, ours = found
        if expected != "NotImplementedError" or isinstance(ours, str):
            assert ours == expected, (first, second, reduction)


DROPOUTS = (
    ("dropout", 4), ("dropout1d", 3), ("dropout1d", 2), ("dropout2d", 4),
    ("dropout3d", 5), ("dropout3d", 4), ("alpha_dropout", 4),
    ("feature_alpha_dropout", 4), ("feature_alpha_dropout", 1),
)  # fmt: skip


def dropped(module, name, ndim, dtype, p, inplace, layout):
    """What a dropout gives for a fixed seed: values, strides, gradient."""
    sizes = [2, 3, 4, 5, 2][:ndim]
    module.manual_seed(3)
    input = module.arange(int(np.prod(sizes))).remainder(7).reshape(sizes)
    input = input.to(getattr(module, dtype))
    if layout == "channels_last":
        input = input.contiguous(memory_format=module.channels_last)
    elif layout == "transposed":
        input = input.transpose(0, -1)
    if dtype.startswith("float") and not inplace:
        input.requires_grad_()
    try:
        result = getattr(module.nn.functional, name)(input, p, True, inplace)
    except (RuntimeError, NotImplementedError) as error:
        return type(error).__name__
    gradient = None
    if result.requires_grad:
        result.sum().backward()
        gradient = input.grad.double().tolist()
    values = result.detach().to(module.complex128).tolist()
    return values, result.stride(), tuple(result.shape), gradient, result is input


@pytest.mark.parametrize(("name", "ndim"), DROPOUTS)
@pytest.mark.parametrize("inplace", [False, True])
def test_dropout_draws_the_oracles_stream_in_every_type_and_layout(name, ndim, inplace):
    layouts = ("rows", "transposed", *(["channels_last"] if ndim == 4 else []))
    types = ("bool", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
    for dtype, p, layout in itertools.product(types, (0, 0.3, 0.5, 1.0), layouts):
        case = name, ndim, dtype, p, inplace, layout
        assert dropped(rl, *case) == dropped(torch, *case), case


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_infinite_weights_count_only_where_their_tap_lies_on_an_element(
    transposed, bad
):
    draw = np.random.default_rng(5)
    settings = (
        ([3, 3], 1, 1, 1), ([3, 2], [2, 3], [1, 0], 1), ([2, 3], 1, 2, 2),
        ([3], 2, 1, 1), ([2, 2, 3], [1, 2, 1], 1, 1), ([1, 1], 2, 0, 1),
    )  # fmt: skip
    for kernel, stride, padding, dilation in settings:
        x = draw.normal(size=(2, 4, *[6, 5, 4][: len(kernel)]))
        w = draw.normal(size=(4, 2, *kernel))
        w.flat[draw.integers(w.size)] = bad
        kind = "conv_transpose" if transposed else "conv"
        found = []
        for module in (torch, rl):
            input = module.from_numpy(x.copy()).requires_grad_()
            weight = module.from_numpy(w.copy()).requires_grad_()
            function = getattr(module.nn.functional, f"{kind}{len(kernel)}d")
            result = function(
                *(input, weight, None, stride, padding), groups=2, dilation=dilation
            )
            result.backward(module.ones_like(result))
            found.append([result.detach(), input.grad, weight.grad])
        for theirs, ours in zip(*found, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9)


def test_a_huge_stride_has_a_gradient():
    input = rl.ones(1, 2, 8, requires_grad=True)
    weight = rl.ones(2, 2, 3, requires_grad=True)
    rl.nn.functional.conv1d(input, weight, stride=2**31, padding=1).sum().backward()
    assert input.grad[0, 0].tolist() == [2, 2, 0, 0, 0, 0, 0, 0]
    assert weight.grad[0, 0].tolist() == [0, 1, 1]


def chains(module):
    """Functions whose gradients PyTorch computes from sizes, or from what they save."""
    functions = module.nn.functional

    def leaf(*sizes):
        return module.full(sizes, 0.5, requires_grad=True)

    return {
        "one_mean": lambda: functions.adaptive_avg_pool1d(leaf(1, 2, 6), 1),
        "one_mean_2d": lambda: functions.adaptive_avg_pool2d(leaf(1, 2, 4, 4), 1),
        "means": lambda: functions.adaptive_avg_pool1d(leaf(1, 2, 6), 3),
        "nearest": lambda: functions.interpolate(leaf(1, 2, 4), scale_factor=2),
        "area": lambda: functions.interpolate(leaf(1, 2, 4, 4), 2, mode="area"),
        "bicubic": lambda: functions.interpolate(leaf(1, 2, 4, 4), 6, mode="bicubic"),
        "constant": lambda: functions.pad(leaf(1, 2, 6), (1, 2)),
        "reflect": lambda: functions.pad(leaf(1, 2, 6), (1, 2), "reflect"),
        "shuffle": lambda: functions.pixel_shuffle(leaf(1, 4, 2, 2), 2),
        "unfold": lambda: functions.unfold(leaf(1, 2, 4, 4), 2),
        "fold": lambda: functions.fold(leaf(1, 4, 9), (4, 4), 2),
        "mse": lambda: functions.mse_loss(leaf(3), module.ones(3)),
        "margin": lambda: functions.soft_margin_loss(leaf(3), module.ones(3)),
    }


def goes_back_twice(function):
    total = function().sum()
    total.backward()
    try:
        total.backward()
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("name", chains(rl))
def test_a_graph_serves_twice_where_the_oracles_does(name):
    theirs = goes_back_twice(chains(torch)[name])
    # PyTorch saves the input of reflections, of which only the sizes are wanted
    assert goes_back_twice(chains(rl)[name]) >= theirs


@pytest.mark.parametrize("kind", ["float32", "bool"])
def test_masks_that_hide_every_key_give_zeros(kind):
    found = []
    for module in (torch, rl):
        query = module.arange(12, dtype=module.float32).reshape(1, 3, 4) / 10
        if kind == "bool":
            mask = module.tensor([[True, False], [False, False], [True, True]])
        else:
            mask = module.tensor([[0.0, 1.0], [-np.inf, -np.inf], [-np.inf, 0.0]])
        attend = module.nn.functional.scaled_dot_product_attention
        found.append(attend(query, query[:, :2], query[:, 1:], mask).numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_running_statistics_keep_infinities_as_the_oracle_does():
    found = []
    for module in (torch, rl):
        mean, var = module.tensor([1.0, -np.inf]), module.tensor([np.inf, 2.0])
        input = module.arange(12, dtype=module.float32).reshape(2, 2, 3)
        module.nn.functional.batch_norm(input, mean, var, training=True)
        found.append([mean.numpy(), var.numpy()])
    np.testing.assert_array_equal(found[1], found[0])


def test_padding_and_shuffling_keep_the_oracles_strides():
    calls = {
        "constant": lambda f, x: f.pad(x, (1, 2, 0, 1)),
        "cut": lambda f, x: f.pad(x, (-1, 0, 0, -1)),
        "reflect": lambda f, x: f.pad(x, (1, 1, 1, 1), "reflect"),
        "shuffle": lambda f, x: f.pixel_shuffle(x, 1),
        "unshuffle": lambda f, x: f.pixel_unshuffle(x, 1),
        "spread": lambda f, x: f.pixel_shuffle(x, 2),
        "norm": lambda f, x: f.batch_norm(x, None, None, training=True),
        "one": lambda f, x: f.adaptive_avg_pool2d(x, 1),
    }
    for (name, call), sizes, last in itertools.product(
        calls.items(), ((2, 4, 6, 6), (1, 4, 6, 1), (1, 4, 1, 6)), (False, True)
    ):
        found = []
        for module in (torch, rl):
            input = module.ones(*sizes)
            if last:
                input = input.contiguous(memory_format=module.channels_last)
            try:
                result = call(module.nn.functional, input)
            except RuntimeError:
                found.append(None)
            else:
                found.append((tuple(result.shape), result.stride()))
        assert found[0] == found[1], (name, sizes, last)
