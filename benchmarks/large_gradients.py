"""Large cases of gradients: the sweep alone, through a graph that is kept."""

from benchmarks.operator_cases import drawn


def gradient(function, *shapes, fixed=(), **options):
    """The gradients of a function's result for the tensors it is given.

    Args:
        shapes: a tuple of sizes each, or of sizes and a dict of `drawn`'s options.
        fixed: tensors that follow them and have no gradient, in the same form.
    """

    def make(library):
        tensors = []
        for shape in (*shapes, *fixed):
            named = dict(options)
            if isinstance(shape[-1], dict):
                *shape, own = shape
                named.update(own)
            tensors.append(drawn(library, *shape, **named))
        leaves = [tensor.requires_grad_() for tensor in tensors[: len(shapes)]]
        with library.enable_grad():
            result = function(library, *tensors)
        along = drawn(library, *result.shape)
        sweep = library.autograd.grad
        return lambda: sweep(result, leaves, along, retain_graph=True)

    return make


def places(most, *sizes):
    """The shape of a tensor of int64 below a bound."""
    return (*sizes, {"kind": "int64", "high": most})


GRADIENTS = {
    "layer_norm": gradient(
        lambda m, a, w, b: m.nn.functional.layer_norm(a, (512,), w, b),
        (1024, 512), (512,), (512,),
    ),
    "rms_norm": gradient(
        lambda m, a, w: m.nn.functional.rms_norm(a, (512,), w), (1024, 512), (512,)
    ),
    "group_norm": gradient(
        lambda m, a, w, b: m.nn.functional.group_norm(a, 8, w, b),
        (8, 64, 28, 28), (64,), (64,),
    ),
    "instance_norm": gradient(
        lambda m, a: m.nn.functional.instance_norm(a), (8, 64, 28, 28)
    ),
    "batch_norm": gradient(
        lambda m, a, w, b: m.nn.functional.batch_norm(a, None, None, w, b, True),
        (16, 32, 32, 32), (32,), (32,),
    ),
    "cross_entropy": gradient(
        lambda m, a, t: m.nn.functional.cross_entropy(a, t),
        (2048, 1000), fixed=[places(999, 2048)],
    ),
    "softmax": gradient(lambda m, a: m.softmax(a, -1), (4096, 128)),
    "softmax of short rows": gradient(lambda m, a: m.softmax(a, -1), (20_000, 24)),
    "log_softmax": gradient(lambda m, a: m.log_softmax(a, -1), (4096, 128)),
    "gelu": gradient(lambda m, a: m.nn.functional.gelu(a), (200_000,), low=-3),
    "silu": gradient(lambda m, a: m.nn.functional.silu(a), (200_000,), low=-3),
    "embedding": gradient(
        lambda m, w, i: m.nn.functional.embedding(i, w),
        (5000, 64), fixed=[places(4999, 8192)],
    ),
    "embedding_bag": gradient(
        lambda m, w, i: m.nn.functional.embedding_bag(i, w, mode="mean"),
        (5000, 64), fixed=[places(4999, 1024, 8)],
    ),
    "index_add": gradient(
        lambda m, a, v, i: m.index_add(a, 0, i, v),
        (10_000, 64), (5000, 64), fixed=[places(9999, 5000)],
    ),
    "gather": gradient(
        lambda m, a, i: m.gather(a, 1, i), (1000, 256), fixed=[places(255, 1000, 256)]
    ),
    "index": gradient(
        lambda m, a, i: a[i], (10_000, 64), fixed=[places(9999, 5000)]
    ),
    "cumsum": gradient(lambda m, a: m.cumsum(a, -1), (500, 500)),
    "cumprod": gradient(lambda m, a: m.cumprod(a, -1), (500, 500), low=0.5),
    "max_pool2d": gradient(
        lambda m, a: m.nn.functional.max_pool2d(a, 2), (8, 32, 56, 56)
    ),
    "avg_pool2d": gradient(
        lambda m, a: m.nn.functional.avg_pool2d(a, 2), (8, 32, 56, 56)
    ),
    "adaptive_avg_pool2d": gradient(
        lambda m, a: m.nn.functional.adaptive_avg_pool2d(a, 7), (8, 32, 56, 56)
    ),
    "interpolate, bilinear": gradient(
        lambda m, a: m.nn.functional.interpolate(a, scale_factor=2, mode="bilinear"),
        (4, 16, 64, 64),
    ),
    "interpolate, bicubic": gradient(
        lambda m, a: m.nn.functional.interpolate(a, scale_factor=2, mode="bicubic"),
        (4, 16, 32, 32),
    ),
    "interpolate, nearest": gradient(
        lambda m, a: m.nn.functional.interpolate(a, scale_factor=2), (4, 16, 64, 64)
    ),
    "pad, reflected": gradient(
        lambda m, a: m.nn.functional.pad(a, (2, 2, 2, 2), mode="reflect"),
        (8, 16, 64, 64),
    ),
    "pad, replicated": gradient(
        lambda m, a: m.nn.functional.pad(a, (2, 2, 2, 2), mode="replicate"),
        (8, 16, 64, 64),
    ),
    "grid_sample": gradient(
        lambda m, a, b: m.nn.functional.grid_sample(a, b, align_corners=False),
        (4, 16, 64, 64), (4, 64, 64, 2, {"low": -1}),
    ),
    "unfold": gradient(
        lambda m, a: m.nn.functional.unfold(a, 3, padding=1), (4, 16, 64, 64)
    ),
    "conv1d": gradient(
        lambda m, a, w, b: m.nn.functional.conv1d(a, w, b, padding=2),
        (8, 64, 512), (64, 64, 5), (64,),
    ),
    "conv2d": gradient(
        lambda m, a, w, b: m.nn.functional.conv2d(a, w, b, padding=1),
        (4, 64, 28, 28), (64, 64, 3, 3), (64,),
    ),
    "conv3d": gradient(
        lambda m, a, w, b: m.nn.functional.conv3d(a, w, b, padding=1),
        (2, 16, 16, 16, 16), (16, 16, 3, 3, 3), (16,),
    ),
    "depthwise convolution": gradient(
        lambda m, a, w: m.nn.functional.conv2d(a, w, padding=1, groups=64),
        (8, 64, 28, 28), (64, 1, 3, 3),
    ),
    "grouped convolution": gradient(
        lambda m, a, w: m.nn.functional.conv2d(a, w, padding=1, groups=8),
        (8, 64, 28, 28), (64, 8, 3, 3),
    ),
    "conv_transpose2d": gradient(
        lambda m, a, w: m.nn.functional.conv_transpose2d(a, w, stride=2),
        (4, 32, 28, 28), (32, 32, 2, 2),
    ),
    "prelu": gradient(
        lambda m, a, w: m.nn.functional.prelu(a, w), (16, 32, 32, 32), (32,), low=-1
    ),
    "norm": gradient(lambda m, a: m.linalg.vector_norm(a, dim=1), (2000, 256)),
    "logsumexp": gradient(lambda m, a: m.logsumexp(a, 1), (2000, 256)),
    "var": gradient(lambda m, a: m.var(a, 1), (2000, 256)),
    "sort": gradient(lambda m, a: m.sort(a, 1).values, (1000, 256)),
    "topk": gradient(lambda m, a: m.topk(a, 10, 1).values, (1000, 256)),
    "max of rows": gradient(lambda m, a: m.max(a, 1).values, (2000, 256)),
    "cdist": gradient(lambda m, a, b: m.cdist(a, b), (500, 32), (500, 32)),
    "ctc_loss": gradient(
        lambda m, a, t: m.nn.functional.ctc_loss(
            m.log_softmax(a, -1), t, [50] * 8, [20] * 8
        ),
        (50, 8, 30), fixed=[(8, 20, {"kind": "int64", "low": 1, "high": 29})],
    ),
    "cat": gradient(lambda m, a, b: m.cat([a, b], 1), (2000, 100), (2000, 156)),
    "add of a row": gradient(lambda m, a, b: a + b, (2000, 256), (256,)),
    "repeat": gradient(lambda m, a: a.repeat(4, 2), (500, 128)),
}  # fmt: skip
