"""NVIDIA's libraries on an imagined card: what is asked of them, when, and what comes of it."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.runtime.cuda import fft, libraries
from tests.cuda import libraries as imagined
from tests.cuda.driver import Misuse

pytest.importorskip("scipy")
# Parameters of the functions of nvmath-python 1.0.0, as their docstrings have them.
SIGNATURES = json.loads(Path(__file__).with_name("signatures.json").read_text())
KINDS = (rl.float32, rl.float64, rl.complex64, rl.complex128)


@pytest.fixture(autouse=True)
def _machine(machine, monkeypatch):
    machine.start(cards=2, memory=1 << 27)
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")


@pytest.mark.parametrize("name", ["cusolverDn", "cublas", "cufft"])
def test_the_imagined_functions_take_what_nvidia_s_take(name):
    made = {c.module: c for c in vars(imagined).values() if hasattr(c, "module")}[name]
    for function, parameters in SIGNATURES[name].items():
        found = list(inspect.signature(getattr(made, function)).parameters)[1:]
        if function in imagined.PUBLIC:
            assert len(found) == len(parameters)
        else:
            assert found == parameters, function


def matrices(kind, *sizes, seed=0):
    rl.manual_seed(seed)
    real = kind.to_real()
    x = rl.randn(*sizes, dtype=real)
    return rl.complex(x, rl.randn(*sizes, dtype=real)) if kind.is_complex else x


def alike(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert (
            one.is_cuda and one.dtype is other.dtype and one.stride() == other.stride()
        )
        scale = other.abs().max().item() if other.numel() else 1
        near = 1e-4 if other.element_size() in (4, 8) else 1e-9
        assert rl.allclose(one.cpu(), other, rtol=1e-4, atol=near * max(scale, 1))


EXACT = {
    "cholesky": lambda a, b: [rl.linalg.cholesky(a @ a.mH + 9 * rl.eye(4).to(a))],
    "upper": lambda a, b: [rl.linalg.cholesky(a @ a.mH + 9 * rl.eye(4).to(a), upper=True)],
    "inverse of a product": lambda a, b: [rl.cholesky_inverse(a.tril() + 5 * rl.eye(4).to(a))],
    "cholesky_solve": lambda a, b: [
        rl.cholesky_solve(b, a.triu() + 5 * rl.eye(4).to(a), upper=True)
    ],
    "lu": lambda a, b: rl.linalg.lu(a),
    "lu_factor": lambda a, b: rl.linalg.lu_factor(b),
    "solve": lambda a, b: [rl.linalg.solve(a, b), rl.linalg.solve(a, b.mT, left=False)],
    "adjoint": lambda a, b: [rl.linalg.lu_solve(*rl.linalg.lu_factor(a), b, adjoint=True)],
    "inv": lambda a, b: [rl.linalg.inv(a), rl.linalg.det(a), *rl.linalg.slogdet(a)],
    "triangles": lambda a, b: [
        rl.linalg.solve_triangular(a + 5 * rl.eye(4).to(a), b, upper=True),
        rl.linalg.solve_triangular(a.mT, b.mT, upper=False, left=False, unitriangular=True),
    ],
    "qr": lambda a, b: [*rl.linalg.qr(b), *rl.linalg.qr(b.mT), *rl.linalg.qr(b, "complete")],
    "reflectors": lambda a, b: [rl.ormqr(*rl.geqrf(b), b, left=True, transpose=True)],
    "from the right": lambda a, b: [rl.ormqr(*rl.geqrf(a), b.mT, left=False)],
    "ldl": lambda a, b: [
        *rl.linalg.ldl_factor(a + a.mT),
        rl.linalg.ldl_solve(*rl.linalg.ldl_factor(a + a.mT), b),
    ],
    "values": lambda a, b: [
        rl.linalg.svdvals(b), rl.linalg.svdvals(b.mT), rl.linalg.eigvalsh(a + a.mH),
        rl.linalg.eigvalsh(a + a.mH, "U"),
    ],
    "pinv": lambda a, b: [rl.linalg.pinv(b), rl.linalg.pinv(b.mT)],
    "rank": lambda a, b: [rl.linalg.matrix_rank(b @ b.mH), rl.linalg.cond(a)],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("name", EXACT)
def test_factorizations_are_the_host_s(machine, name, kind):
    for batch in ((), (3,), (2, 1)):
        a, b = matrices(kind, *batch, 4, 4), matrices(kind, *batch, 4, 2, seed=1)
        wanted = EXACT[name](a, b)
        alike(EXACT[name](a.to("cuda"), b.to("cuda")), wanted)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_vectors_make_the_matrices_again(machine, batch, kind):
    near = {"rtol": 1e-3, "atol": 1e-3}
    for rows, columns in ((4, 3), (3, 4), (4, 4)):
        a = matrices(kind, *batch, rows, columns).to("cuda")
        for full in (False, True):
            u, s, vh = rl.linalg.svd(a, full_matrices=full)
            least = min(rows, columns)
            kept = u[..., :least] * s.unsqueeze(-2).to(a.dtype) @ vh[..., :least, :]
            assert rl.allclose(kept, a, **near)
            assert u.shape[-1] == (rows if full else least)
            assert rl.allclose(
                u.mH @ u, rl.eye(u.shape[-1]).to(u).expand_as(u.mH @ u), **near
            )
    a = a + a.mH
    values, vectors = rl.linalg.eigh(a)
    assert rl.allclose(
        vectors * values.unsqueeze(-2).to(a.dtype) @ vectors.mH, a, **near
    )
    a = matrices(kind, *batch, 5, 5, seed=3).to("cuda")
    values, vectors = rl.linalg.eig(a)
    wide = a.to(vectors.dtype)
    assert rl.allclose(wide @ vectors, vectors * values.unsqueeze(-2), **near)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_least_squares_are_the_host_s_of_the_same_driver(machine, kind):
    for rows, columns in ((6, 3), (3, 6), (4, 4)):
        a, b = matrices(kind, 2, rows, columns), matrices(kind, 2, rows, 2, seed=1)
        wanted = rl.linalg.lstsq(a, b, driver="gels")
        found = rl.linalg.lstsq(a.to("cuda"), b.to("cuda"))
        assert rl.allclose(found.solution.cpu(), wanted.solution, rtol=1e-3, atol=1e-3)
        assert rl.allclose(
            found.residuals.cpu(), wanted.residuals, rtol=1e-3, atol=1e-4
        )
    with pytest.raises(
        RuntimeError, match="other than `gels` is not supported on CUDA"
    ):
        rl.linalg.lstsq(a.to("cuda"), b.to("cuda"), driver="gelsd")


def test_drivers_of_singular_values_may_be_named_there():
    a = matrices(rl.float32, 4, 3).to("cuda")
    for driver in (None, "gesvd", "gesvdj", "gesvda"):
        assert rl.linalg.svdvals(a, driver=driver).shape == (3,)
    with pytest.raises(RuntimeError, match="unknown svd driver"):
        rl.linalg.svd(a, driver="gesdd")
    with pytest.raises(RuntimeError, match="only supported on CUDA"):
        rl.linalg.svd(a.cpu(), driver="gesvd")


def test_hermitian_factors_of_complex_matrices_are_refused_as_pytorch_does():
    a = matrices(rl.complex64, 3, 3).to("cuda")
    with pytest.raises(
        RuntimeError, match="hermitian=True flag are not supported on CUDA"
    ):
        rl.linalg.ldl_factor(a, hermitian=True)


def test_what_is_wrong_with_a_matrix_is_told_from_the_card():
    a = rl.zeros(2, 3, 3, device="cuda")
    a[0] = rl.eye(3, device="cuda")
    with pytest.raises(rl.linalg.LinAlgError, match=r"\(Batch element 1\).*singular"):
        rl.linalg.inv(a)
    with pytest.raises(rl.linalg.LinAlgError, match="not positive-definite"):
        rl.linalg.cholesky(-a)
    codes = rl.linalg.cholesky_ex(-a).info
    assert codes.is_cuda and codes.tolist() == [1, 1]


def test_gradients_of_factorizations_are_the_host_s():
    def slopes(device):
        x = matrices(rl.float64, 3, 3).to(device).requires_grad_()
        s = x @ x.mT + 3 * rl.eye(3, dtype=rl.float64, device=device)
        values, vectors = rl.linalg.eigh(s)
        loss = rl.linalg.solve(s, x).sum() + rl.linalg.cholesky(s).sum()
        loss = loss + (rl.linalg.svdvals(x) ** 2).sum() + rl.logdet(s)
        loss = loss + (vectors.square() * values).sum() + rl.linalg.qr(x).R.abs().sum()
        loss.backward()
        return x.grad.cpu()

    assert rl.allclose(slopes("cpu"), slopes("cuda"))


@pytest.mark.parametrize("seed", range(4))
def test_libraries_work_in_the_thread_s_queue_and_wait_as_it_does(machine, seed):
    machine.start(cards=2, memory=1 << 27, seed=seed)
    a = matrices(rl.float32, 8, 8).to("cuda")
    stream = rl.cuda.Stream()
    stream.wait_stream(rl.cuda.current_stream())
    with rl.cuda.stream(stream):
        b = a * 2 + rl.eye(8, device="cuda")
        inverse = rl.linalg.inv(b)
        spectrum = rl.fft.fft(inverse)
    rl.cuda.current_stream().wait_stream(stream)
    handle = machine.cusolver.handles
    assert {h.stream for h in handle.values()} == {stream.cuda_stream}
    here = rl.linalg.inv(a.cpu() * 2 + rl.eye(8))
    assert rl.allclose(inverse.cpu(), here, rtol=1e-3, atol=1e-4)
    assert rl.allclose(spectrum.cpu(), rl.fft.fft(here), rtol=1e-3, atol=1e-4)


def test_each_card_has_a_handle_of_its_own(machine):
    for index in (0, 1, 0):
        a = rl.eye(3, device=f"cuda:{index}") * 2
        assert rl.linalg.inv(a).device.index == index
    assert len(machine.cusolver.names("create")) == 2


def test_a_library_s_error_names_it_the_function_and_the_operator(machine):
    a = rl.eye(3, device="cuda")
    machine.cusolver.fail("sgetrf", 7)
    with pytest.raises(
        rl.AcceleratorError, match=r"cuSOLVER error: .*\n  function: sgetrf"
    ):
        rl.linalg.inv(a)
    machine.cufft.fail("make_plan_many64", 2)
    with pytest.raises(rl.OutOfMemoryError, match="cuFFT error"):
        rl.fft.fft(a)
    machine.cusolver.fail("sgesvdj", 6)
    with pytest.raises(rl.AcceleratorError):
        rl.linalg.svd(a)
    assert not machine.cusolver.objects, "options are let go whatever happens"
    assert rl.linalg.inv(a).tolist() == a.tolist()


TOGETHER = {
    "potrf": lambda a, b: rl.linalg.cholesky(a @ a.mT + 9 * rl.eye(a.shape[-1]).to(a)),
    "getrf": lambda a, b: rl.linalg.lu_factor(a)[0],
    "getrs": lambda a, b: rl.linalg.solve(a, b),
    "trsm": lambda a, b: rl.linalg.solve_triangular(a, b, upper=True),
    "geqrf": lambda a, b: rl.geqrf(b)[0],
    "syevj": lambda a, b: rl.linalg.eigvalsh(a + a.mT),
    "gesvdj": lambda a, b: rl.linalg.svdvals(b),
}


def asked(machine, call, *operands):
    """The names of routines that a call asks for, but for those that measure."""
    doors = machine.cusolver, machine.cublas
    for door in doors:
        door.calls.clear()
    call(*operands)
    names = [
        (door.module, name)
        for door in doors
        for name in door.names()
        if name[0] == "s" and not name.endswith("size") and name != "set_stream"
    ]
    return [name[1:] for module, name in names if name in SIGNATURES[module]]


@pytest.mark.parametrize("name", TOGETHER)
def test_many_small_matrices_are_one_call(machine, name):
    a, b = (matrices(rl.float32, 5, 8, n, seed=n).to("cuda") for n in (8, 3))
    found = asked(machine, TOGETHER[name], a, b)
    assert found.count(f"{name}_batched") == 1 and name not in found
    assert all(n.endswith("_batched") for n in found)
    found = asked(machine, TOGETHER[name], a[:1], b[:1])
    assert not any(n.endswith("_batched") for n in found)


@pytest.mark.parametrize(
    "name, n",
    [("getrf", 512), ("trsm", 64), ("geqrf", 257), ("syevd", 33), ("gesvdj", 33)],
)
def test_large_matrices_of_a_batch_go_one_by_one(machine, name, n):
    call = TOGETHER[{"syevd": "syevj"}.get(name, name)]
    a = (rl.eye(n) * 3 + rl.randn(n, n) / n).expand(2, n, n).clone()
    b = matrices(rl.float32, 2, n, 2)
    found = asked(machine, call, a.to("cuda"), b.to("cuda"))
    assert found.count(name) == 2 and not any(f.endswith("_batched") for f in found)
    alike([call(a.to("cuda"), b.to("cuda"))], [call(a, b)])


def test_each_matrix_of_a_batch_has_a_code_of_its_own(machine):
    a = rl.eye(3).repeat(4, 1, 1)
    a[1, 1, 1], a[3, 2, 2] = -1, 0
    there = a.to("cuda")
    assert rl.linalg.cholesky_ex(there).info.tolist() == [0, 2, 0, 3]
    assert rl.linalg.lu_factor_ex(there).info.tolist() == [0, 0, 0, 3]
    with pytest.raises(rl.linalg.LinAlgError, match="Batch element 1"):
        rl.linalg.cholesky(there)


@pytest.mark.imagined
def test_memory_that_is_not_there_is_seen(machine):
    a = rl.eye(3, device="cuda")
    handle = libraries.CUSOLVER.handle(machine.card())
    here = rl.eye(3)
    with pytest.raises(Misuse, match="not on a card"):
        libraries.CUSOLVER.call(
            *(machine.card(), "spotrs", handle, 0, 3, 3, a.data_ptr(), 3),
            *(here.data_ptr(), 3, a.data_ptr()),
        )


def test_what_needs_a_library_that_is_not_there_is_refused_with_what_helps(machine):
    for door in libraries.ALL:
        door.forget()
    a = rl.eye(3, device="cuda")
    for call in (rl.linalg.inv, rl.linalg.svd, rl.linalg.eigh, rl.fft.fft):
        with pytest.raises(NotImplementedError, match=r"rushlight\[cuda-libraries\]"):
            call(a)


# Fourier transforms

SHAPES = [
    ((5,), 0),
    ((4, 6), 1),
    ((4, 6), 0),
    ((3, 4, 5), 1),
    ((2, 3, 4, 7), 2),
    ((2, 1), 1),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize(("sizes", "dim"), SHAPES)
def test_transforms_are_the_host_s(machine, sizes, dim, kind):
    x = matrices(kind, *sizes)
    calls = ["fft", "ifft", "hfft", "irfft"]
    calls += [] if kind.is_complex else ["rfft", "ihfft"]
    for name in calls:
        for norm in (None, "ortho"):
            if sizes[dim] == 1 and name in ("hfft", "irfft"):
                continue
            function = getattr(rl.fft, name)
            alike(
                [function(x.to("cuda"), dim=dim, norm=norm)],
                [function(x, dim=dim, norm=norm)],
            )


@pytest.mark.parametrize(
    "name", ["fftn", "ifftn", "rfftn", "irfftn", "hfft2", "ihfft2"]
)
def test_transforms_along_several_dimensions_are_the_host_s(machine, name):
    x = matrices(rl.float64 if name in ("rfftn", "ihfft2") else rl.complex128, 3, 4, 6)
    views = (
        lambda t: t,
        lambda t: t.permute(2, 0, 1),
        lambda t: t[:, ::2],
        lambda t: t[..., 1:],
    )
    for view in views:
        function = getattr(rl.fft, name)
        alike([function(view(x.to("cuda")))], [function(view(x))])


def test_what_is_read_stays_as_it_is_and_gradients_come_back(machine):
    x = matrices(rl.complex128, 4, 5)
    there = x.to("cuda")
    rl.fft.irfft(there)
    assert rl.equal(there.cpu(), x)
    slopes = []
    for device in ("cpu", "cuda"):
        y = x.clone().to(device).requires_grad_()
        rl.fft.irfft(rl.fft.fft(y), n=7).square().sum().backward()
        slopes.append(y.grad.cpu())
    assert rl.allclose(*slopes)


def test_plans_are_kept_some_and_hold_no_memory(machine):
    x = rl.ones(6, 8, device="cuda")
    before = rl.cuda.memory_allocated()
    for _ in range(3):
        rl.fft.fft(x)
    assert machine.cufft.names("create") == ["create"]
    assert rl.cuda.memory_allocated() == before
    for size in range(2, 2 + fft.KEPT + 5):
        rl.fft.fft(x[0], n=size)
    assert len(machine.card().plans) == fft.KEPT
    assert len(machine.cufft.handles) == fft.KEPT


def test_spectrograms_go_there_and_back(machine):
    x = rl.sin(rl.arange(64.0) / 3)
    window = rl.hann_window(16)
    here = rl.stft(x, 16, window=window, return_complex=True)
    there = rl.stft(x.to("cuda"), 16, window=window.to("cuda"), return_complex=True)
    alike([there], [here])
    back = rl.istft(there, 16, window=window.to("cuda"), length=64)
    assert rl.allclose(back.cpu(), x, atol=1e-5)


def test_libraries_write_over_the_work_spaces_that_they_are_given(monkeypatch):
    written, scribble = [], imagined.Fake.scribble

    def noted(self, address, n_bytes, held):
        written.append((self.name, n_bytes))
        scribble(self, address, n_bytes, held)

    monkeypatch.setattr(imagined.Fake, "scribble", noted)
    x = rl.randn(16, 16, device="cuda")
    y = rl.linalg.cholesky(x @ x.mT + 20 * rl.eye(16, device="cuda"))
    z = rl.fft.fft(y)
    w = rl.nn.functional.conv2d(x.view(1, 1, 16, 16), x.view(4, 4, 4, 4)[:, :1])
    assert not any(t.isnan().any() for t in (y, z, w))
    wanted = {"cublas", "cusolver", "cufft", "cudnn"}
    assert {name for name, n_bytes in written if n_bytes} == wanted


def test_libraries_refuse_an_address_between_two_elements(machine):
    x = rl.zeros(9, device="cuda")
    library = imagined.Cusolver(machine.fake)
    with pytest.raises(Misuse, match="is no place of float64"):
        library.matrix(x.data_ptr() + 4, 2, 2, 2, "d", "a")
