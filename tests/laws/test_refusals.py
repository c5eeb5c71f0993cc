"""What fits is taken and what doesn't is refused, with the oracle's exception."""

import math

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def power_of_itself(module, part):
    base = module.arange(1.0, 4.0, dtype=module.float64)
    return base.float_power_(base[part])


CALLS = {
    "random integers of a complex type": lambda m: m.randint_like(
        m.ones(2, dtype=m.complex64), 10
    ),
    "an empty range of a complex type": lambda m: m.randint_like(
        m.ones(2, dtype=m.complex64), 10, 5
    ),
    "a complex size in place": lambda m: m.ones(2, dtype=m.complex64).abs_(),
    "complex sizes in place": lambda m: m.ones(2, dtype=m.complex64).absolute_(),
    "a complex permutation": lambda m: m.randperm(4, dtype=m.complex64),
    "a permutation of truth values": lambda m: m.randperm(4, dtype=m.bool),
    "a shift of no dimension": lambda m: m.fft.fftshift(m.ones(()), 0),
    "a shift of a dimension too many": lambda m: m.fft.ifftshift(m.ones(3), 1),
    "a complex band": lambda m: m.nn.functional.softshrink(m.ones(2), 1j),
    "a complex order": lambda m: m.renorm(m.ones(2, 2), 1j, 1, 1),
    "a complex limit": lambda m: m.renorm(m.ones(2, 2).cfloat(), 1, 1, 1j),
    "bins up to nan of integers": lambda m: m.histc(m.tensor([1]), 3, 0, math.nan),
    "no bins of integers": lambda m: m.histc(m.tensor([1]), 0),
    "bins of integers": lambda m: m.histc(m.tensor([1]), 3),
    "a type beside one in place": lambda m: m.ones(2).cumsum_(0, dtype=m.float64),
    "an integer beside one in place": lambda m: m.ones(2).cumprod_(0, dtype=m.int64),
    "its own type in place": lambda m: m.ones(2).cumsum_(0, dtype=m.float32),
    "out where there is none": lambda m: m.stft(
        m.ones(100), 16, return_complex=True, out=None
    ),
    "one weight for three classes": lambda m: m.nn.functional.cross_entropy(
        m.ones(2, 3), m.ones(2, 3), weight=m.ones(1)
    ),
    "a row of weights": lambda m: m.nn.functional.cross_entropy(
        m.ones(2, 3), m.ones(2, 3), weight=m.ones(1, 3)
    ),
    "a mask of another type": lambda m: m.nn.MultiheadAttention(2, 1).double()(
        *[m.ones(3, 1, 2, dtype=m.float64)] * 3, attn_mask=m.zeros(3, 3)
    ),
    "a window that may want gradients": lambda m: m.signal.windows.hann(
        3, requires_grad=None
    ),
    "a straight window that may": lambda m: m.signal.windows.bartlett(
        3, requires_grad=None
    ),
    "statistics that want gradients": lambda m: m.native_batch_norm(
        m.ones(2, 1), None, None, m.ones(1), m.ones(1, requires_grad=True), True, 0.1, 1
    ),
    "a tensor for a split's size": lambda m: m.arange(5).split(m.tensor(2.0))[1],
    "less than no dropout": lambda m: m.nn.functional.scaled_dot_product_attention(
        *[m.ones(2, 3, 4)] * 3, dropout_p=-1
    ),
    "a truth value for a width": lambda m: m.trapz(m.ones(3), dx=False),
    "huge statistics": lambda m: m.native_batch_norm(
        m.ones(2, 1), None, None, m.ones(1), m.ones(1), True, 1e40, 1e40
    )[0],
    "a list for a dtype": lambda m: m.normal(1.6, 0.3, [2], dtype=[2, 2]),
    "no tensor": lambda m: m.nn.functional.adaptive_avg_pool3d(
        np.float32(2), (5, 7, 4)
    ),
    "places counted around": lambda m: m.take_along_dim(
        m.arange(5)[None], m.tensor([[7, -13], [5, 9]]), 1
    ),
    "places not counted around": lambda m: m.take_along_dim(
        m.arange(5), m.tensor([-1, 2])
    ),
    "places in a transposed matrix": lambda m: m.take_along_dim(
        m.arange(4).reshape(2, 2).T, m.tensor([1])
    ),
    "a place in a number": lambda m: m.take_along_dim(m.tensor(3.0), m.tensor(7), 0),
    "a margin beyond int64": lambda m: m.nn.functional.triplet_margin_loss(
        m.ones(3), m.ones(3), m.ones(3), margin=10**30
    ),
    "a margin beyond doubles": lambda m: m.nn.functional.triplet_margin_loss(
        m.ones(3), m.ones(3), m.ones(3), margin=10**400
    ),
    "wrapping around what is cut": lambda m: m.nn.functional.pad(
        m.ones(1, 1, 3), (2, -2), "circular"
    ),
    "wrapping around nothing": lambda m: m.nn.functional.pad(
        m.ones(1, 0, 3), (2, -2), "circular"
    ),
    "wrapping once": lambda m: m.nn.functional.pad(
        m.arange(4.0)[None, None], (2, -2), "circular"
    ),
    "cutting everything": lambda m: m.nn.functional.pad(
        m.ones(1, 1, 3), (-3, 0), "circular"
    ),
    "targets of the wrong type and size": lambda m: m.nn.functional.nll_loss(
        m.ones(3), m.ones(3, dtype=m.int32)
    ),
    "targets of the wrong size": lambda m: m.nn.functional.nll_loss(
        m.ones(3), m.ones(3, dtype=m.int64)
    ),
    "a source of few dimensions": lambda m: m.scatter_add(
        m.ones(2, 2), 0, m.zeros(2, 2, dtype=m.int64), m.ones(2)
    ),
    "a small source of few dimensions": lambda m: m.scatter_add(
        m.ones(5, 5), 1, m.zeros(5, 2, dtype=m.int64), m.ones(2)
    ),
    "means of another type": lambda m: m.scatter_reduce(
        m.ones(2, dtype=m.bool), 0, m.tensor([0]), m.ones(1), "mean"
    ),
    "slices of uint64": lambda m: m.unique_consecutive(
        m.tensor([[8, 2**64 - 1], [8, 2**64 - 1], [0, 7]], dtype=m.uint64), dim=0
    ),
    "a norm along NumPy's number": lambda m: m.norm(m.ones(2, 3), 3, np.int64(1)),
    "a norm along a fraction": lambda m: m.norm(m.ones(2, 3), 3, 1.5),
    "a truth value behind a size": lambda m: m.zeros(2, True),
    "a truth value behind a size in a list": lambda m: m.ones(2, 3).view([6, True]),
    "a truth value before a size": lambda m: m.zeros(True, 2),
    "a truth value behind a dimension": lambda m: m.ones(2, 1).squeeze(0, True),
    "a dimension and a truth value that is the same": lambda m: m.ones(1).sum(
        (0, False)
    ),
    "a power that is part of the base": lambda m: power_of_itself(m, 0),
    "a power that is the base": lambda m: power_of_itself(m, slice(None)),
    "a power of single precision": lambda m: m.ones(2).float_power_(2),
    "a complex power": lambda m: m.ones(2).double().float_power_(2j),
    "a complex image": lambda m: m.grid_sampler_3d(
        m.ones(1, 1, 1, 1, 1).cfloat(), m.ones(1, 1, 1, 1, 3), 0, 0, True
    ),
    "empty vectors joined anywhere": lambda m: m.cat([m.ones(0), m.ones(0)], 64),
    "an empty vector and a vector": lambda m: m.cat([m.ones(0), m.ones(1)], 1),
    "no weights of no points": lambda m: m.signal.windows.general_cosine(0, a=3),
    "no weights of two points": lambda m: m.signal.windows.general_cosine(2, a=3),
}


def answer(call, module):
    """The elements of a result, or the name of the exception."""
    try:
        result = call(module)
    except Exception as error:
        return type(error).__name__, None
    return str(result.dtype).rpartition(".")[2], result.tolist()


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_taken_or_refused_as_by_the_oracle(name):
    assert answer(CALLS[name], rl) == answer(CALLS[name], torch)


@pytest.mark.parametrize("wish", [True, False, 1, 0.5, [2], "a", np.bool_(True)])
@pytest.mark.parametrize("name", ["cosine", "gaussian", "kaiser", "hann", "bartlett"])
def test_a_window_that_requires_grad_is_asked_for_with_a_truth_value(name, wish):
    def call(module):
        return getattr(module.signal.windows, name)(3, requires_grad=wish).detach()

    kind, values = answer(call, rl)
    expected_kind, expected = answer(call, torch)
    assert kind == expected_kind
    if values is not None:
        np.testing.assert_allclose(values, expected, atol=1e-6)


@pytest.mark.parametrize("pad", [(-3, 1), (3, -3), (2, -3)])
def test_circular_padding_is_refused_where_nothing_is_left(pad):
    with pytest.raises(RuntimeError, match="wrapping around more than once"):
        rl.nn.functional.pad(rl.ones(1, 1, 3), pad, "circular")


@pytest.mark.parametrize("dim", [0, -1, 5])
def test_empty_vectors_joined_anywhere_have_gradients(dim):
    parts = [rl.ones(0, requires_grad=True), rl.ones(0, requires_grad=True)]
    grads = rl.autograd.grad(rl.cat(parts, dim).sum(), parts)
    assert [tuple(each.shape) for each in grads] == [(0,), (0,)]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("wishes", [(0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 1, 0)])
def test_running_statistics_have_no_gradient(wishes, training):
    def call(module):
        x, mean, var = module.arange(6.0).reshape(3, 2), module.zeros(2), module.ones(2)
        for each, wish in zip((x, mean, var), wishes):
            each.requires_grad_(bool(wish))
        with module.enable_grad():
            result = module.nn.functional.batch_norm(x, mean, var, training=training)
        return result.detach().round()

    assert answer(call, rl) == answer(call, torch)


@pytest.mark.parametrize("missing", ["mean", "variance"])
def test_batch_norm_names_the_statistics_that_evaluation_lacks(missing):
    x, one = rl.ones(4, 3), rl.ones(3)
    given = (None, one) if missing == "mean" else (one, None)
    with pytest.raises(RuntimeError, match="must be defined in evaluation mode"):
        rl.nn.functional.batch_norm(x, *given)


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_sums_of_everything_take_no_output(name):
    with pytest.raises(TypeError, match="invalid combination"):
        getattr(rl, name)(rl.ones(3), out=rl.zeros(()))
    getattr(rl, name)(rl.ones(3), dim=0, out=rl.zeros(()))
