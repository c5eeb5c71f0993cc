"""Products by cuBLASLt on an imagined card: layouts, vectors, precisions, ours where it fails."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.runtime.cuda import cublas, libraries
from tests.cuda import blas as imagined

KINDS = (rl.float32, rl.float64, rl.float16, rl.bfloat16)
SIGNATURES = json.loads(Path(__file__).with_name("signatures.json").read_text())


@pytest.fixture(autouse=True)
def _machine(machine, monkeypatch):
    machine.start(cards=2, memory=1 << 27)
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    yield
    rl.set_float32_matmul_precision("highest")


def test_the_imagined_functions_take_what_nvidia_s_take(machine):
    for function, parameters in SIGNATURES["cublasLt"].items():
        made = getattr(type(machine.cublas_lt), function)
        found = list(inspect.signature(made).parameters)[1:]
        assert found == parameters or function in ("create", "destroy"), function


def close(found, wanted):
    near = {2: 1e-2, 4: 1e-5, 8: 1e-12}[wanted.element_size()]
    assert found.is_cuda and found.dtype is wanted.dtype
    assert rl.allclose(found.cpu().double(), wanted.double(), rtol=near, atol=near)


def made(sizes, kind, seed=0):
    rl.manual_seed(seed)
    return (rl.randn(*sizes) / 2).to(kind)


CALLS = {
    "mm": lambda a, b, v: a @ b,
    "turned": lambda a, b, v: b.t() @ a.t(),
    "both": lambda a, b, v: a.t().contiguous().t() @ b.t().contiguous().t(),
    "parts": lambda a, b, v: a[1:, 2:6] @ b[2:6, ::1],
    "addmm": lambda a, b, v: (a.new_ones(5, 7)).addmm(a, b, beta=0.5, alpha=2),
    "vector": lambda a, b, v: rl.addmm(v, a, b),
    "scaled vector": lambda a, b, v: rl.addmm(v, a, b, alpha=3),
    "linear": lambda a, b, v: rl.nn.functional.linear(a, b.t().contiguous(), v),
    "mv": lambda a, b, v: b @ v,
    "bmm": lambda a, b, v: rl.bmm(a.expand(3, 5, 6), rl.stack([b, b + 1, b * 2])),
    "baddbmm": lambda a, b, v: rl.baddbmm(
        a.new_ones(3, 5, 7), rl.stack([a, a, -a]), rl.stack([b, b + 1, b * 2])
    ),
    "one row": lambda a, b, v: a[:1] @ b,
    "one column": lambda a, b, v: a @ b[:, :1],
    "outer": lambda a, b, v: a[:, :1] @ b[:1],
    "columns with gaps": lambda a, b, v: a[:, ::2] @ b[::2],
    "empty": lambda a, b, v: a[:, :0] @ b[:0],
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("name", CALLS)
def test_products_are_the_host_s(machine, name, kind):
    a, b, v = made((5, 6), kind), made((6, 7), kind, 1), made((7,), kind, 2)
    wanted = CALLS[name](a, b, v)
    close(CALLS[name](a.to("cuda"), b.to("cuda"), v.to("cuda")), wanted)
    used = "matmul" in machine.cublas_lt.names()
    assert used != (name in ("columns with gaps", "empty"))


def test_a_vector_is_an_epilogue_and_not_a_matrix(machine):
    a, b = made((5, 6), rl.float32).to("cuda"), made((7, 6), rl.float32).to("cuda")
    rl.nn.functional.linear(a, b, rl.ones(7, device="cuda"))
    attributes = [
        args
        for name, args in machine.cublas_lt.calls
        if name.startswith("matmul_desc_set")
    ]
    assert {args[1] for args in attributes} >= {cublas.EPILOGUE, cublas.BIAS_POINTER}


def test_products_are_described_once_for_a_layout(machine):
    a = made((5, 6), rl.float32).to("cuda")
    for scale in (1.0, 2.0, 3.0):
        (a * scale) @ a.t()
    names = machine.cublas_lt.names()
    assert names.count("matmul") == 3
    assert names.count("matmul_algo_get_heuristic") == 1
    kinds = [o.kind for o in machine.cublas_lt.objects.values()]
    assert sorted(kinds) == ["matrix"] * 3 + ["product"], "and preferences are let go"


def test_vectors_of_several_products_are_not_mixed_up(machine):
    machine.start(cards=1, memory=1 << 27, seed=3)
    a, b = made((4, 6), rl.float32), made((5, 6), rl.float32, 1)
    there, other = a.to("cuda"), b.to("cuda")
    vectors = [rl.full((5,), float(n)) for n in range(4)]
    moved = [v.to("cuda") for v in vectors]
    found = [rl.nn.functional.linear(there, other, v) for v in moved]
    for one, v in zip(found, vectors, strict=True):
        close(one, rl.nn.functional.linear(a, b, v))


@pytest.mark.parametrize("kind", KINDS[2:], ids=lambda k: k.name)
def test_halves_are_rounded_once_by_the_product_itself(machine, kind):
    a, b, v = made((5, 6), kind), made((6, 7), kind, 1), made((7,), kind, 2)
    given = a, b, v, a.new_ones(5, 7), rl.stack([b, b, b])
    there = [t.cuda() for t in given]
    calls = {
        "mm": lambda a, b, v, c, d: a @ b,
        "linear": lambda a, b, v, c, d: rl.nn.functional.linear(a, b.t(), v),
        "addmm": lambda a, b, v, c, d: rl.addmm(c, a, b, beta=0.5, alpha=2),
        "bmm": lambda a, b, v, c, d: rl.bmm(a.expand(3, 5, 6), d),
    }
    for name, call in calls.items():
        rl.cuda.synchronize()
        machine.fake.calls.clear()
        found = call(*there)
        launches = [call for call, _ in machine.fake.calls if call == "cuLaunchKernel"]
        assert not launches, name
        close(found, call(*(t.double() for t in given)).to(kind))


@pytest.mark.parametrize("why", ["library", "ours"])
@pytest.mark.parametrize("kind", [rl.complex64, rl.complex128], ids=lambda k: k.name)
def test_complex_products_are_the_host_s(machine, kind, why):
    machine.cublas_lt.supported = why == "library"
    real = kind.to_real()
    a, b = (
        rl.complex(made((5, 6), real, n), made((5, 6), real, n + 3)) for n in (0, 1)
    )
    c = rl.complex(made((5, 5), real, 2), made((5, 5), real, 7))
    for call in (
        lambda a, b, c: a @ b.mT,
        lambda a, b, c: a @ b.mH,
        lambda a, b, c: a.conj() @ b.mT,
        lambda a, b, c: rl.addmm(c, a, b.mT, beta=2 - 1j, alpha=1 + 2j),
        lambda a, b, c: rl.bmm(rl.stack([a, b]), rl.stack([b.mT, a.mT])),
        lambda a, b, c: a[:, ::2] @ b[:, ::2].mT,
    ):
        wanted, found = call(a, b, c), call(a.cuda(), b.cuda(), c.cuda())
        near = 1e-5 if kind is rl.complex64 else 1e-12
        assert found.is_cuda and found.dtype is kind
        assert rl.allclose(found.cpu(), wanted, rtol=near, atol=near)
    assert ("matmul" in machine.cublas_lt.names()) == (why == "library")


@pytest.mark.parametrize("why", ["library", "ours"])
def test_eight_bit_numbers_are_summed_in_32(machine, why):
    machine.cublas_lt.supported = why == "library"
    rl.manual_seed(0)
    a = rl.randint(-128, 128, (17, 300), dtype=rl.int8)
    b = rl.randint(-128, 128, (300, 16), dtype=rl.int8)
    wanted = a.long() @ b.long()
    assert rl.equal(rl._int_mm(a, b).long(), wanted)
    found = rl._int_mm(a.cuda(), b.cuda())
    assert found.dtype is rl.int32 and rl.equal(found.cpu().long(), wanted)
    turned = rl._int_mm(a.cuda(), b.t().contiguous().cuda().t())
    assert rl.equal(turned.cpu().long(), wanted)
    assert ("matmul" in machine.cublas_lt.names()) == (why == "library")


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("why", ["library", "ours"])
def test_activations_are_epilogues(machine, kind, gelu, why):
    machine.cublas_lt.supported = why == "library"
    a, b, v = made((5, 6), kind), made((6, 7), kind, 1), made((7,), kind, 2)
    for added in (v, made((5, 7), kind, 3)):
        machine.fake.calls.clear()
        there = [t.cuda() for t in (added, a, b)]
        found = rl._addmm_activation(*there, use_gelu=gelu)
        sums = rl.addmm(added.double(), a.double(), b.double())
        how = rl.nn.functional.gelu(sums, approximate="tanh") if gelu else sums.relu()
        close(found, how.to(kind))
        launches = [call for call, _ in machine.fake.calls if call == "cuLaunchKernel"]
        assert not launches or why == "ours"


EIGHTS = {number: name for name, number in cublas.EIGHT.items()}
EIGHT = {
    "one": lambda m, a, b, r, c, v: m._scaled_mm(
        a, b, r[:1], c[0, 0], out_dtype=m.bfloat16
    ),
    "each": lambda m, a, b, r, c, v: m._scaled_mm(a, b, r, c, out_dtype=m.float32),
    "half": lambda m, a, b, r, c, v: m._scaled_mm(
        a, b, r, c, bias=v.half(), out_dtype=m.float16, use_fast_accum=True
    ),
    "wide vector": lambda m, a, b, r, c, v: m._scaled_mm(
        a, b, r[:1], c[:, :1], bias=v, out_dtype=m.bfloat16
    ),
    "vector": lambda m, a, b, r, c, v: m._scaled_mm(
        a, b, r[:1], c[:, :1], bias=v.bfloat16(), out_dtype=m.float32
    ),
    "other": lambda m, a, b, r, c, v: m._scaled_mm(
        a, b.to(m.float8_e5m2), r[:1], c[:, :1], out_dtype=m.float32
    ),
    "recipe": lambda m, a, b, r, c, v: m.nn.functional.scaled_mm(
        *(a, b, r, m.nn.functional.ScalingType.RowWise, c),
        m.nn.functional.ScalingType.RowWise,
    ),
}


@pytest.mark.parametrize("why", ["library", "ours"])
@pytest.mark.parametrize("name", EIGHT)
def test_eight_bit_floats_are_multiplied_with_their_scales(machine, name, why):
    machine.cublas_lt.supported = why == "library"
    given = eight(rl.float8_e4m3fn)
    wanted = EIGHT[name](rl, *given)
    machine.fake.calls.clear()
    found = EIGHT[name](rl, *(t.cuda() for t in given))
    close(found, wanted)
    assert ("matmul" in machine.cublas_lt.names()) == (why == "library")


def eight(kind, sizes=(32, 16)):
    """Two matrices of eight-bit floats, scales of their rows and columns, and a vector."""
    rows, columns = sizes
    a, b = made((rows, 48), kind), made((columns, 48), rl.float8_e4m3fn, 1).t()
    r, c, v = (rl.rand(n) + 0.5 for n in (rows, columns, columns))
    return a, b, r[:, None], c[None], v


VECTORS = {
    "none": lambda v: None,
    "bfloat16": lambda v: v.bfloat16(),
    "halves": lambda v: v.half(),
    "floats": lambda v: v,
}


@pytest.mark.parametrize("why", ["library", "ours"])
@pytest.mark.parametrize("kinds", [(28, 28), (28, 29), (29, 28), (29, 29)], ids=str)
@pytest.mark.parametrize("vector", [*VECTORS, "each"])
def test_results_of_eight_bits_are_the_host_s(machine, vector, kinds, why):
    machine.cublas_lt.supported = why == "library"
    first, kind = (getattr(rl, EIGHTS[number]) for number in kinds)
    a, b, r, c, v = eight(first)
    if vector != "each":
        r, c, v = r[:1], c[0, :1], VECTORS[vector](v)
    wanted = rl._scaled_mm(a, b, r, c, bias=v, out_dtype=kind)
    given = [None if t is None else t.cuda() for t in (a, b, r, c, v)]
    machine.fake.calls.clear()
    found = rl._scaled_mm(*given, out_dtype=kind)
    assert found.dtype is kind and rl.equal(found.cpu().float(), wanted.float())
    if why == "library":
        at_once = kind in (first, b.dtype) and vector not in ("floats", "each")
        assert machine.cublas_lt.names().count("matmul") == 1
        assert (machine.launched() == []) == at_once


def test_a_result_s_scale_divides_on_the_host_and_multiplies_on_a_card(machine):
    a, b, r, c, v = given = eight(rl.float8_e4m3fn)
    scale, kind = rl.tensor(0.25), rl.float8_e4m3fn

    def call(given, scale, kind):
        a, b, r, c, v = given
        options = {"bias": v.half(), "scale_result": scale, "out_dtype": kind}
        return rl._scaled_mm(a, b, r[:1], c[0, :1], **options)

    there = [t.cuda() for t in given]
    wanted = call(given, 1 / scale, kind).float()
    for supported in (True, False):
        machine.cublas_lt.supported = supported
        machine.card().products.clear()
        assert rl.equal(call(there, scale.cuda(), kind).cpu().float(), wanted)
        close(call(there, scale.cuda(), rl.float16), call(given, scale, rl.float16))
        by_default = call(there, scale.cuda(), None)
        assert rl.equal(by_default.cpu().float(), wanted), "which the host leaves out"


def test_what_eight_bits_do_not_hold_is_their_largest_on_a_card(machine):
    a, b, r, c, v = (t.cuda() for t in eight(rl.float8_e5m2))
    high = rl.full((1,), 1e9, device="cuda")
    for supported in (True, False):
        machine.cublas_lt.supported = supported
        machine.card().products.clear()
        for kind in (rl.float8_e4m3fn, rl.float8_e5m2):
            found = rl._scaled_mm(a, b, high, high, out_dtype=kind).float().abs()
            assert found.max().item() == rl.finfo(kind).max and not found.isnan().any()
        assert rl._scaled_mm(a, b, high * rl.nan, high).float().isnan().all()


def test_eight_bit_floats_of_other_sizes_or_layouts_are_ours(machine):
    one = rl.ones(1)
    for sizes, turned in (((17, 16, 16), True), ((16, 16, 16), False)):
        rows, depth, columns = sizes
        a = made((rows, depth), rl.float8_e4m3fn)
        b = made((depth, columns), rl.float8_e4m3fn, 1)
        b = b.t().contiguous().t() if turned else b
        for kind in (rl.float32, rl.float8_e4m3fn):
            wanted = rl._scaled_mm(a, b, one, one, out_dtype=kind)
            given = [t.cuda() for t in (a, b, one, one)]
            close(rl._scaled_mm(*given, out_dtype=kind).float(), wanted.float())


def test_scales_that_do_not_go_with_their_matrices_are_refused(machine):
    a, b, r, c, v = (t.cuda() for t in eight(rl.float8_e4m3fn))
    one = rl.ones(1, device="cuda")
    for given in ((a, b, r, one), (a, b, r[:, 0], c[0]), (a.float(), b, one, one)):
        with pytest.raises(ValueError, match="Invalid scaling configuration"):
            rl._scaled_mm(*given)
    with pytest.raises(RuntimeError, match="Bias must be size 16 but got 3"):
        rl._scaled_mm(a, b, one, one, bias=v[:3])
    with pytest.raises(RuntimeError, match="scale_result must be a float scalar"):
        rl._scaled_mm(a, b, one, one, scale_result=v)
    with pytest.raises(RuntimeError, match="same device"):
        rl._scaled_mm(a, b, one, one.cpu())


def test_the_eight_bits_of_the_imagined_library_are_those_numbers():
    for name, number in cublas.EIGHT.items():
        bits = rl.arange(256, dtype=rl.int32).to(rl.uint8)
        wanted = bits.view(getattr(rl, name)).float()
        found = rl.tensor(imagined.EIGHT[number])
        assert rl.equal(found.isnan(), wanted.isnan())
        assert rl.equal(found.nan_to_num(0), wanted.nan_to_num(0))
        kind = getattr(rl, name)
        values = rl.randn(4096).exp() * rl.tensor([1.0, -1.0, 1e-2, 1e-5])[:, None]
        values = values.clamp(-rl.finfo(kind).max, rl.finfo(kind).max)
        bits = imagined.nearest(values.numpy(), imagined.EIGHT[number])
        assert rl.equal(rl.tensor(bits), values.to(kind).view(rl.uint8))


def test_tf32_is_by_pytorch_s_switches(machine):
    a, b = made((16, 32), rl.float32), made((32, 16), rl.float32, 1)
    exact = a @ b

    def gap():
        return (a.to("cuda") @ b.to("cuda") - exact.to("cuda")).abs().max().item()

    assert gap() < 1e-5
    rl.backends.cuda.matmul.allow_tf32 = True
    assert rl.get_float32_matmul_precision() == "high"
    assert 1e-5 < gap() < 1e-2
    rl.set_float32_matmul_precision("highest")
    assert not rl.backends.cuda.matmul.allow_tf32 and gap() < 1e-5
    rl.backends.cuda.matmul.fp32_precision = "tf32"
    assert gap() > 1e-5
    wide = a.double().to("cuda") @ b.double().to("cuda")
    assert rl.allclose(wide.cpu(), a.double() @ b.double())


def test_ours_multiplies_where_the_library_does_not(machine):
    a = made((5, 6), rl.float32)
    machine.cublas_lt.supported = False
    close(a.to("cuda") @ a.to("cuda").t(), a @ a.t())
    assert "matmul" not in machine.cublas_lt.names()
    kinds = {o.kind for o in machine.cublas_lt.objects.values()}
    assert not kinds, "what was described for nothing is let go"
    for door in libraries.ALL:
        door.forget()
    close(a.to("cuda") @ a.to("cuda").t(), a @ a.t())


def test_the_library_s_errors_are_told(machine):
    a = made((5, 6), rl.float32).to("cuda")
    a @ a.t()
    machine.cublas_lt.fail("matmul", 13)
    with pytest.raises(
        rl.AcceleratorError, match="cuBLASLt error: .*\n  function: matmul"
    ):
        a @ a.t()
    close(a @ a.t(), a.cpu() @ a.cpu().t())


@pytest.mark.parametrize("seed", range(3))
def test_products_wait_as_the_queue_does(machine, seed):
    machine.start(cards=2, memory=1 << 27, seed=seed)
    a = made((8, 8), rl.float32)
    stream = rl.cuda.Stream()
    there = a.to("cuda")
    stream.wait_stream(rl.cuda.current_stream())
    with rl.cuda.stream(stream):
        found = (there + 1) @ (there * 2)
    rl.cuda.current_stream().wait_stream(stream)
    close(found, (a + 1) @ (a * 2))
    other = a.to("cuda:1")
    close(other @ other, a @ a)


def test_products_that_differ_in_addresses_alone_are_described_once(
    machine, monkeypatch
):
    described = []
    describe = cublas.describe

    def counted(*args):
        described.append(args)
        return describe(*args)

    monkeypatch.setattr(cublas, "describe", counted)
    rl.manual_seed(0)
    w = rl.randn(6, 8)
    for turn in range(4):
        x, b = rl.randn(4, 8), rl.randn(6)
        found = rl.nn.functional.linear(x.cuda(), w.cuda(), b.cuda())
        close(found, rl.nn.functional.linear(x, w, b))
        added = rl.addmm(
            rl.ones(4, 6, device="cuda"), x.cuda(), w.cuda().t(), beta=turn
        )
        close(added, rl.addmm(rl.ones(4, 6), x, w.t(), beta=turn))
        if turn == 1:
            first = len(described)
    assert len(described) - first <= 2, "other factors are other products"
    assert machine.card().allocator.statistics.current("allocation") < 40


def test_a_plan_that_goes_takes_what_was_prepared_of_it(machine, monkeypatch):
    monkeypatch.setattr(cublas, "KEPT", 2)
    for size in (4, 5, 6, 4, 5, 6):
        x = rl.ones(size, 3)
        assert rl.equal((x.cuda() @ x.cuda().t()).cpu(), x @ x.t())
    assert len(machine.card().products) <= 2 and len(machine.card().prepared) <= 2
