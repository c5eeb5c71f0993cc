"""Products by a processor's unit of tiles: by their meaning, by the unit, by neither."""

import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import rushlight
from rushlight.codegen.emit import llvm
from rushlight.codegen.emit.reference_tiles import Tiles
from rushlight.codegen.lower import lower
from rushlight.codegen.schedule.contraction import Tile
from rushlight.codegen.target import described, using
from rushlight.core.launch_args import RIGHT_MODES
from rushlight.ir import expr as ir
from rushlight.ir import spec
from rushlight.ir.expr import TileStep
from rushlight.kernels.epilogue import Epilogue
from rushlight.kernels.matmul import contraction
from rushlight.kernels.matmul.amx_tiles import TileProduct
from rushlight.operators.matmul import linalg, matmul_amx, matmul_bf16
from tests.operators.test_contraction import product_ints, run_native, run_reference

SMALL = Tile(16, 32, 2, 32, 64)  # two steps deep
FLAGS = "fma f16c sse4_1 avx2 avx512f avx512bw avx512vl avx512_bf16 avx512_vnni".split()
UNIT = described("x86_64", [*FLAGS, "amx_tile", "amx_bf16", "amx_int8"])
KINDS = {  # the operands' types as loops see them, those of sums, words' elements
    "pairs": (ir.i16, ir.i16, ir.f32, 2),
    "fours": (ir.i8, ir.i8, ir.i32, 4),
    "unsigned_fours": (ir.u8, ir.i8, ir.i32, 4),
}
STRIDED = Epilogue(lambda x, y: x + y, (("float32", True),), "float32")
EXACT = Epilogue(lambda x: x, (), "int32")
RUNS = [
    run_reference,
    pytest.param(
        run_native,
        marks=pytest.mark.skipif(
            not (matmul_amx.has("bf16") and matmul_amx.has("int8")),
            reason="this processor has no unit of tiles",
        ),
    ),
]


def made(kind):
    """The loops of a product by small blocks, for the unit."""
    *types, _ = KINDS[kind]
    after = STRIDED if kind == "pairs" else EXACT
    with using(UNIT):
        return lower(
            contraction.product(f"by_{kind}", *types, SMALL, kind, after, TileProduct)
        )


def bits(x):
    """Floats cut to bfloat16, as the integers that hold them."""
    return (x.view(np.uint32) >> 16).astype(np.uint16).view(np.int16)


def floats(x):
    return (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def operands(kind, m, k, n, rng):
    if kind == "pairs":
        sides = (rng.standard_normal(s, np.float32) for s in ((m, k), (k, n)))
        return [bits(side) for side in sides]
    low, high = (0, 256) if kind == "unsigned_fours" else (-128, 128)
    a = rng.integers(low, high, (m, k)).astype("int8" if low else "uint8")
    return [a, rng.integers(-128, 128, (k, n)).astype(np.int8)]


def multiplied(run, function, kind, a, b, beside):
    """The product in blocks of 32 rows and 64 columns, with some of it behind."""
    m, n = a.shape[0], b.shape[1]
    sums = np.float32 if kind == "pairs" else np.int32
    out = np.full((m, n), 77, sums)
    kept = np.full((-(-m // 32) * 32, -(-n // 32) * 32), 55, sums)
    ints = list(product_ints(a, b, out, None, 32, 64, RIGHT_MODES["copied"]))
    ints[9] = kept.shape[1]
    data, more = [out, a, b, out, kept], ()
    if kind == "pairs":
        data.append(beside)
        more = (beside.strides[0] // 4, 0)
    chunks = -(-m // 32) * -(-n // 64)
    run(function, data, (*ints, *more), chunks)
    return out


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kind", KINDS)
def test_loops_of_tiles_give_the_product_in_every_layout(kind, run):
    function, rng = made(kind), np.random.default_rng(3)
    deep = SMALL.depth * KINDS[kind][3]
    for m, k, n in [(3, 5, 18), (33, deep + 1, 33), (17, deep - 1, 65)]:
        a, b = operands(kind, m, k, n, rng)
        beside = rng.standard_normal((m, n), np.float32)
        for left in (a, np.asfortranarray(a)):
            for right in (b, np.asfortranarray(b)):
                out = multiplied(run, function, kind, left, right, beside)
                if kind == "pairs":
                    wanted = floats(a).astype("d") @ floats(b) + beside
                    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)
                else:
                    assert (out == a.astype("i8") @ b.astype("i8")).all()


@pytest.mark.skipif(not matmul_amx.has("bf16"), reason="there is no unit of tiles")
def test_the_unit_gives_the_bits_that_tiles_mean():
    function, rng = made("pairs"), np.random.default_rng(4)
    a, b = operands("pairs", 20, 70, 40, rng)
    a[3, 5], b[5, 7] = 1, 3  # not normal: nothing to the unit
    zeros = np.zeros((20, 40), np.float32)
    runs = [
        multiplied(run, function, "pairs", a, b, zeros)
        for run in (run_native, run_reference)
    ]
    assert (runs[0].view(np.int32) == runs[1].view(np.int32)).all()


def test_numbers_that_are_not_normal_are_zero_to_the_unit():
    tiles = Tiles()
    tiles.configure()
    tiles.held[1].view(np.uint16)[:] = 1
    tiles.held[2].view(np.uint16)[:] = 0x3F80
    tiles.multiply("pairs", 0, 1, 2)
    assert not tiles.held[0].any()
    tiles.held[1].view(np.uint16)[:] = 0x4000
    tiles.multiply("pairs", 0, 1, 2)
    assert (tiles.held[0].view(np.float32) == 64).all()
    tiles.release()
    assert tiles.held is None


def test_a_kernel_sets_the_unit_up_once_and_gives_it_back():
    with using(UNIT):
        text = llvm.emit(made("pairs"))
    names = re.findall(r"call void @llvm\.x86\.(\w+)", text)
    assert names[0] == "ldtilecfg" and names[-1] == "tilerelease"
    assert names.count("ldtilecfg") == names.count("tilerelease") == 1
    assert names.count("tdpbf16ps") == 4 + 2 + 2 + 1


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        (TileStep("add"), "no step of tiles"),
        (TileStep("zero", 8), "eight tiles"),
        (TileStep("load", 1), "loaded from somewhere"),
    ],
)
def test_steps_that_no_unit_has_are_refused(step, fault):
    with pytest.raises(spec.SpecError, match=fault):
        spec.verify(ir.kernel("k", [step]))


def test_a_target_has_tiles_by_its_flags_alone():
    assert UNIT.has("tiles_bf16") and UNIT.has("tiles_int8")
    assert not described("x86_64", FLAGS).has("tiles_bf16")
    assert not described("x86_64", ["amx_tile", "amx_bf16"]).has("tiles_bf16")
    one = described("x86_64", [*FLAGS, "amx_tile", "amx_int8"])
    assert one.has("tiles_int8") and not one.has("tiles_bf16")


def test_where_the_system_refuses_tiles_products_go_by_vectors(monkeypatch):
    rushlight.manual_seed(0)
    a, b = rushlight.randn(50, 70).bfloat16(), rushlight.randn(70, 60).bfloat16()
    c = rushlight.randint(-128, 128, (70, 60), dtype=rushlight.int8)
    d = rushlight.randint(-128, 128, (60, 70), dtype=rushlight.int8)
    usual, whole = a @ b, rushlight._int_mm(d, c)
    monkeypatch.setattr(matmul_amx, "permitted", lambda: False)
    matmul_amx.has.cache_clear()
    try:
        assert not matmul_amx.serves(a, b)
        # plans know the way they went before, so that this way is asked for by name
        found = matmul_bf16.product(a, b, None, linalg.has_pairs())
        assert rushlight.allclose(found, usual, rtol=2**-7, atol=1e-5)
        from rushlight.operators.matmul import matmul_int8

        if matmul_int8.serves(d, c):
            again = matmul_int8.product(d, c, rushlight.int32)
            assert again.tolist() == whole.tolist()
    finally:
        matmul_amx.has.cache_clear()


def test_products_are_the_same_on_every_thread_and_number_of_them():
    rushlight.manual_seed(1)
    a, b = rushlight.randn(300, 600).bfloat16(), rushlight.randn(600, 700).bfloat16()
    used, results = rushlight.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            rushlight.set_num_threads(count)
            results.append((a @ b).float())
    finally:
        rushlight.set_num_threads(used)
    another = threading.Thread(target=lambda: results.append((a @ b).float()))
    another.start()
    another.join()
    assert len(results) == 4
    assert all(rushlight.equal(results[0], other) for other in results)


FORKED = """
import os, rushlight
a = rushlight.ones(64, 64, dtype=rushlight.bfloat16)
before = (a @ a).sum().item()
child = os.fork()
if not child:
    os._exit(0 if (a @ a).sum().item() == before == 64 ** 3 else 1)
raise SystemExit(os.waitpid(child, 0)[1])
"""


def test_a_forked_process_multiplies_by_tiles_too():
    ran = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
