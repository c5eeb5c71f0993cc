"""Running statistics of odd types and of infinite batches, beside the oracle's."""

import itertools

import numpy as np
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


LAYOUTS = {
    "row-major": lambda m, x: x,
    "transposed": lambda m, x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "in gaps": lambda m, x: m.stack([x, x], -1).flatten(2)[:, :, ::2],
    "parameters in gaps": lambda m, x: x,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("training", [True, False])
def test_batches_with_strides_take_the_types_that_pytorch_s_do(training, layout):
    torch = pytest.importorskip("torch")

    def outcome(m, own, weight, mean, var):
        x = m.arange(24).reshape(2, 3, 4).to(getattr(m, own))
        x = LAYOUTS[layout](m, x)
        given = [
            None if kind is None else m.ones(6, dtype=getattr(m, kind))
            for kind in (weight, None, mean, var)
        ]
        step = 2 if layout == "parameters in gaps" else 1
        given = [one if one is None else one[: 3 * step : step] for one in given]
        try:
            found = m.native_batch_norm(x, *given, training, 0.1, 1e-5)
        except (RuntimeError, ValueError, NotImplementedError) as error:
            return type(error).__name__
        return [round(v, 2) for v in found[0].reshape(-1).tolist()]

    kinds = (None, "float32", "int64", "float64")
    for pair in itertools.product(("float32", "float64", "int64"), *[kinds] * 3):
        lone = (pair[2] is None) != (pair[3] is None)
        crashes = not training and pair[2] is pair[3] is None
        if not crashes and not (lone and pair[0] == "int64"):  # of two faults either
            assert outcome(rl, *pair) == outcome(torch, *pair), pair


CALLS = {
    "_native_batch_norm_legit": (True, 0.1, 1e-5),
    "_native_batch_norm_legit_no_training": (0.1, 1e-5),
    "_batch_norm_with_update": (0.1, 1e-5),
    "_batch_norm_no_update": (0.1, 1e-5),
    "native_batch_norm": (True, 0.1, 1e-5),
}


@pytest.mark.parametrize("name", CALLS)
def test_private_batch_norms_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        x = m.arange(24.0).reshape(2, 3, 4).sin().requires_grad_()
        weight, bias, mean, var = m.ones(3), m.zeros(3), m.zeros(3), m.ones(3)
        weight.requires_grad_()
        norm = getattr(m.ops.aten, name)
        parts = norm(x, weight, bias, mean, var, *CALLS[name])
        parts[0].square().sum().backward()
        kept = [*parts, mean, var, x.grad, weight.grad]
        found.append([(tuple(t.shape), str(t.dtype)[-5:]) for t in kept])
        found.append([t.detach().numpy() for t in kept])
    assert found[0] == found[2]
    for ours, theirs in zip(found[1], found[3], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


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


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("parameters", ["half", "float32"])
@pytest.mark.parametrize("short", ["float16", "bfloat16"])
def test_means_are_not_rounded_to_the_batchs_half_precision(
    short, parameters, training
):
    """Far from zero the rounding of a mean is more than the deviation."""
    rl.manual_seed(0)
    dtype = getattr(rl, short)
    kind = dtype if parameters == "half" else rl.float32
    x = (rl.randn(64, 3) * 0.3 + 100).to(dtype).requires_grad_()
    weight, bias = rl.tensor([1.3, 0.7, 2.0], dtype=kind), rl.zeros(3, dtype=kind)
    mean, var = rl.full((3,), 100.2, dtype=kind), rl.full((3,), 0.09, dtype=kind)
    exact = x.detach().double()
    m, v = (exact.mean(0), exact.var(0, correction=0)) if training else (mean, var)
    exact = (exact - m.double()) / (v.double() + 1e-5).sqrt() * weight.double()
    out = rl.nn.functional.batch_norm(x, mean, var, weight, bias, training)
    assert out.dtype is dtype
    steps = rl.finfo(dtype).eps * exact.abs().max()
    assert (out.double() - exact).abs().max() < steps
    if parameters == "float32" and training:  # what is left of 128 is rounding
        out.float().square().sum().backward()
        assert x.grad.float().abs().max() < 128 * rl.finfo(dtype).eps


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "batch_norm"])
@pytest.mark.parametrize("eps", [1e40, 1e300])
def test_an_eps_beyond_single_precision_is_added_in_double(name, eps):
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        x = m.tensor([[[1.0, 2, 4], [3, 5, 9]], [[2, 2, 7], [-3, 5, 1]]])
        function = getattr(m.nn.functional, name)
        if name == "batch_norm":
            out = function(x, None, None, training=True, eps=eps)
        else:
            out = function(x, 2 if name == "group_norm" else (3,), eps=eps)
        found.append([float(f"{number:.4g}") for number in out.flatten().tolist()])
    assert found[0] == found[1]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "sizes", [(0,), (0, 3), (2, 3, 0), (2, 0), (2, 0, 3), (2, 3, 4)]
)
def test_batches_without_elements_have_no_statistics(sizes, training):
    torch = pytest.importorskip("torch")
    found = []
    for m in (rl, torch):
        given = [m.ones((*sizes, 0)[1]) for _ in range(4)]
        try:
            result = m.native_batch_norm(m.ones(sizes), *given, training, 0.1, 1e-5)
            found.append([tuple(one.shape) for one in result])
        except (RuntimeError, IndexError) as error:
            found.append(str(error).split("\n")[0])
    assert found[0] == found[1]
