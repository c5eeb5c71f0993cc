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
