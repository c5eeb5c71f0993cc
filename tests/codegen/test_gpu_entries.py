"""Entries for GPUs are programs like any others: checked by the spec, and readable."""

from __future__ import annotations

import pytest

from rushlight.codegen.lower import lower
from rushlight.codegen.schedule import gpu_entries, gpu_lowering
from rushlight.codegen.target import NVIDIA, using
from rushlight.ir import expr as ir
from rushlight.ir import spec
from rushlight.operators.elementwise import binary

FLOATS = ("float32", "float32"), ("float32",)
BY_FOUR = gpu_entries.Wide(4, 1, (4, 4, 0))
LAYOUTS = [
    *((ndim, numbers, narrow, None) for ndim in (1, 3) for numbers in ((), (2,))
      for narrow in (True, False)),
    (1, (), True, BY_FOUR),
    (2, (2,), True, BY_FOUR),
]  # fmt: skip


@pytest.fixture(scope="module")
def loops():
    """The host's loops of a division, which refuses nothing, and of one that does."""
    with using(NVIDIA):
        floats = lower(binary.div.trace(*FLOATS, "float32")[1])
        ints = lower(binary.remainder.trace(("int64",) * 2, ("int64",), "int64")[1])
    return floats, ints


@pytest.mark.parametrize("layout", LAYOUTS)
def test_entries_of_elements_are_what_the_spec_asks_for(loops, layout):
    for function in loops:
        entry = gpu_entries.element_entry(function, 3, *layout)
        spec.verify(entry)
        assert entry.grid and f"def {entry.name}(" in str(entry)


@pytest.mark.parametrize("wide", [None, gpu_entries.Wide(4, 1, (4, 4, 0))])
def test_entries_over_lists_and_spans_are_too(loops, wide):
    for function in loops:
        spec.verify(gpu_entries.list_entry(function, ((0, 4), (1, 4), None), wide))
        spec.verify(gpu_entries.span_entry(function))


def test_a_function_of_a_grid_is_an_entry_with_a_launchs_parameters():
    data, count = ir.Var("data", ir.Pointer(ir.f32)), ir.Var("total", ir.i64)
    store = ir.Store(data, ir.Place("thread"), ir.load(data, count))
    function = ir.Function("f", (data, ir.INTS, count), (store,), grid=True)
    entry = gpu_entries.grid_entry(function, held=((0, 3),))
    spec.verify(entry)  # names of its own hide none of the launch's
    assert entry.parameters == gpu_entries.GRID_PARAMETERS


def test_what_an_entry_runs_is_a_kernel(loops):
    wrong = gpu_entries.span_entry(gpu_lowering.spread(loops[0]))
    with pytest.raises(spec.SpecError, match="is no kernel"):
        spec.verify(wrong)
