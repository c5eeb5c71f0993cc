"""Functions of float32 for GPUs: near, exact where they must be, and without tables or doubles."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen import math as functions
from rushlight.codegen.emit import device, reference
from rushlight.codegen.emit.python import render
from rushlight.codegen.target import gpu, using
from rushlight.ir import expr as ir
from rushlight.operators.elementwise import activation, unary

EXACT = {"tanh": np.tanh, "erf": np.vectorize(math.erf)}
# Computed in float64 on hosts: sums of two float32 come as near.
FORMER_DOUBLES = {
    "exp": rl.exp,
    "sigmoid": rl.sigmoid,
    "sinh": rl.sinh,
    "cosh": rl.cosh,
    "asinh": rl.asinh,
    "acosh": rl.acosh,
    "atanh": rl.atanh,
    "erfc": rl.erfc,
    "scaled_erfc": rl.special.erfcx,
    "erfinv": rl.erfinv,
}
BRANCHES = "far_log", "far_exp2", "far_erfc", "far_erfinv"
OF_TWO = {"pow": rl.pow, "atan2": rl.atan2}


def computed(name, *operands):
    """What a GPU's thread makes of float32, in the meaning of its program."""
    target, scope = gpu("sm_90"), dict(reference.NAMESPACE)
    helpers = [(each, 1) for each in BRANCHES] + [("far_remainder", 2)]
    for each, count in (*helpers, (name, len(operands))):
        function = functions.definition(each, (ir.f32,) * count, target)
        exec(render(function), scope)
    with np.errstate(all="ignore"):
        return scope[name](*operands)


def every_size(rng, count):
    """Finite float32 of all exponents, of usual sizes and near one, and the odd ones."""
    every = rng.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    usual = np.concatenate([rng.normal(size=count) * 3, rng.uniform(-90, 90, count)])
    ends = 1 - 10.0 ** -rng.uniform(0, 7, count)
    odd = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2]
    others = np.concatenate([usual, ends, -ends, odd]).astype(np.float32)
    return np.concatenate([every[np.isfinite(every)], others])


def units(found, wanted):
    """By how many units of the last place results are off, at most."""
    wanted = wanted.numpy()
    with np.errstate(all="ignore"):
        near = wanted.astype(np.float32)
        same = (found == near) | (np.isnan(found) & np.isnan(near))
        unit = np.spacing(np.minimum(np.abs(near), np.float32(3e38)))
        off = np.abs(found.astype(np.float64) - wanted) / unit
    return np.where(same, 0, np.where(np.isnan(off), np.inf, off)).max()


@pytest.mark.parametrize("name", FORMER_DOUBLES)
def test_what_hosts_compute_in_doubles_is_as_near(name):
    x = every_size(np.random.default_rng(1), 40000)
    if name == "scaled_erfc":
        x = np.abs(x)
    wanted = FORMER_DOUBLES[name](rl.from_numpy(x.astype(np.float64)))
    assert units(computed(name, x), wanted) < 2.5


@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_are_as_near(name):
    rng = np.random.default_rng(2)
    x = every_size(rng, 40000)
    y = rng.permutation(x)
    wanted = OF_TWO[name](*(rl.from_numpy(v.astype(np.float64)) for v in (x, y)))
    assert units(computed(name, x, y), wanted) < 1.5


def test_remainders_are_exact():
    rng = np.random.default_rng(3)
    x = every_size(rng, 40000)
    y = rng.permutation(x)
    with np.errstate(all="ignore"):
        wanted = np.fmod(x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_array_equal(computed("rem", x, y), wanted.astype(np.float32))


@pytest.mark.parametrize("name", EXACT)
def test_they_are_within_two_units_of_the_last_place(name):
    x = np.concatenate([np.linspace(0, 10, 20001), np.logspace(-45, 1, 4001)])
    x = np.concatenate([x, -x]).astype(np.float32)
    wanted = EXACT[name](x.astype(np.float64))
    unit = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    assert (np.abs(computed(name, x) - wanted) / unit).max() < 2
    ends = computed(name, np.array([np.inf, -np.inf, np.nan, -0.0], np.float32))
    assert ends[0] == 1 and ends[1] == -1 and np.isnan(ends[2]) and np.signbit(ends[3])


@pytest.mark.parametrize("source, static", [(unary.tanh, ()), (unary.erf, ()),
                                            (activation.gelu, ("none",))])  # fmt: skip
def test_their_threads_read_no_table(source, static):
    with using(gpu("sm_90")):
        kinds = ("bfloat16",)
        loops = source.lowered(kinds, kinds, "float32", static)
        text = device.emit_elements(loops, 2, 1, (), True)
    assert text.count("ld.global") == 1, "the element itself"
