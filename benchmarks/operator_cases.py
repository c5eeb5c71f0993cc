"""Large cases of operators whose samples in PyTorch's database stay small."""

import numpy as np

SEED = 0


def drawn(library, *sizes, kind="float32", low=0, high=1):
    """Elements between two bounds, the same in both libraries."""
    random = np.random.default_rng([SEED, *sizes])
    values = np.asarray(random.random(sizes) * (high - low) + low)
    return library.from_numpy(values.astype(kind))


def case(function, *shapes, **options):
    """A function of the library and tensors, made ready for both libraries.

    Args:
        shapes: a tuple of sizes each, or of sizes and a dict of `drawn`'s options.
    """

    def make(library):
        tensors = []
        for shape in shapes:
            named = dict(options)
            if isinstance(shape[-1], dict):
                *shape, own = shape
                named.update(own)
            tensors.append(drawn(library, *shape, **named))
        return lambda: function(library, *tensors)

    return make


def pointwise(name, low, high, size=200_000, kind="float32"):
    """An elementwise function, by its dotted name."""

    def function(library, x):
        for part in name.split("."):
            library = getattr(library, part)
        return library(x)

    return case(function, (size, {"low": low, "high": high, "kind": kind}))


def whole(low, high, **more):
    """Options of integers."""
    return {"kind": "int64", "low": low, "high": high, **more}


def ctc(m, scores, targets):
    return m.nn.functional.ctc_loss(
        m.log_softmax(scores, -1), targets, [50] * 8, [20] * 8
    )


IMAGES, POINTS = (4, 16, 64, 64), (4, 64, 64, 2, {"low": -1})

CASES = {
    "gcd": case(lambda m, a, b: m.gcd(a, b), (300_000,), (300_000,), **whole(1, 1000)),
    "lcm": case(lambda m, a, b: m.lcm(a, b), (300_000,), (300_000,), **whole(1, 1000)),
    "cross": case(lambda m, a, b: m.linalg.cross(a, b), (100_000, 3), (100_000, 3)),
    "pdist": case(lambda m, a: m.nn.functional.pdist(a), (500, 32)),
    "pdist, p 1": case(lambda m, a: m.nn.functional.pdist(a, 1.0), (500, 32)),
    "pdist, p 3": case(lambda m, a: m.nn.functional.pdist(a, 3.0), (200, 32)),
    "cdist": case(lambda m, a, b: m.cdist(a, b), (500, 32), (500, 32)),
    "cdist, p 1": case(lambda m, a, b: m.cdist(a, b, 1.0), (500, 32), (500, 32)),
    "pad, replicated": case(
        lambda m, a: m.nn.functional.pad(a, (2, 2, 2, 2), mode="replicate"),
        (8, 16, 64, 64),
    ),
    "pad, reflected": case(
        lambda m, a: m.nn.functional.pad(a, (2, 2, 2, 2), mode="reflect"),
        (8, 16, 64, 64),
    ),
    "pad, circular": case(
        lambda m, a: m.nn.functional.pad(a, (2, 2, 2, 2), mode="circular"),
        (8, 16, 64, 64),
    ),
    "pad, constant": case(
        lambda m, a: m.nn.functional.pad(a, (2, 2, 2, 2)), (8, 16, 64, 64)
    ),
    "igamma": case(lambda m, a, b: m.igamma(a, b), (100_000,), (100_000,), high=5),
    "igammac": case(lambda m, a, b: m.igammac(a, b), (100_000,), (100_000,), high=5),
    "zeta": case(
        lambda m, a, b: m.special.zeta(a, b),
        (50_000, {"low": 1.1}), (50_000, {"low": 0.5}), high=5,
    ),  # fmt: skip
    "multi_margin_loss": case(
        lambda m, a, b: m.nn.functional.multi_margin_loss(a, b),
        (5000, 50), (5000, whole(0, 49)),
    ),  # fmt: skip
    "multilabel_margin_loss": case(
        lambda m, a, b: m.nn.functional.multilabel_margin_loss(a, b),
        (2000, 50), (2000, 50, whole(-1, 49)),
    ),  # fmt: skip
    "histc": case(lambda m, a: m.histc(a, 100), (1_000_000,)),
    "searchsorted": case(
        lambda m, a, b: m.searchsorted(a.sort().values, b), (10_000,), (200_000,)
    ),
    "unfold": case(
        lambda m, a: m.nn.functional.unfold(a, 3, padding=1), (8, 16, 64, 64)
    ),
    "grid_sample": case(
        lambda m, a, b: m.nn.functional.grid_sample(a, b, align_corners=False),
        IMAGES, POINTS,
    ),  # fmt: skip
    "grid_sample, nearest": case(
        lambda m, a, b: m.nn.functional.grid_sample(
            a, b, mode="nearest", align_corners=False
        ),
        IMAGES, POINTS,
    ),  # fmt: skip
    "grid_sample, bicubic": case(
        lambda m, a, b: m.nn.functional.grid_sample(
            a, b, mode="bicubic", align_corners=False
        ),
        IMAGES, POINTS,
    ),  # fmt: skip
    "grid_sample, reflected": case(
        lambda m, a, b: m.nn.functional.grid_sample(
            a, b, padding_mode="reflection", align_corners=False
        ),
        IMAGES, POINTS,
    ),  # fmt: skip
    "grid_sample, volumes": case(
        lambda m, a, b: m.nn.functional.grid_sample(a, b, align_corners=False),
        (2, 4, 16, 16, 16), (2, 16, 16, 16, 3, {"low": -1}),
    ),  # fmt: skip
    "polar": case(lambda m, a, b: m.polar(a, b), (300_000,), (300_000,)),
    "complex": case(lambda m, a, b: m.complex(a, b), (300_000,), (300_000,)),
    "batch_norm": case(
        lambda m, a: m.nn.functional.batch_norm(a, None, None, training=True),
        (16, 32, 32, 32),
    ),
    "logcumsumexp": case(lambda m, a: m.logcumsumexp(a, 1), (500, 500)),
    "logcumsumexp of columns": case(lambda m, a: m.logcumsumexp(a, 0), (500, 500)),
    "interpolate, bilinear": case(
        lambda m, a: m.nn.functional.interpolate(a, scale_factor=2, mode="bilinear"),
        IMAGES,
    ),
    "interpolate, bicubic": case(
        lambda m, a: m.nn.functional.interpolate(a, scale_factor=2, mode="bicubic"),
        IMAGES,
    ),
    "interpolate, nearest": case(
        lambda m, a: m.nn.functional.interpolate(a, scale_factor=2), IMAGES
    ),
    "interpolate, trilinear": case(
        lambda m, a: m.nn.functional.interpolate(a, scale_factor=2, mode="trilinear"),
        (2, 8, 16, 16, 16),
    ),
    "bernoulli": case(lambda m, a: m.bernoulli(a), (300_000,)),
    "index_put": case(
        lambda m, a, i, v: a.index_put((i,), v),
        (10_000, 32), (5000, whole(0, 9999)), (5000, 32),
    ),  # fmt: skip
    "index_add of rows": case(
        lambda m, a, i, v: m.index_add(a, 0, i, v),
        (10_000, 64), (5000, whole(0, 9999)), (5000, 64),
    ),  # fmt: skip
    "arange": lambda library: lambda: library.arange(1_000_000),
    "ctc_loss": case(ctc, (50, 8, 30), (8, 20, whole(1, 29))),
    "nonzero_static": case(
        lambda m, a: m.nonzero_static(a > 0.5, size=1000), (100_000,)
    ),
    "median": case(lambda m, a: m.median(a), (300_000,)),
    "attention": case(
        lambda m, q: m.nn.functional.scaled_dot_product_attention(q, q, q),
        (4, 8, 256, 64),
    ),
    "conv_transpose1d": case(
        lambda m, a, w: m.nn.functional.conv_transpose1d(a, w, stride=2),
        (8, 32, 256), (32, 32, 4),
    ),  # fmt: skip
    "depthwise convolution": case(
        lambda m, a, w: m.nn.functional.conv2d(a, w, padding=1, groups=64),
        (8, 64, 56, 56), (64, 1, 3, 3),
    ),  # fmt: skip
    "grouped convolution": case(
        lambda m, a, w: m.nn.functional.conv2d(a, w, padding=1, groups=8),
        (8, 64, 28, 28), (64, 8, 3, 3),
    ),  # fmt: skip
    "stft": case(
        lambda m, a, w: m.stft(a, 256, window=w, return_complex=True),
        (8, 16_000), (256,),
    ),  # fmt: skip
    "fft of many 8": case(lambda m, a: m.fft.fft(a), (20_000, 8), kind="complex64"),
    "fft of many 16": case(lambda m, a: m.fft.fft(a), (10_000, 16), kind="complex64"),
    "fft of many 64": case(lambda m, a: m.fft.fft(a), (4000, 64), kind="complex64"),
    "rfft of many 32": case(lambda m, a: m.fft.rfft(a), (8000, 32)),
    "fft of one 64": case(lambda m, a: m.fft.fft(a), (64,), kind="complex64"),
    "renorm": case(lambda m, a: m.renorm(a, 2, 0, 1.0), (500, 500)),
    "kthvalue": case(lambda m, a: m.kthvalue(a, 3, 1), (1000, 300)),
    "glu": case(lambda m, a: m.nn.functional.glu(a, -1), (1000, 512)),
    "add of short rows": case(
        lambda m, a, b: a[:, :7] + b[:, :7], (40_000, 8), (40_000, 9)
    ),
    "copy, permuted": case(
        lambda m, a: a.permute(0, 3, 1, 2).contiguous(), (8, 56, 56, 64)
    ),
    "copy, permuted back": case(
        lambda m, a: a.permute(0, 2, 3, 1).contiguous(), (8, 64, 56, 56)
    ),
    "copy, transposed": case(lambda m, a: a.t().contiguous(), (1000, 1000)),
    "matmul, bfloat16": case(
        lambda m, a, b: a.bfloat16() @ b.bfloat16(), (512, 512), (512, 512)
    ),
    "lu_factor": case(lambda m, a: m.linalg.lu_factor(a), (256, 256)),
    "triu_indices": lambda library: lambda: library.triu_indices(500, 500),
    **{
        name: pointwise(name, low, high)
        for name, low, high in [
            ("erf", -3, 3), ("erfc", -3, 5), ("erfinv", -1, 1), ("tanh", -3, 3),
            ("exp", -5, 5), ("sin", -9, 9), ("cos", -9, 9), ("tan", -1, 1),
            ("sinh", -5, 5), ("cosh", -5, 5), ("asin", -1, 1), ("acos", -1, 1),
            ("atan", -9, 9), ("asinh", -9, 9), ("acosh", 1, 9), ("atanh", -1, 1),
            ("log", 0, 9), ("log1p", -1, 9), ("log2", 0, 9), ("log10", 0, 9),
            ("expm1", -5, 5), ("exp2", -5, 5), ("lgamma", -9, 9), ("digamma", -9, 9),
            ("sigmoid", -5, 5), ("i0", -9, 9), ("special.i1", -9, 9),
            ("special.i0e", -9, 9), ("special.i1e", -9, 9), ("special.ndtri", 0, 1),
            ("special.erfcx", -3, 9), ("special.log_ndtr", -9, 9),
            ("special.entr", 0, 9), ("special.bessel_j0", -9, 9),
            ("special.bessel_j1", -9, 9), ("special.bessel_y0", 0, 9),
            ("special.airy_ai", -5, 5), ("sinc", -5, 5), ("logit", 0, 1),
            ("nn.functional.gelu", -3, 3), ("nn.functional.silu", -3, 3),
            ("nn.functional.mish", -3, 3), ("nn.functional.softplus", -3, 3),
            ("nn.functional.elu", -3, 3), ("nn.functional.selu", -3, 3),
            ("nn.functional.celu", -3, 3), ("nn.functional.logsigmoid", -3, 3),
            ("nn.functional.hardswish", -5, 5), ("rsqrt", 0, 9), ("sqrt", 0, 9),
        ]
    },
    **{
        f"{name}, float64": pointwise(name, low, high, kind="float64")
        for name, low, high in [
            ("erf", -3, 3), ("erfc", -3, 5), ("erfinv", -1, 1), ("tanh", -3, 3),
            ("exp", -5, 5), ("sin", -9, 9), ("log", 0, 9), ("lgamma", -9, 9),
            ("digamma", -9, 9), ("sigmoid", -5, 5), ("nn.functional.gelu", -3, 3),
            ("atan", -9, 9), ("expm1", -5, 5), ("log1p", -1, 9),
        ]
    },
}  # fmt: skip
