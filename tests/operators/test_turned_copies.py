"""Copies whose elements lie along other loops than their source's, in tiles."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.lower import lower
from rushlight.ir import expr as ir
from rushlight.kernels.loop_helpers import rolled
from rushlight.kernels.transpose.tiled_copy import BYTES, LANES, TiledCopy
from tests.operators.test_contraction import run_native, run_reference

AROUND = (LANES - 1, LANES, LANES + 1, 2 * LANES)
EDGES = (15, 16, 17, 63, 64, 65, 130)
DTYPES = "float32 int32 float64 int64 complex64 complex128 float16 int8 bool".split()


@pytest.mark.parametrize("run", [run_native, run_reference])
@pytest.mark.parametrize("width", BYTES)
def test_a_tile_is_turned_whole_and_element_by_element(width, run):
    kernel = lower(ir.kernel(f"turned_{width}", rolled(TiledCopy(width).write())))
    rng = np.random.default_rng(0)
    for rows in AROUND:
        for columns in AROUND:
            source = rng.integers(0, 99, (columns, 2 * rows)).astype(f"uint{8 * width}")
            for steps in (1, 2):  # adjacent rows, and what is no tile
                taken = source[:, : rows * steps : steps]
                out = np.zeros((rows, columns), source.dtype)
                ints = [
                    columns,
                    width,
                    taken.strides[0],
                    out.strides[0],
                    taken.strides[1],
                ]
                run(kernel, [out, taken], ints, rows)
                assert (out == taken.T).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_turned_copies_have_every_element(dtype):
    rng = np.random.default_rng(1)
    for rows in EDGES:
        for columns in EDGES:
            plain = rng.integers(0, 2 if dtype == "bool" else 99, (3, rows, columns))
            plain = plain.astype(dtype)
            source = rl.from_numpy(plain)
            turned = plain.transpose(0, 2, 1)
            assert (source.transpose(1, 2).contiguous().numpy() == turned).all()
            assert (source.mT[:, 1:].contiguous().numpy() == turned[:, 1:]).all()
            wide = rl.zeros(3, columns, rows, 2, dtype=source.dtype)
            wide[..., 1].copy_(source.mT)
            assert (wide[..., 1].numpy() == turned).all() and not wide[..., 0].any()
            back = rl.zeros(3, columns, rows, dtype=source.dtype)
            back.mT.copy_(source)
            assert (back.numpy() == turned).all()
