"""Functions of float32 for GPUs: near, exact where they must be, and without a table."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rushlight.codegen import math as functions
from rushlight.codegen.emit import device, reference
from rushlight.codegen.emit.python import render
from rushlight.codegen.target import gpu, using
from rushlight.ir import expr as ir
from rushlight.operators.elementwise import activation, unary

EXACT = {"tanh": np.tanh, "erf": np.vectorize(math.erf)}


def computed(name, x):
    """What a GPU's thread makes of float32, in the meaning of its program."""
    function = functions.definition(name, (ir.f32,), gpu("sm_90"))
    scope = dict(reference.NAMESPACE)
    exec(render(function), scope)
    with np.errstate(all="ignore"):
        return scope[function.name](x)


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
