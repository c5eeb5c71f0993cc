"""Elementwise operators refuse, round and lay out operands as the oracle does."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rushlight as rl

from .test_strides import windows

torch = pytest.importorskip("torch", reason="the oracle is not installed")

inf, nan = float("inf"), float("nan")
TRUTH = [
    "t - 1", "1 - t", "t - t", "i - t", "t - i", "i - True", "f.sub(True)",
    "lib.rsub(i, True)", "t << t", "t >> t", "t.relu()", "t.ceil()", "t.floor()",
    "t.round()", "t.trunc()", "t.abs()", "lib.nn.functional.hardtanh(t)",
    "lib.nn.functional.relu6(t)", "lib.nn.functional.threshold(t, 1, 1)",
    "lib.nn.functional.softsign(t)", "lib.nn.functional.tanhshrink(t)",
    "lib.pow(t, t)", "lib.pow(True, t)", "lib.clamp(t, t, t)", "t.clamp(True)",
    "lib.addcmul(t, t, t)", "lib.mvlgamma(t, 1)", "t.square_()",
    "lib.ldexp(f, t)", "lib.gcd(t, t)", "lib.round(t, decimals=1)",
]  # fmt: skip
OTHERS = [
    "lib.add(i, i, alpha=0.5)", "lib.add(f, f, alpha=1j)", "lib.sub(i, i, alpha=True)",
    "lib.heaviside(f, d)", "lib.heaviside(z, z)", "lib.lerp(f, d, 0.5)",
    "lib.lerp(f, f, d)", "lib.lerp(i, i, 0.5)", "lib.lerp(i, i, i)",
    "lib.addcdiv(f, i, i)", "lib.addcdiv(i, i, i)", "lib.deg2rad(z)", "lib.rad2deg(z)",
    "f.float_power_(2)", "f[1:].clamp_(f[:-1])",
    "f[1:].clamp_(max=f[:-1])", "lib.nn.functional.glu(i[:2])",
    "lib.nn.functional.glu(f, None)", "lib.nn.functional.rrelu(1)",
    "lib.nn.functional.rrelu(f, 'mean')", "lib.nn.functional.rrelu(f, training=2)",
    "lib.nn.functional.logsigmoid(1)", "lib.cross(f, d)",
    "f.requires_grad_().conj_physical_()", "lib.div(0.5, i, out=i)",
    "i.polygamma_(1)", "lib.round(i, decimals=2)", "lib.round(f, decimals=2**64)",
    "lib.ldexp(f, 2)", "lib.minimum(f[:1], f, out=f[:1])",
    "lib.nn.functional.hardtanh(i.byte(), -1, 1)",
    "lib.nn.functional.silu(z.requires_grad_())", "lib.nan_to_num(z.requires_grad_())",
]  # fmt: skip
TOO_LARGE = [
    "lib.clamp(b, 300)", "lib.clamp(f, -1e40, 1)", "f.clamp_max_(1e40)",
    "lib.clamp_min(h, 1e10)", "lib.addcmul(f, f, f, value=1e40)",
    "lib.addcmul(b, b, b, value=-300)", "lib.addcdiv(f, f, f, value=1e40)",
    "lib.add(h, h, alpha=1e10)", "lib.sub(b, b, alpha=300)", "lib.pow(b, 300)",
    "lib.where(t, b, 300)", "lib.where(t, f, 1e40)", "lib.lerp(f, f, 1e40)",
    "lib.masked_fill(b, t, 300)", "lib.nn.functional.leaky_relu(f, 1e40)",
    "lib.nn.functional.elu(f, 1e40)", "lib.nn.functional.celu(f, 1e-40)",
    "lib.nn.functional.softplus(f, 1e40)", "lib.nn.functional.hardshrink(f, 1e40)",
    "lib.nn.functional.threshold(b, 1, 300)", "lib.nn.functional.hardtanh(h, -1e10, 1)",
]  # fmt: skip
TAKEN = [
    "t.square()", "t.pow(True)", "t.pow(2)", "t.pow(0)", "i.pow(1.0)", "b.pow(1)",
    "lib.pow(i, lib.tensor(-1))", "lib.pow(1, lib.tensor([1j, complex(nan, inf)]))",
    "lib.pow(1, lib.tensor([nan]))", "lib.pow(lib.tensor([nan]), 0j)",
    "lib.ldexp(h, i)", "lib.ldexp(f * 1e-30, lib.tensor(200))", "lib.ldexp(i, d)",
    "lib.ldexp(lib.tensor([1.0, inf, 0.0]), lib.tensor([-149, 3000, 3000]))",
    "lib.nan_to_num(lib.tensor([complex(nan, 1), complex(1, inf)]), 2.0, 7.0)",
    "lib.round(f, decimals=40)", "lib.round(f, decimals=-(2**63))",
    "lib.round(h * 0.523, decimals=6)",
    "lib.logit(lib.tensor([0.5, 2.0, -1.0, nan]), -1e-40)",
    "lib.logit(lib.tensor([0.5, 2.0, -1.0, nan]), 1.5)",
    "lib.lcm(lib.tensor([-128, 100], dtype=lib.int8), lib.tensor([6, 99]).char())",
    "lib.gcd(i, i, out=lib.empty(3, dtype=lib.uint16))", "f + 1e40", "b + 300", "b * -1",
    "lib.bitwise_or(4, i)", "lib.nan_to_num(f * nan, 10**30)", "lib.clamp(t, max=~t)",
    "lib.bitwise_left_shift(1, i)", "lib.cross(f.expand(1, 3), f.expand(3, 3))",
    "lib.nextafter(h, h * 2)", "lib.nextafter(h.bfloat16() * 0, h.bfloat16())",
    "lib.nextafter(h, h * -inf)", "lib.where(b, f, d)",
    "lib.polygamma(2, lib.tensor([-73.6, -30.5, 0.3], dtype=lib.float64))",
    "lib.special.zeta(lib.tensor([4.0, 3.0, 2.0]), lib.tensor([-30.5, -7.3, -3.0]))",
]  # fmt: skip


def outcome(lib, text):
    """What an expression gives on one side."""
    names = {
        "lib": lib, "inf": inf, "nan": nan,
        "t": lib.tensor([True, False, True]), "i": lib.tensor([1, 2, 3]),
        "b": lib.tensor([1, 2, 3], dtype=lib.uint8), "f": lib.tensor([0.5, 1.5, -2.0]),
        "h": lib.tensor([0.5, 1.5, -2.0], dtype=lib.float16),
        "d": lib.tensor([0.5, 1.5, -2.0], dtype=lib.float64),
        "z": lib.tensor([1j, 1.0, 2.0]),
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(text, names)


@pytest.mark.parametrize("text", [*TRUTH, *OTHERS, *TOO_LARGE])
def test_what_the_oracle_refuses_is_refused_in_its_words(text):
    with pytest.raises((RuntimeError, TypeError, ValueError)) as expected:
        outcome(torch, text)
    with pytest.raises(type(expected.value)) as found:
        outcome(rl, text)
    words = str(expected.value).split(".")[0].split(" (")[0]
    assert words in str(found.value)


@pytest.mark.parametrize("text", TAKEN)
def test_what_the_oracle_takes_gives_its_type_and_values(text):
    expected, found = outcome(torch, text), outcome(rl, text)
    assert str(found.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
    values = torch.tensor(found.tolist(), dtype=expected.dtype)
    torch.testing.assert_close(values, expected, equal_nan=True)


LAYOUTS = [
    "lib.expm1(x)", "lib.isfinite(x * 1.0)", "lib.angle(x)", "x + 1.5", "lib.rsub(x, y)",
    "lib.eq(x, y)", "x * y", "lib.atan2(x, y)", "lib.signbit(x)", "x.clamp(0, 2)",
    "lib.pow(2.0, x)", "lib.gcd(x, y)", "y + x",
]  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    windows(),
    st.data(),
    st.sampled_from(["int16", "float32", "bool"]),
    st.sampled_from(LAYOUTS),
)
def test_results_are_laid_out_as_the_oracles_after_promotion(window, data, kind, text):
    sizes, strides, offset = window
    room = offset + 1 + sum(max(n - 1, 0) * s for n, s in zip(sizes, strides))
    order = data.draw(st.permutations(range(len(sizes))))
    other = data.draw(st.sampled_from(["int32", "float32"]))
    found = []
    for lib in (torch, rl):
        base = lib.ones(room, dtype=getattr(lib, kind))
        x = base.as_strided(sizes, strides, offset)
        y = lib.ones([sizes[dim] for dim in order], dtype=getattr(lib, other))
        back = [order.index(dim) for dim in range(len(sizes))]
        names = {"lib": lib, "x": x, "y": y.permute(back)}
        try:
            result = eval(text, names)
        except (RuntimeError, NotImplementedError) as error:
            found.append(type(error))
        else:
            found.append(result.stride() if result.numel() > 1 else None)
    assert found[0] == found[1]


@pytest.mark.parametrize("base", [-2.5, -1, [-2.5, -1.0, 3.0], 0.0])
def test_complex_powers_of_negative_numbers_have_the_oracles_gradient(base):
    found = []
    for lib in (torch, rl):
        x = lib.tensor([4.4 + 2.17j, 1j, -0.3 - 2j], requires_grad=True)
        first = lib.tensor(base) if isinstance(base, list) else base
        result = lib.pow(first, x)
        (grad,) = lib.autograd.grad(result, x, lib.ones_like(result))
        found.append(torch.tensor(grad.tolist()))
    torch.testing.assert_close(found[1], found[0], equal_nan=True)


@pytest.mark.parametrize("name", ["clamp_min", "clamp_max"])
def test_bounds_that_are_nan_take_no_gradient(name):
    found = []
    for lib in (torch, rl):
        x = lib.tensor([nan, 1.0, 1.0, 2.0, 1.0], requires_grad=True)
        bound = lib.tensor([1.0, nan, 1.0, 1.0, 2.0], requires_grad=True)
        result = getattr(lib, name)(x, bound)
        found.append([g.tolist() for g in lib.autograd.grad(result.sum(), (x, bound))])
    assert found[0] == found[1]


@pytest.mark.parametrize("number", [np.float64(2), np.float32(2), np.int64(2)])
def test_numbers_of_numpy_fill_as_the_numbers_they_are(number):
    plain = number.item()
    filled = rl.full([2], number)
    assert filled.dtype is rl.full([2], plain).dtype
    assert filled.tolist() == [plain, plain]


@pytest.mark.parametrize(
    "weight", ["float16", "float32", "float64", "complex64", "int64"]
)
@pytest.mark.parametrize("own", ["bfloat16", "float32", "complex64", "int64"])
@pytest.mark.parametrize("sizes", [(), (2,)])
def test_a_weight_without_dimensions_is_an_operand_of_lerp(own, weight, sizes):
    torch = pytest.importorskip("torch")
    found = []
    for m in (torch, rl):
        x = m.ones(sizes, dtype=getattr(m, own))
        try:
            made = m.lerp(x, x * 3, m.tensor(1, dtype=getattr(m, weight)))
        except (RuntimeError, NotImplementedError) as error:
            found.append(type(error))
        else:
            found.append((str(made.dtype).rpartition(".")[2], made.tolist()))
    assert found[0] == found[1]
