"""Rows, products and convolutions as blocks of threads compute them, beside the host."""

from __future__ import annotations

import re

import pytest

import rushlight as rl
from rushlight.nn import functional as F
from tests.cuda.executor import DivergenceError, Executor

SHAPES = [(1, 5), (3, 33), (5, 700), (40, 3)]
REDUCTIONS = [
    lambda x, d: rl.sum(x, d),
    lambda x, d: rl.amax(x, d),
    lambda x, d: rl.var(x, d),
    lambda x, d: rl.max(x, d).values,
    lambda x, d: rl.max(x, d).indices.double(),
    lambda x, d: rl.softmax(x, d),
    lambda x, d: rl.log_softmax(x, d),
    lambda x, d: rl.logsumexp(x, d),
    lambda x, d: rl.cumsum(x, d),
    lambda x, d: rl.sort(x, d).values,
]


@pytest.fixture(autouse=True)
def _machine(machine):
    machine.start(memory=1 << 28)


def near(found, expected, tolerance=1e-5):
    assert found.is_cuda and found.shape == expected.shape
    gap = (found.cpu().double() - expected.double()).abs().max().item()
    assert gap <= tolerance * max(1, expected.abs().max().item())


@pytest.mark.parametrize("number", range(len(REDUCTIONS)))
@pytest.mark.parametrize("dim", [0, 1])
def test_rows_of_any_length_either_way(number, dim):
    for shape in SHAPES:
        if number == 2 and shape[dim] == 1:
            continue  # of one value there is no variance
        x = rl.randn(shape)
        near(REDUCTIONS[number](x.to("cuda"), dim), REDUCTIONS[number](x, dim))


def test_one_number_from_many_is_made_from_parts(machine):
    x = rl.randn(200_000)
    calls = len(machine.fake.names("cuLaunchKernel"))
    near(rl.sum(x.to("cuda")), rl.sum(x), 1e-4)
    assert len(machine.fake.names("cuLaunchKernel")) - calls == 2


KEPT = [
    lambda x: x.sum(1),
    lambda x: x.argmax(1),
    lambda x: x.var(1),
    lambda x: x.softmax(1),
    lambda x: x.log_softmax(1),
    lambda x: F.layer_norm(x, x.shape[1:], x[0], x[1]),
    lambda x: F.softmax(x.t().contiguous().t()[:, : x.shape[1] // 2 * 2], 1),
]


@pytest.mark.parametrize("length", [100, 128, 384, 1000, 1001, 1100])
@pytest.mark.parametrize("number", range(len(KEPT)))
def test_a_row_that_fits_registers_is_loaded_once(machine, number, length):
    compute = KEPT[number]
    for kind, digits in ((rl.float32, 1e-5), (rl.bfloat16, 1e-2), (rl.float64, 1e-9)):
        x = rl.randn(3, length).to(kind)
        near(compute(x.to("cuda")), compute(x), digits)


def test_a_row_in_registers_is_asked_for_by_one_load_of_four(machine):
    rl.randn(3, 384).to("cuda").softmax(1)
    kernels = [item for item in machine.fake.live.values() if hasattr(item, "name")]
    (text,) = (k.text for k in kernels if k.name.endswith("f32_blocks4"))
    read, *_ = re.split(r"bar\.sync|barrier\.sync", text)
    assert re.findall(r"ld\.global\S*", text).count("ld.global.v4.b32") == 1
    assert "ld.global.v4.b32" in read and "st.global.v4.b32" in text


def test_rows_in_registers_are_written_over_themselves_and_left_of_views():
    x = rl.randn(4, 520)
    rows = x.to("cuda")
    near(rl.softmax(rows, 1, out=rows), rl.softmax(x, 1))
    for view in (lambda t: t[:, 4:], lambda t: t[:, 1:513], lambda t: t[::2, :512]):
        near(rl.softmax(view(x.to("cuda")), 1), rl.softmax(view(x), 1))
        near(view(x.to("cuda")).sum(1), view(x).sum(1))


def test_sums_have_the_same_bits_in_any_order_of_threads_and_blocks():
    x = rl.randn(7, 5000).to("cuda")
    first = rl.sum(x, 1), rl.softmax(x, 1), rl.sum(x)
    for _ in range(3):
        again = rl.sum(x, 1), rl.softmax(x, 1), rl.sum(x)
        assert all(map(rl.equal, first, again))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 7), (33, 65, 20), (70, 129, 33)])
def test_products_of_any_sizes(dtype, sizes):
    rows, columns, depth = sizes
    kind = getattr(rl, dtype)
    a, b = (rl.randn(rows, depth) * 4).to(kind), (rl.randn(columns, depth) * 4).to(kind)
    there = a.to("cuda"), b.to("cuda")
    near(there[0] @ there[1].t(), a @ b.t(), 1e-2 if dtype == "bfloat16" else 1e-5)
    c = (rl.randn(rows, columns) * 4).to(kind)
    found = rl.addmm(c.to("cuda"), there[0], there[1].t(), beta=2, alpha=3)
    wanted = rl.addmm(c, a, b.t(), beta=2, alpha=3)
    near(found, wanted, 1e-2 if dtype == "bfloat16" else 1e-5)


def test_products_of_batches_vectors_and_nothing():
    a, b = rl.randn(3, 4, 5), rl.randn(3, 5, 6)
    near(a.to("cuda") @ b.to("cuda"), a @ b)
    near(a[0].to("cuda") @ b[0, :, 0].to("cuda"), a[0] @ b[0, :, 0])
    near(rl.dot(a[0, 0].to("cuda"), b[0, :, 0].to("cuda")), rl.dot(a[0, 0], b[0, :, 0]))
    nothing = rl.zeros(3, 0, device="cuda") @ rl.zeros(0, 2, device="cuda")
    assert rl.equal(nothing.cpu(), rl.zeros(3, 2))


@pytest.mark.parametrize(
    "settings",
    [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "groups": 2, "padding": (1, 2)}],
)
def test_convolutions_and_their_gradients(settings):
    x, b = rl.randn(2, 4, 9, 8), rl.randn(6)
    w = rl.randn(6, 4 // settings.get("groups", 1), 3, 2)

    def results(device):
        leaves = [t.clone().to(device).requires_grad_() for t in (x, w, b)]
        y = F.conv2d(*leaves, **settings)
        (y * y).sum().backward()
        return [y.detach(), *(leaf.grad for leaf in leaves)]

    with rl.backends.cudnn.flags(enabled=False):  # kernels of ours
        for found, wanted in zip(results("cuda"), results("cpu"), strict=True):
            near(found, wanted)


@pytest.mark.imagined
def test_a_thread_that_waits_alone_is_found(machine, monkeypatch):
    x = rl.randn(2, 100).to("cuda")
    remember = Executor.remember

    def spoiled(self, text):
        barrier = re.search(r"  call void @llvm\.nvvm\.barrier[^\n]*\n", text)
        if barrier:
            skip = "  %alone = icmp eq i32 %lane.number, 0\n  br i1 %alone, "
            skip += f"label %after, label %wait\nwait:\n{barrier[0]}  br label %after\n"
            skip = "  %lane.number = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n" + skip
            at = barrier.start()
            text = text[:at] + skip + "after:\n" + text[barrier.end() :]
        remember(self, text)

    monkeypatch.setattr(Executor, "remember", spoiled)
    with pytest.raises((DivergenceError, RuntimeError)):
        rl.softmax(x, 1).cpu()


@pytest.mark.parametrize("kind", [rl.float16, rl.bfloat16], ids=lambda k: k.name)
def test_statistics_of_halves_are_kept_in_full(kind):
    rl.manual_seed(0)  # of some rows a rounded sum is farther away than the bound
    x, w, b = (rl.randn(*s).to(kind) for s in ((4, 3, 5), (3,), (3,)))
    rows = rl.randn(5).to(kind)

    def results(x, w, b, rows):
        mean, var = rl.zeros_like(w), rl.ones_like(w)
        batch = rl.native_batch_norm(x, w, b, mean, var, True, 0.1, 1e-5)
        return [*batch, *rl.native_layer_norm(x, [5], rows, rows, 1e-5), mean, var]

    found = results(*(t.to("cuda") for t in (x, w, b, rows)))
    wanted = results(*(t.double() for t in (x, w, b, rows)))
    full = [t.dtype is rl.float32 for t in found]
    assert full == [False, True, True, False, True, True, False, False]
    for one, other in zip(found, wanted, strict=True):
        digits = 1e-5 if one.dtype is rl.float32 else 3e-2
        assert rl.allclose(one.cpu().double(), other, rtol=digits, atol=digits)

    def slopes(device):
        leaves = [t.to(device).requires_grad_() for t in (x, w, b)]
        rl.nn.functional.batch_norm(leaves[0], None, None, *leaves[1:], True).pow(
            2
        ).sum().backward()
        return [leaf.grad.cpu().double() for leaf in leaves]

    for one, other in zip(slopes("cuda"), slopes("cpu"), strict=True):
        assert rl.allclose(one, other, rtol=5e-2, atol=5e-2)
