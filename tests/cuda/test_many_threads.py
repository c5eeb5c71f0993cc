"""Work that many threads can share is not a few threads', and is divided in 32 bits."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.operators.indexing.indexing_kernels import read_elements
from rushlight.runtime.cuda.device_kernel import NARROW_INDEX, DeviceKernel

MOST_OF_A_THREAD = 8  # elements


def put(accumulate):
    """Writes rows that two indices name, some of them twice."""
    return lambda x, i: x.view(8, 8, 64).index_put(
        (i, i % 5), rl.ones(64, 64, device=x.device), accumulate
    )


def slope(function):
    """The gradient of a function of a tensor and an index."""

    def gradient(x, i):
        x = x.detach().requires_grad_()
        y = function(x, i)
        y.backward(rl.linspace(-1, 1, y.numel(), device=x.device).view_as(y))
        return x.grad

    return gradient


def image(x):
    return x.view(4, 4, 16, 16)


CALLS = {
    "x[i, j]": lambda x, i: x.view(8, 8, 64)[i, i % 3],
    "x[:, i, j]": lambda x, i: x.view(4, 8, 8, 16)[:, i, i % 3],
    "x[i, j] = v": put(False),
    "x[i, j] += v": put(True),
    "gradient of x[i]": slope(lambda x, i: x[i]),
    "gradient of x[i, j]": slope(lambda x, i: x.view(8, 8, 64)[i, i % 3]),
    "index_add": lambda x, i: x.index_add(0, i, rl.ones_like(x)),
    "interpolate": lambda x, i: F.interpolate(image(x), scale_factor=2, mode="bicubic"),
    "nearest": lambda x, i: F.interpolate(image(x), size=(24, 20)),
    "bytes": lambda x, i: F.interpolate(
        (image(x) * 50).abs().to(rl.uint8), size=(24, 20), mode="bilinear"
    ),
    "gradient of interpolate": slope(
        lambda x, i: F.interpolate(image(x), size=(20, 28), mode="bilinear")
    ),
    "max_pool2d": slope(lambda x, i: F.max_pool2d(image(x), 2)),
    "avg_pool2d": slope(lambda x, i: F.avg_pool2d(image(x), 3, 2, 1)),
    "tril": lambda x, i: x.tril(-2),
    "triu": lambda x, i: x.view(4, 16, 64).triu(9),
    "reflect": lambda x, i: F.pad(image(x), (3, 2, 1, 4), mode="reflect"),
    "circular": lambda x, i: F.pad(image(x), (3, -2, 1, 4), mode="circular"),
    "gradient of reflect": slope(
        lambda x, i: F.pad(image(x), (3, 2, 1, 4), mode="reflect")
    ),
    "gradient of circular": slope(
        lambda x, i: F.pad(image(x), (3, -2, 1, 4), mode="circular")
    ),
    "max_unpool2d": lambda x, i: F.max_unpool2d(
        *F.max_pool2d(image(x), 2, return_indices=True), 2
    ),
    "embedding_bag": lambda x, i: F.embedding_bag(i.view(16, 4), x, mode="mean"),
    "unique of rows": lambda x, i: rl.unique(x[i].sign()[:, :5], dim=0),
    "scatter": lambda x, i: x.view(8, 8, 64).scatter_reduce(
        1, i.view(8, 8, 1)[:, :4].expand(8, 4, 64), x.view(8, 8, 64), "prod"
    ),
    "segments": slope(
        lambda x, i: rl.segment_reduce(
            x, "max", lengths=rl.full((8,), 8, device=x.device), unsafe=True
        )
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_element_is_a_threads(machine, monkeypatch, name):
    launches = []
    run = DeviceKernel.run_spans

    def spy(self, card, addresses, ints, total, chunk=1):
        launches.append((self.name, -(-total // chunk)))
        return run(self, card, addresses, ints, total, chunk)

    x, i = rl.randn(64, 64), rl.arange(64) * 37 % 8
    here = CALLS[name](x, i)
    monkeypatch.setattr(DeviceKernel, "run_spans", spy)
    there = CALLS[name](x.cuda(), i.cuda())
    assert rl.allclose(there.cpu(), here, rtol=1e-5, atol=1e-6)
    busiest = max(threads for _, threads in launches)
    assert busiest * MOST_OF_A_THREAD >= min(here.numel(), x.numel()), launches


def test_sums_at_indexed_places_have_the_indexs_order(machine):
    """PyTorch sorts the places, too: its sums are the same in every run."""
    x, i, v = rl.zeros(9, 3), rl.randint(0, 4, (200,)), rl.randn(200, 3)
    for dtype in (rl.float32, rl.bfloat16, rl.complex64, rl.int32):
        given = [x.to(dtype), (v * 100).to(dtype)]
        here = given[0].index_put((i,), given[1], True)
        there = given[0].cuda().index_put((i.cuda(),), given[1].cuda(), True)
        assert rl.equal(there.cpu(), here), dtype


@pytest.mark.parametrize(
    "size, narrow", [(6, True), (NARROW_INDEX, False), (-1, False)]
)
def test_divisions_take_32_bits_where_all_integers_fit(machine, size, narrow):
    x = rl.arange(6.0, device="cuda")
    places, out = rl.arange(6, device="cuda").flip(0), rl.zeros(6, device="cuda")
    from rushlight.operators.loop_calls import fault_flag, run

    types = {"T": "float32", "I": "int64", "each": 1}
    types |= {"names_slices": 0, "names_wrap": 0}
    run(
        read_elements,
        [out, x, places, fault_flag(x)],
        [6, 6, 1, 0, 0, size],
        6,
        **types,
    )
    assert out.tolist() == [5, 4, 3, 2, 1, 0]
    texts = [
        item.text
        for item in machine.fake.live.values()
        if hasattr(item, "most_threads")
    ]
    (text,) = [t for t in texts if "read_elements" in t]
    assert ("div.s64" not in text) == narrow
