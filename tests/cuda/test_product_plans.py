"""Products by cuBLASLt that are repeated by compiled code: plans, and the C functions."""

import ctypes

import pytest

import rushlight as rl
from rushlight.dispatch.launch_cache import outcomes
from rushlight.nn import functional as F
from rushlight.runtime.cuda import cublas, libraries


@pytest.fixture(autouse=True)
def _machine(machine):
    machine.start(memory=1 << 28)


def planned(name):
    return outcomes().get(name, (0, 0))


@pytest.mark.parametrize("kind", [rl.float32, rl.bfloat16], ids=lambda k: k.name)
def test_products_are_planned_and_follow_their_operands(kind, machine):
    given = [[rl.randn(16, 16).to(kind) for _ in range(3)] for _ in range(5)]
    calls = {
        "mm": lambda a, b, c: a @ b,
        "linear": lambda a, b, c: F.linear(a, b, c[0]),
        "addmm": lambda a, b, c: rl.addmm(c, a, b),
        "bmm": lambda a, b, c: a.view(2, 8, 16).bmm(b.view(2, 16, 8)),
    }
    for name, call in calls.items():
        before = planned(name)[0]
        for one in given:
            found = call(*(x.to("cuda") for x in one))
            assert rl.allclose(found.cpu(), call(*one), rtol=1e-2, atol=1e-2), name
        assert planned(name)[0] == before + 1, name


def test_a_plan_gives_way_to_operands_that_are_aligned_less():
    a, b = rl.randn(16, 16), rl.randn(16 * 16 + 1)
    there, wide = a.to("cuda"), b.to("cuda")
    for first in (0, 0, 0, 1, 1, 1, 0):
        found = there @ wide[first : first + 256].view(16, 16)
        wanted = a @ b[first : first + 256].view(16, 16)
        assert rl.allclose(found.cpu(), wanted, atol=1e-4)


def test_a_plan_follows_the_switch_of_tf32(machine):
    x = rl.randn(16, 16, device="cuda")
    card = machine.card()
    try:
        for precision in ("highest", "highest", "high", "high", "highest"):
            rl.set_float32_matmul_precision(precision)
            for _ in range(3):
                x @ x
            asked = [product.tf32 for product, _ in card.products]
            assert (True in asked) == (precision == "high" or len(asked) == 2)
    finally:
        rl.set_float32_matmul_precision("highest")


def test_a_plan_whose_descriptions_are_gone_is_made_again(machine, monkeypatch):
    monkeypatch.setattr(cublas, "KEPT", 1)
    a = [rl.randn(n, n) for n in (8, 16)]
    there = [x.to("cuda") for x in a]
    for _ in range(4):
        for x, y in zip(a, there, strict=True):
            assert rl.allclose((y @ y).cpu(), x @ x, atol=1e-4)


def test_the_library_s_c_functions_are_given_what_its_python_ones_are(monkeypatch):
    calls, word = [], ctypes.c_void_p

    @ctypes.CFUNCTYPE(ctypes.c_int, *[word] * 14, ctypes.c_size_t, word)
    def multiply(*given):
        libraries.CUBLAS_LT.found.matmul(*(x or 0 for x in given))
        calls.append("multiply")
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int, word, ctypes.c_int, word, ctypes.c_size_t)
    def set_attribute(*given):
        libraries.CUBLAS_LT.found.matmul_desc_set_attribute(*given)
        calls.append("set")
        return 0

    given = {
        "cublasLtMatmul": multiply,
        "cublasLtMatmulDescSetAttribute": set_attribute,
    }
    monkeypatch.setattr(
        libraries.CUBLAS_LT,
        "pointer",
        lambda name: ctypes.cast(given[name], word).value,
        raising=False,
    )
    for rows, kind in ((4, rl.float32), (6, rl.bfloat16)):
        for _ in range(4):
            x, w, b = (rl.randn(*s).to(kind) for s in ((rows, 8), (10, 8), (10,)))
            there = [t.to("cuda") for t in (x, w, b)]
            found = [F.linear(*there), F.linear(*there[:2]), there[0] @ there[1].t()]
            wanted = [F.linear(x, w, b), F.linear(x, w), x @ w.t()]
            for one, other in zip(found, wanted, strict=True):
                assert rl.allclose(one.cpu(), other, rtol=1e-2, atol=1e-2)
    assert calls.count("multiply") >= 24 and calls.count("set") >= 8
