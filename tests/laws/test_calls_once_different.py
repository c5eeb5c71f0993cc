"""Calls that the fuzzer found to go otherwise than on PyTorch, and that now go alike.

Each row stands for a class: what it says is asked of both libraries, whose answers, or the
kinds of whose refusals, are compared.
"""

import numpy
import pytest

torch = pytest.importorskip("torch", reason="the oracle is not installed")

import rushlight  # noqa: E402


def window(m, dtype, sizes, strides):
    return m.arange(400).to(dtype).as_strided(sizes, strides)


def laid_out(name, dtype, sizes, strides):
    def ask(m):
        place = m
        for part in name.split("."):
            place = getattr(place, part)
        return place(window(m, getattr(m, dtype), sizes, strides)).stride()

    return ask


VOLUME = (1, 3, 3, 1, 1), (36, 2, 12, 6, 36)
DEEP = (3, 3, 1, 1, 3), (24, 1, 3, 6, 6)
STRIDES = {
    f"{name} of {dtype} keeps the order of volumes {sizes}": laid_out(
        name, dtype, sizes, strides
    )
    for sizes, strides in (VOLUME, DEEP)
    for name, dtype in (
        ("tanh", "int64"),
        ("isfinite", "float32"),
        ("rad2deg", "int64"),
        ("special.i1", "int32"),
        ("logit", "int64"),
        ("nn.functional.relu6", "float32"),
    )
}


def complex_leaf(m):
    return m.ones(2, 2, dtype=m.complex64, requires_grad=True)


def fractional(dims, *sizes):
    def ask(m):
        pool = getattr(m.nn.functional, f"fractional_max_pool{dims}d")
        return pool(m.ones(sizes), 2, output_ratio=(0.5,) * dims)

    return ask


def embedded_bags(**given):
    def ask(m):
        kwargs = {k: v(m) if callable(v) else v for k, v in given.items()}
        offsets = kwargs.pop("offsets", m.tensor([0, 1]))
        rows = m.arange(10.0).reshape(5, 2)
        bag = m.nn.functional.embedding_bag
        return bag(m.tensor([1, 2, 4]), rows, offsets, **kwargs)

    return ask


def sampled_slopes(m, images, channels):
    x = m.ones(images, channels, 5, 5, requires_grad=True)
    grid = m.zeros(images, 3, 3, 2, requires_grad=True)
    m.nn.functional.grid_sample(x, grid, align_corners=False).sum().backward()
    return x.grad


HUGE = 10**30
CALLS = {
    **STRIDES,
    "rms_norm keeps the step of a single row": lambda m: m.nn.functional.rms_norm(
        window(m, m.float32, (1, 2), (1, 1)), (2,)
    ).stride(),
    "one row of coordinates is laid out as its transpose": lambda m: (
        m.eye(5).to_sparse(1)._indices().stride()
    ),
    "None stands for no dims of roll": lambda m: m.roll(m.ones(2, 2), 1, None),
    "None stands for no stride of max_pool2d": lambda m: m.max_pool2d(
        m.ones(1, 1, 2, 2), 1, None
    ),
    "None is no padding of max_pool2d": lambda m: m.max_pool2d(
        m.ones(1, 1, 2, 2), 1, 1, None
    ),
    "a width beyond int64 is a float to trapz": lambda m: m.trapz(m.eye(3), dx=HUGE),
    "a complex width is none to trapz": lambda m: m.trapz(m.eye(3), dx=1j),
    "narrow starts at no complex number": lambda m: m.narrow(
        m.eye(3), 0, m.tensor(1 + 0j), 1
    ),
    "no norm of a matrix is of a complex order": lambda m: m.linalg.norm(m.eye(3), 1j),
    "no condition is of a complex order": lambda m: m.linalg.cond(m.eye(3), 1j),
    "a ratio of a number's sizes": fractional(2),
    "a ratio of a vector's sizes": fractional(3, 2),
    "no unsigned integer is negative, however small": lambda m: m.addmm(
        *[m.ones(2, 2, dtype=m.uint8) for _ in range(3)], beta=-1e-40
    ),
    "sizes that do not broadcast": lambda m: m.broadcast_shapes((2, 3), (5, 3)),
    "a size that is negative": lambda m: m.broadcast_shapes((10, 1, 5), (-1, 1)),
    "a negative size beside another": lambda m: m.broadcast_shapes((3, 5), (3, -1)),
    "no shape": lambda m: m.broadcast_shapes((2**64,), float("nan")),
    "the largest of one number of a type without order": lambda m: m.topk(
        m.tensor(3, dtype=m.uint32), 1
    )[0],
    "nothing is unshuffled into nothing": lambda m: m.nn.functional.pixel_unshuffle(
        m.ones(1, 0, 6, 6), 3
    ),
    "no gradient of complex coordinates": lambda m: complex_leaf(m).to_sparse().shape,
    "no gradient of complex rows": lambda m: complex_leaf(m).to_sparse_csr().shape,
    "a number of any type is the largest of itself": lambda m: m.cummax(
        m.tensor(1 + 2j), 0
    )[0],
    "nothing has no dimension that is out of range": lambda m: m.cummin(
        m.ones(0), 2**40
    )[0],
    "a volume by its channels is no image": lambda m: m.nn.functional.pixel_shuffle(
        m.ones(1, 2, 4, 2, 2).contiguous(memory_format=m.channels_last_3d), 2
    ),
    "differences are written to wider integers": lambda m: m.diff(
        m.arange(5, dtype=m.int16), 2, out=m.empty(3, dtype=m.int64)
    ),
    "differences are written to no truth values": lambda m: m.diff(
        m.arange(5, dtype=m.int16), 2, out=m.empty(3, dtype=m.bool)
    ),
    "a window so narrow that its square is beyond int64": lambda m: (
        m.signal.windows.kaiser(5, beta=2**63 - 1).isnan()
    ),
    "a margin that is no number": lambda m: m.nn.functional.multi_margin_loss(
        m.ones(2, 3), m.tensor([0, 1]), margin=float("nan")
    ),
    "an outer product in what it reads": lambda m: (
        lambda x: m.outer(x, m.ones(3), out=x)
    )(m.ones(2)),
    "a number at no source": lambda m: m.scatter_reduce(
        m.ones(()), 0, m.tensor(0), m.ones(0), "prod"
    ),
    "sizes that can be gone through": lambda m: m.nn.functional.unfold(
        m.ones(1, 1, 4, 4), b"\x02\x01"
    ),
    "windows of half precision": lambda m: (
        m.stft(
            m.ones(32, dtype=m.bfloat16),
            16,
            window=m.ones(16, dtype=m.bfloat16),
            return_complex=True,
        ).shape
    ),
    "bags that begin at truth values": embedded_bags(
        offsets=lambda m: m.tensor([False, True])
    ),
    "a row for padding beyond int64": embedded_bags(padding_idx=2**64),
    "a complex row for padding": embedded_bags(padding_idx=1j),
    "the area under no points has no history": lambda m: (
        m.trapezoid(m.ones(0, requires_grad=True)).requires_grad,
    ),
    "one place in a tensor is a place to split at": lambda m: tuple(
        part.shape[0] for part in m.tensor_split(m.ones(5), m.tensor([4]))
    ),
    "a deviation that is no number": lambda m: m.normal(m.zeros(2), float("nan")),
    "deviations that are no numbers": lambda m: m.normal(0.0, m.tensor([float("nan")])),
    "more places than a number has": lambda m: m.scatter_reduce(
        m.ones(()), 0, m.tensor([0, 0]), m.ones(()), "amax"
    ),
    "a complex factor of a real product": lambda m: m.addbmm(
        *[m.ones(*sizes, dtype=m.bfloat16) for sizes in ((2, 2), (1, 2, 2), (1, 2, 2))],
        beta=1j,
    ),
    "nothing to draw from": lambda m: m.multinomial(m.ones(0), 3, replacement=True),
    "no row has anything to draw from": lambda m: m.multinomial(m.ones(2, 0), 3, True),
    "a matrix has no norm of an order that is no number": lambda m: m.linalg.norm(
        m.eye(2), float("nan")
    ),
    "a condition of an order that is no number": lambda m: m.linalg.cond(
        m.eye(2), float("nan")
    ),
    "an infinite element is normalized to infinity": lambda m: m.isinf(
        m.nn.functional.batch_norm(
            m.tensor([[0.9], [-float("inf")]]), m.tensor([1.3]), m.tensor([0.9])
        )
    ),
    "one step beyond all floats": lambda m: m.logspace(2**31, 2**31, 1, 1.1),
    "an addend of other sizes is refused if it counts nothing": lambda m: m.addmm(
        m.ones(5), m.ones(5, 5), m.ones(5, 10), beta=0
    ),
    "an addend of a batch, too": lambda m: m.baddbmm(
        m.ones(5), m.ones(2, 5, 5), m.ones(2, 5, 10), beta=0
    ),
    "whole numbers have whole factors": lambda m: m.addmm(
        m.ones(5, dtype=m.int64),
        m.ones(5, 5, dtype=m.int64),
        m.ones(5, 10, dtype=m.int64),
        beta=0.6,
    ),
    "no channels have no slopes": lambda m: sampled_slopes(m, 2, 0),
    "no images have no slopes": lambda m: sampled_slopes(m, 0, 2),
    "what is filled is not laid out as the mask": lambda m: m.masked_fill(
        m.ones(5, 4), m.ones(4, 5).t() > 0, m.tensor(2.0, requires_grad=True)
    ).stride(),
    "attention is of fractions": lambda m: m.nn.functional.scaled_dot_product_attention(
        *[m.ones(2, 3, 4, dtype=m.int16) for _ in range(3)]
    ),
    "an array of no sizes is no dimension": lambda m: m.all(
        m.ones(2, 3), dim=numpy.array(0)
    ),
    "an array of no sizes is no dimension to squeeze": lambda m: m.squeeze(
        m.ones(1, 3), numpy.array(0)
    ),
    "choices of more elements than memory has places for": lambda m: m.combinations(
        m.ones(4), 2**63 - 1
    ),
    "a product of nothing leaves integers times a broken factor": lambda m: m.addmm(
        m.ones(2, 3, dtype=m.int64),
        m.ones(2, 0, dtype=m.int64),
        m.ones(0, 3, dtype=m.int64),
        beta=0.5,
    ),
    "the slope of digamma ends at zero": lambda m: m.polygamma(
        1, m.tensor([float("inf"), 1e30])
    ),
    "how many elements differ from what is no number": lambda m: m.isnan(
        m.cdist(
            m.tensor([[0.0, 1.0]]),
            m.tensor([[0.0, float("nan")]], requires_grad=True),
            0.0,
        )
    ),
    "a grid for a number": lambda m: m.nn.functional.grid_sample(
        m.ones(()), m.ones(()), align_corners=False
    ),
    "a size that is a fraction, and does not broadcast": lambda m: m.broadcast_shapes(
        (5, 10, 5), (1e40, 5)
    ),
    "scales in tensors are no numbers": lambda m: m.nn.functional.interpolate(
        m.ones(1, 1, 2, 2), scale_factor=m.tensor(2.0), mode="bilinear"
    ),
    "one channel lies innermost as well": lambda m: m.nn.functional.max_pool2d(
        window(m, m.float32, (2, 1, 4, 4), (16, 1, 4, 1)), 2
    ).stride(),
    "places of nothing are missed before out= is looked at": lambda m: m.argmin(
        m.ones(3, 0, requires_grad=True), out=m.ones(3)
    ),
    "a robust cost is laid out as its input alone": lambda m: (
        m.nn.functional.huber_loss(
            window(m, m.float32, (5, 5, 5), (5, 1, 0)),
            window(m, m.float32, (5, 5, 5), (2, 10, 50)),
            reduction="none",
        ).stride()
    ),
    "a weight of two dimensions for one input": lambda m: m.nn.functional.bilinear(
        m.ones(8, 3), m.ones(8, 4), m.ones(8, 4)
    ),
    "no pairs of one element of any type": lambda m: (
        m.combinations(m.ones(1, dtype=m.uint16)).shape
    ),
    "a place for padding that is a tensor": lambda m: m.nn.functional.embedding(
        m.tensor([1]), m.ones(3, 2), m.tensor(-1.0, requires_grad=True)
    ),
    "a kernel is missed before out= is looked at": lambda m: (
        m.special.modified_bessel_k1(
            m.ones(2, dtype=m.float16), out=m.empty(2, requires_grad=True)
        )
    ),
}


def answer(m, ask):
    try:
        found = ask(m)
    except Exception as error:
        return type(error).__name__
    if isinstance(found, m.Tensor):
        return tuple(found.shape), found.tolist()
    return tuple(found)


@pytest.mark.parametrize("sentence", CALLS)
def test_the_call_goes_as_on_pytorch(sentence):
    assert answer(rushlight, CALLS[sentence]) == answer(torch, CALLS[sentence])


def test_sizes_that_do_not_broadcast_are_told_as_pytorch_tells_them():
    def told(m):
        with pytest.raises(RuntimeError) as caught:
            m.clamp(m.ones(5, 2, 5), m.ones(4, 5), m.ones(4, 5))
        return str(caught.value).split("\n")[0]

    assert told(rushlight) == told(torch)


def test_slopes_of_a_norm_do_not_overflow_where_their_ratio_does_not():
    values = [-90.0, -39.5, -1e-30, 230.0]

    def slopes(dtype):
        x = rushlight.tensor(values, dtype=dtype, requires_grad=True)
        rushlight.linalg.norm(x, -0.5).backward()
        return x.grad.tolist()

    single, double = slopes(rushlight.float32), slopes(rushlight.float64)
    assert single == pytest.approx(double, rel=1e-5)


@pytest.mark.parametrize("columns", [1, 3, 200])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_logarithms_of_complex_sums_are_pytorchs(dtype, columns):
    def sums(m):
        x = m.arange(4.0 * columns).reshape(4, columns) / (2.0 * columns)
        return m.logcumsumexp(x.to(getattr(m, dtype)) * (1 - 0.5j), 0)

    theirs = sums(torch)
    torch.testing.assert_close(
        torch.tensor(sums(rushlight).tolist()).to(theirs), theirs
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["batch_norm", "layer_norm", "group_norm"])
def test_gradients_of_norms_are_the_same_whether_they_are_recorded(name, dtype):
    """The squares of what half precision holds are beyond it."""
    kind = getattr(rushlight, dtype)
    x = (rushlight.arange(48.0).reshape(4, 3, 4) * 40 - 700).to(kind).requires_grad_()
    scale = rushlight.ones(
        4 if name == "layer_norm" else 3, dtype=kind
    ).requires_grad_()
    settings = {
        "batch_norm": (None, None, scale, None, True),
        "layer_norm": ((4,), scale),
        "group_norm": (3, scale),
    }[name]
    result = getattr(rushlight.nn.functional, name)(x, *settings)
    cotangent = (rushlight.arange(48.0).reshape(4, 3, 4).sin()).to(kind)

    def slopes(recorded):
        return rushlight.autograd.grad(
            result, (x, scale), cotangent, retain_graph=True, create_graph=recorded
        )

    for plain, recorded in zip(slopes(False), slopes(True), strict=True):
        assert recorded.dtype is plain.dtype
        gap = (recorded - plain).detach().float().abs().max().item()
        assert gap <= 0.02 * plain.float().abs().max().item()


def test_the_bend_of_gelu_keeps_its_digits_far_out():
    def bend(dtype):
        x = rushlight.tensor([-5.4, 5.4], dtype=dtype, requires_grad=True)
        y = rushlight.nn.functional.gelu(x, approximate="tanh").sum()
        (slope,) = rushlight.autograd.grad(y, x, create_graph=True)
        return rushlight.autograd.grad(slope.sum(), x)[0].tolist()

    assert bend(rushlight.float32) == pytest.approx(bend(rushlight.float64), rel=1e-3)
