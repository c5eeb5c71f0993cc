"""What kernels of common calls take: registers that fit, and float64 where it is asked for."""

from __future__ import annotations

import pytest

from benchmarks import gpu_kernels
from tests.codegen.ptxas import PTXAS

# Bytes that ptxas keeps in memory to make room for more threads, at most.
SPILLED = {
    "loops_sort_rows_T_float32_descending_1_32": 24,
    "attention_key_bfloat16_none_32_64_64_64": 24,
}
# Calls of float32 whose kernels compute in float64, by the reason why they may.
DOUBLES = {
    "cross_entropy": "totals of losses are float64",
    "LeNet's step": "totals of losses are float64",
    "dropout": "uniform numbers are those of the host's stream",
    "sin": "angles far out, in a branch",
    "layer_norm, halves": "the length of a row comes as float64, once a row",
    "layer_norm's gradient": "likewise",
    "batch_norm": "the correction of a variance does, once a result",
    "var of columns": "the correction does",
}
FEW = 16  # instructions of those that are once a row or a result


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on this machine")
def test_kernels_spill_nothing_and_leave_float64_alone(monkeypatch):
    found = list(gpu_kernels.kernels())
    assert {call for call, _ in found} == set(gpu_kernels.CALLS)
    spilled = {k.name: k.spilled for _, k in found if k.spilled}
    assert {name for name, n in spilled.items() if n > SPILLED.get(name, 0)} == set()
    doubles = {call for call, k in found if k.doubles}
    assert doubles <= DOUBLES.keys(), "or say why"
    summed = "reduce__sum__f64__f64__f64"
    many = {call for call, k in found if k.doubles > FEW and summed not in k.name}
    assert many <= {"sin"}
