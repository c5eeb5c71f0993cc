"""Products by cuBLASLt on an imagined card: layouts, vectors, precisions, ours where it fails."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.backends.nvidia import blas, libraries

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
    assert {args[1] for args in attributes} >= {blas.EPILOGUE, blas.BIAS_POINTER}


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
