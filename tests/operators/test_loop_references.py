"""The operators' loop kernels: machine code and the source run as Python agree."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.kernels.scan import scan_kernels
from rushlight.kernels.window import pooling_kernels
from rushlight.operators.indexing import indexing_kernels, masks, place_runs
from rushlight.operators.loss import loss_kernels
from rushlight.operators.recurrent import recurrent_kernels
from rushlight.operators.shape import permute
from rushlight.operators.sorting import sorting_kernels
from rushlight.runtime.cpu.launch import launch


def noise(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def whole(high, *shape):
    return np.random.default_rng(1).integers(0, high, shape)


def zeros(*shape, dtype="float32"):
    return np.zeros(shape, dtype)


def places(*shape):
    return zeros(*shape, dtype="int64")


FLOAT = {"T": "float32"}


def frozen(axis, taps, stride, pad):
    """A geometry that is compiled in; see `windows.AXIS`."""
    fields = {"taps": taps, "stride": stride, "pad": pad, "dilation": 1}
    return {f"{axis}_{name}": value for name, value in fields.items()}


# Size, count, taps, stride, padding and dilation along an axis.
LINE = 1, 1, 1, 1, 0, 1
HALVED = 8, 4, 2, 2, 0, 1
PADDED = 7, 7, 3, 1, 1, 1
GAPS = 7, 4, 3, 2, 1, 1
THIRDS, QUARTERS = (7, 3, 1, 1, 0, 1), (7, 4, 1, 1, 0, 1)
FROZEN_LINE = frozen("depth", 1, 1, 0)
FROZEN_THREES = FROZEN_LINE | frozen("height", 3, 1, 1) | frozen("width", 3, 1, 1)
FROZEN_HALVES = FROZEN_LINE | frozen("height", 2, 2, 0) | frozen("width", 2, 2, 0)

# kind of windows, their height and width, elements and results of a plane, what is frozen
WINDOWS = [
    ("single", GAPS, GAPS, 49, 16, {}),
    ("strided", PADDED, PADDED, 49, 49, FROZEN_THREES),
    ("inside", HALVED, HALVED, 64, 16, FROZEN_HALVES),
    ("even", THIRDS, QUARTERS, 49, 12, {}),
]
PIXELS = [
    ("pixels", PADDED, PADDED, 49, 49, FROZEN_THREES),
    ("even_pixels", THIRDS, QUARTERS, 49, 12, {}),
]


def pools():
    """Pooling forward, placed and not, and the gradients of means; of 5 channels a pixel."""
    for kind, height, width, size, count, frozen in WINDOWS + PIXELS:
        axes, kept, n = [*LINE, *height, *width], FLOAT | frozen, 1
        turns, planes = 2, {**kept, "channels": 1}
        if kind.endswith("pixels"):
            n, turns, planes = 5, 2 * height[1], kept
        x, out = noise(2, size, n), [zeros(2, count, n), places(2, count, n)]
        for kernels, placed in (
            (pooling_kernels.max_pools, 0),
            (pooling_kernels.max_pools, 1),
            (pooling_kernels.avg_pools, 0),
        ):
            ints = [*axes, placed, 1 - placed, 0, n]
            yield kernels[kind], out, [x], ints, turns, {**kept, "placed": placed}
        grad, grad_input = noise(2, count, n), [zeros(2, size, n)]
        scatter = pooling_kernels.avg_pool_scatters[kind]
        yield scatter, grad_input, [grad], [*axes, 0, 0, n], 2, planes


# kernel, outputs (and what is written beside them), inputs, integers, turns, choices
CASES = [
    *pools(),
    *(
        (
            kernel,
            [zeros(2, 49)],
            [noise(2, 16), whole(49, 2, 16)],
            [*LINE, *GAPS, *GAPS, 0, 0],
            2,
            FLOAT,
        )
        for kernel in (
            pooling_kernels.avg_pool_gathers["single"],
            pooling_kernels.max_pool_gathers["single"],
        )
    ),
    (
        pooling_kernels.avg_pool_tiles,
        [zeros(2, 64)],
        [noise(2, 16)],
        [*LINE, *HALVED, *HALVED, 0, 0],
        2,
        FLOAT,
    ),
    (
        indexing_kernels.gather_kernel,
        [zeros(2, 3, 5)],
        [noise(2, 4, 5), whole(4, 2, 3, 5), places(1)],
        [2, 3, 4, 5, 0, 0],
        2,
        FLOAT,
    ),
    (
        indexing_kernels.gather_kernel,
        [zeros(2, 3)],
        [noise(2, 4), whole(4, 2, 3), places(1)],
        [2, 3, 4, 1, 0, 1],
        2,
        FLOAT,
    ),
    *(
        (
            indexing_kernels.read_elements,
            [zeros(2, 3, 4)],
            [noise(2, 5, 4), whole(5, *named), places(1)],
            [3, 5, 4, slices, wrap, 24 // each, each],
            24 // each,
            {**FLOAT, "I": "int64"},
        )
        for named, slices, wrap, each in (((2, 3, 4), 0, 0, 1), ((3,), 1, 1, 4))
    ),
    (
        place_runs.element_positions,
        [np.zeros((2, 3, 4), "int64")],
        [whole(5, 2, 3, 4), places(1)],
        [3, 5, 4, 0, 0],
        24,
        {"I": "int64"},
    ),
    (
        indexing_kernels.scatter_kernel,
        [zeros(2, 4, 5)],
        [noise(2, 3, 5), whole(4, 2, 3, 5), places(1)],
        [2, 3, 4, 5, 0, 1, 0],
        2,
        FLOAT,
    ),
    (
        indexing_kernels.join_slices,
        [zeros(2, 4, 5)],
        [noise(2, 3, 5), whole(4, 3), np.array([0.5], "float32"), zeros(1), places(1)],
        [2, 3, 4, 5, 0, 1, 1, 1],
        2,
        {**FLOAT, "I": "int64"},
    ),
    (
        indexing_kernels.join_slices,
        [zeros(1, 4, 9)],
        [noise(1, 3, 9), whole(4, 3), zeros(1), noise(1), places(1)],
        [1, 3, 4, 9, 1, 4, 0, 0],
        9,
        {**FLOAT, "I": "int64"},
    ),
    (
        indexing_kernels.embedding_backward,
        [zeros(6, 8)],
        [noise(9, 8), whole(6, 9), np.full(6, 2), places(1)],
        [9, 8, 6, 3, 1],
        8,
        {**FLOAT, "I": "int64"},
    ),
    (
        masks.true_positions,
        [places(8, 3)],
        [np.arange(24) % 3 == 0, np.array([2, 3, 4])],
        [3, 4, 8],
        6,
        {},
    ),
    (
        loss_kernels.nll_total,
        [zeros(1), zeros(1)],
        [noise(6, 5), whole(5, 6), np.abs(noise(5)), places(1)],
        [5, 1, 3, 1, 1],
        6,
        FLOAT,
    ),
    (permute.triangle_kernel, [zeros(4, 6)], [noise(4, 6)], [4, 6, 1, 1], 4, FLOAT),
    (
        scan_kernels.logcumsumexp_kernel,
        [zeros(3, 9)],
        [noise(3, 9)],
        [9, 1],
        3,
        {**FLOAT, "A": "float64"},
    ),
    (
        scan_kernels.cummax_kernel,
        [zeros(27), places(27)],
        [noise(27)],
        [9, 1],
        3,
        FLOAT,
    ),
    (
        sorting_kernels.sort_rows,
        [zeros(2, 50), places(2, 50)],
        [noise(2, 50), zeros(2, 50), places(2, 50)],
        [50, 1],
        2,
        {**FLOAT, "descending": 1},
    ),
    (
        sorting_kernels.top_rows,
        [zeros(2, 4), places(2, 4)],
        [noise(2, 50)],
        [50, 4, 1],
        2,
        FLOAT,
    ),
    (
        sorting_kernels.search_rows,
        [places(8)],
        [np.round(noise(8)), np.sort(np.round(noise(20))), places(1)],
        [20, 8, 1, 0, 0],
        8,
        {**FLOAT, "I": "int64"},
    ),
    (
        recurrent_kernels.lstm_kernel,
        [noise(2, 68), noise(2, 17), noise(2, 17), zeros(2, 17), zeros(2, 17)],
        [noise(2, 68)],
        [17],
        2,
        FLOAT,
    ),
    (
        recurrent_kernels.lstm_back_kernel,
        [zeros(2, 68), noise(2, 17), zeros(2, 17)],
        [noise(2, 68), noise(2, 17), noise(2, 17), noise(2, 17), noise(2, 17)],
        [17],
        2,
        FLOAT,
    ),
    (
        recurrent_kernels.gru_kernel,
        [zeros(2, 68), noise(2, 17), zeros(2, 17), zeros(2, 17)],
        [noise(2, 51), noise(2, 51)],
        [17],
        2,
        FLOAT,
    ),
    (
        recurrent_kernels.gru_back_kernel,
        [zeros(2, 51), zeros(2, 51), noise(2, 17)],
        [noise(2, 68), noise(2, 17), noise(2, 17)],
        [17],
        2,
        FLOAT,
    ),
    *(
        (
            recurrent_kernels.rnn_kernel,
            [noise(2, 17), zeros(2, 17), zeros(2, 17)],
            [noise(2, 17)],
            [17, relu],
            2,
            FLOAT,
        )
        for relu in (0, 1)
    ),
    *(
        (
            recurrent_kernels.rnn_back_kernel,
            [zeros(2, 17)],
            [noise(2, 17), noise(2, 17), noise(2, 17)],
            [17, relu],
            2,
            FLOAT,
        )
        for relu in (0, 1)
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].name)
def test_machine_code_agrees_with_the_source(case):
    kernel, outputs, inputs, ints, turns, choices = case
    ours = [array.copy().ravel() for array in (*outputs, *inputs)]
    theirs = [array.copy().ravel() for array in (*outputs, *inputs)]
    addresses = [array.ctypes.data for array in ours]
    launch(kernel.specialize(**choices), addresses, ints, turns, turns)
    kernel.reference(theirs, ints, 0, turns, **choices)
    for mine, other in zip(ours, theirs):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
