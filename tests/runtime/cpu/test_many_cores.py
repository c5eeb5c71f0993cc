"""Work for more cores than this machine has: counted, and with the bits of one thread."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight.kernels.conv import conv_geometry
from rushlight.kernels.conv.weight_geometry import weight_plan
from rushlight.operators.convolution import convolution
from rushlight.runtime.cpu import blocks, pool

SIZES = (
    (1024, 1024, 1024, 1), (2048, 2048, 2048, 1), (4096, 4096, 4096, 1),
    (4096, 768, 768, 1), (8192, 3072, 768, 1), (4096, 4096, 1024, 1),
    (512, 4096, 4096, 1), (1000, 1500, 2000, 1), (256, 256, 256, 64), (512, 512, 64, 192),
)  # fmt: skip


@pytest.fixture(autouse=True)
def same_number_of_threads_afterwards():
    before = pool.get_num_threads()
    yield
    pool.set_num_threads(before)


def busiest(sizes, threads, capacity, width):
    """What the busiest thread computes, of an even share."""
    rows, columns, _, batch = sizes
    height, wide, count = blocks.blocks_of(sizes, False, capacity, width, threads)
    assert count == batch * -(-rows // height) * -(-columns // wide)
    each = min(height, rows) * min(wide, columns)
    return -(-count // threads) * each * threads / (rows * columns * batch)


@pytest.mark.parametrize("capacity, width", [(512, 64), (256, 16), (128, 8)])
@pytest.mark.parametrize("threads", [16, 64, 128])
def test_products_are_shared_evenly_by_many_threads(threads, capacity, width):
    shares = {sizes: busiest(sizes, threads, capacity, width) for sizes in SIZES}
    assert max(shares.values()) <= 1.15, shares


def test_few_threads_have_the_blocks_they_had():
    for sizes in SIZES:
        rows, columns, depth, batch = sizes
        made = [blocks.blocks_of(sizes, False, 512, 64, n) for n in (1, 2, 4)]
        assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16])
def test_bits_of_products_are_the_same_on_any_number_of_threads(dtype):
    rl.manual_seed(0)
    cases = [
        ((500, 700), (700, 610)),
        ((3, 300, 200), (200, 1000)),
        ((7, 4000), (4000, 3000)),
    ]
    for left, right in cases:
        a, b = rl.randn(*left).to(dtype), rl.randn(*right).to(dtype)
        found = []
        for threads in (1, 16, 64, 200):
            pool.set_num_threads(threads)
            found.append((a @ b, a @ b.t().contiguous().t()))
        for one, other in found[1:]:
            assert rl.equal(one, found[0][0])
            assert rl.equal(other, found[0][1])


def test_two_hundred_threads_add_and_reduce_as_one():
    x = rl.randn(300_000)
    wanted = (x + x, x.sum(), x.view(300, 1000).sum(0))
    pool.set_num_threads(200)
    assert pool.get_num_threads() == 200
    for one, other in zip(
        wanted, (x + x, x.sum(), x.view(300, 1000).sum(0)), strict=True
    ):
        assert rl.equal(one, other)


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="Linux alone binds threads"
)
def test_threads_are_bound_where_the_environment_asks():
    code = (
        "import os, rushlight as rl; rl.set_num_threads(3); x = rl.ones(1 << 20); x + x\n"
        "print(*(sorted(os.sched_getaffinity(int(t))) for t in os.listdir('/proc/self/task')))"
    )
    chosen = min(os.sched_getaffinity(0))
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "GOMP_CPU_AFFINITY": str(chosen)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert found.split() == [f"[{chosen}]"] * 3


WEIGHTS = {  # of a residual network of 50 layers, of batches of 64 and 256 images
    "3x3, 64": ((256, 64, 56, 56), (64, 64, 3, 3)),
    "3x3, 256": ((64, 256, 14, 14), (256, 256, 3, 3)),
    "3x3, 512": ((256, 512, 7, 7), (512, 512, 3, 3)),
    "1x1, 256": ((256, 256, 56, 56), (64, 256, 1, 1)),
    "7x7, 3": ((256, 3, 224, 224), (64, 3, 7, 7)),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_gradients_of_weights_have_work_for_many_threads(name):
    image, weight = WEIGHTS[name]
    padding = (0, *[size // 2 for size in weight[2:]])
    given = (image, weight, image[2:], (1, 1), padding[1:], (1, 1), 1)
    few, many = (weight_plan(*given, 16, threads) for threads in (2, 64))
    assert many[4] >= 32  # chunks; they were 16 for the second
    assert few[5] == many[5]  # parts, whose sums are in the bits


CONVOLUTIONS = {  # input, weight, stride, padding
    "by patches": ((8, 32, 16, 16), (64, 32, 4, 4), 2, 1),
    "by squares": ((1, 64, 28, 28), (96, 64, 3, 3), 1, 1),
    "of few positions": ((1, 128, 7, 7), (256, 128, 3, 3), 1, 1),
    "of one position": ((8, 128, 4, 4), (64, 128, 4, 4), 1, 0),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_bits_of_convolutions_are_the_same_on_any_number_of_threads(name):
    rl.manual_seed(0)
    shape, kernel, stride, padding = CONVOLUTIONS[name]
    x, w = rl.randn(*shape), rl.randn(*kernel)
    for format in (rl.contiguous_format, rl.channels_last):
        a, found = x.clone(memory_format=format).requires_grad_(), []
        for threads in (1, 2, 3, 16):
            pool.set_num_threads(threads)
            y = rl.conv2d(a, w, None, stride, padding)
            found.append((y, *rl.autograd.grad(y, a, y.detach())))
        for one in found[1:]:
            assert all(map(rl.equal, one, found[0]))


def cut_for(threads):
    shape, kernel, stride, padding = CONVOLUTIONS["by patches"]
    sizes = (8, 8), (stride, stride), (padding, padding), (1, 1), 1
    *_, chunks, _ = conv_geometry.forward_plan(
        shape, kernel, *sizes, False, False, threads
    )
    return chunks


def test_threads_have_as_many_chunks_of_a_convolution_each_and_one_thread_one_band():
    assert [cut_for(threads) for threads in (1, 2, 3, 6)] == [2, 2, 6, 6]


def test_two_threads_share_a_weights_gradient_of_few_positions():
    sizes = (4, 4), (2, 2), (1, 1), (1, 1), 1, 256
    shapes = (8, 64, 8, 8), (128, 64, 4, 4)
    chunks = [weight_plan(*shapes, *sizes, threads)[-2] for threads in (1, 2, 4)]
    assert chunks == [1, 2, 4]


def test_convolutions_are_cut_again_when_the_number_of_threads_changes(monkeypatch):
    shape, kernel, stride, padding = CONVOLUTIONS["by patches"]
    x, w, asked = rl.randn(*shape), rl.randn(*kernel), []
    plan = convolution.forward_plan
    monkeypatch.setattr(
        convolution, "forward_plan", lambda *args: asked.append(args[-1]) or plan(*args)
    )
    for threads in (5, 5, 7, 7):
        pool.set_num_threads(threads)
        for _ in range(3):
            rl.conv2d(x, w, None, stride, padding)
    assert asked == [5, 7]
