"""More large cases: sequences, convolutions, copies, sorts, scans and scatters."""

from benchmarks.large_gradients import GRADIENTS, places
from benchmarks.operator_cases import case, drawn, whole


def module(build, *sizes):
    """A module of the library with drawn parameters, called with one input."""

    def make(library):
        made = build(library.nn)
        for parameter in made.parameters():
            parameter.copy_(drawn(library, *parameter.shape, low=-0.1, high=0.1))
        given = drawn(library, *sizes)
        return lambda: made(given)

    return make


def trained(build, *sizes):
    """A module's call and the sweep back through it."""

    def make(library):
        call = module(build, *sizes)(library)

        def step():
            with library.enable_grad():
                call()[0].sum().backward()

        return step

    return make


def lstm(nn):
    return nn.LSTM(64, 128, batch_first=True)


def gru(nn):
    return nn.GRU(64, 128, batch_first=True)


CASES = {
    "conv1d": case(
        lambda m, a, w: m.nn.functional.conv1d(a, w, padding=2), (8, 64, 512), (64, 64, 5)
    ),
    "conv2d, strided": case(
        lambda m, a, w: m.nn.functional.conv2d(a, w, stride=2, padding=3),
        (2, 3, 112, 112), (64, 3, 7, 7),
    ),
    "conv2d, dilated": case(
        lambda m, a, w: m.nn.functional.conv2d(a, w, padding=2, dilation=2),
        (4, 32, 28, 28), (32, 32, 3, 3),
    ),
    "conv3d": case(
        lambda m, a, w: m.nn.functional.conv3d(a, w, padding=1),
        (2, 16, 16, 16, 16), (16, 16, 3, 3, 3),
    ),
    "conv_transpose2d": case(
        lambda m, a, w: m.nn.functional.conv_transpose2d(a, w, stride=2),
        (4, 32, 28, 28), (32, 32, 2, 2),
    ),
    "conv_transpose2d, overlapping": case(
        lambda m, a, w: m.nn.functional.conv_transpose2d(a, w, stride=2, padding=1),
        (4, 32, 28, 28), (32, 32, 4, 4),
    ),
    "conv_transpose3d": case(
        lambda m, a, w: m.nn.functional.conv_transpose3d(a, w, stride=2),
        (2, 16, 8, 8, 8), (16, 16, 2, 2, 2),
    ),
    "depthwise conv1d": case(
        lambda m, a, w: m.nn.functional.conv1d(a, w, padding=2, groups=64),
        (8, 64, 512), (64, 1, 5),
    ),
    "LSTM": module(lstm, 16, 32, 64),
    "LSTM, trained": trained(lstm, 16, 32, 64),
    "GRU": module(gru, 16, 32, 64),
    "GRU, trained": trained(gru, 16, 32, 64),
    "RNN": module(lambda nn: nn.RNN(64, 128, batch_first=True), 16, 32, 64),
    "LSTM, both ways": module(lambda nn: nn.LSTM(64, 64, bidirectional=True), 32, 16, 64),
    "layer_norm": case(
        lambda m, a, w: m.nn.functional.layer_norm(a, (512,), w, w), (1024, 512), (512,)
    ),
    "group_norm": case(
        lambda m, a, w: m.nn.functional.group_norm(a, 8, w, w), (8, 64, 28, 28), (64,)
    ),
    "instance_norm": case(
        lambda m, a: m.nn.functional.instance_norm(a), (8, 64, 28, 28)
    ),
    "local_response_norm": case(
        lambda m, a: m.nn.functional.local_response_norm(a, 5), (8, 64, 28, 28)
    ),
    "softmax": case(lambda m, a: m.softmax(a, -1), (4096, 128)),
    "softmax of short rows": case(lambda m, a: m.softmax(a, -1), (20_000, 24)),
    "softmax of columns": case(lambda m, a: m.softmax(a, 0), (256, 1000)),
    "log_softmax of short rows": case(lambda m, a: m.log_softmax(a, -1), (20_000, 24)),
    "cross_entropy": case(
        lambda m, a, t: m.nn.functional.cross_entropy(a, t),
        (2048, 1000), places(999, 2048),
    ),
    "embedding": case(
        lambda m, w, i: m.nn.functional.embedding(i, w), (5000, 64), places(4999, 8192)
    ),
    **{
        f"embedding_bag, {mode}": case(
            lambda m, w, i, mode=mode: m.nn.functional.embedding_bag(i, w, mode=mode),
            (5000, 64), places(4999, 1024, 8),
        )
        for mode in ("sum", "mean", "max")
    },
    "sort": case(lambda m, a: m.sort(a), (300_000,)),
    "sort of rows": case(lambda m, a: m.sort(a, 1), (2000, 128)),
    "sort of columns": case(lambda m, a: m.sort(a, 0), (128, 2000)),
    "sort of integers": case(lambda m, a: m.sort(a), (300_000,), **whole(0, 1000)),
    "sort, stable": case(lambda m, a: m.sort(a, stable=True), (300_000,)),
    "argsort": case(lambda m, a: m.argsort(a), (300_000,)),
    "topk": case(lambda m, a: m.topk(a, 50), (300_000,)),
    "topk of rows": case(lambda m, a: m.topk(a, 10, 1), (1000, 1000)),
    "unique": case(lambda m, a: m.unique(a), (300_000,), **whole(0, 5000)),
    "unique, of floats": case(lambda m, a: m.unique(a), (100_000,)),
    "unique, with inverse": case(
        lambda m, a: m.unique(a, return_inverse=True, return_counts=True),
        (300_000,), **whole(0, 5000),
    ),
    "unique of rows": case(
        lambda m, a: m.unique(a, dim=0), (2000, 8), **whole(0, 3)
    ),
    "unique_consecutive": case(
        lambda m, a: m.unique_consecutive(a), (300_000,), **whole(0, 3)
    ),
    "msort": case(lambda m, a: m.msort(a), (1000, 256)),
    "mode": case(lambda m, a: m.mode(a, 1), (500, 500), **whole(0, 50)),
    "quantile": case(lambda m, a: m.quantile(a, 0.3), (300_000,)),
    "bincount": case(lambda m, a: m.bincount(a), (300_000,), **whole(0, 1000)),
    "isin": case(
        lambda m, a, b: m.isin(a, b), (100_000,), (1000,), **whole(0, 5000)
    ),
    "cumsum": case(lambda m, a: m.cumsum(a, -1), (500, 1000)),
    "cumsum of one": case(lambda m, a: m.cumsum(a, 0), (1_000_000,)),
    "cumsum of columns": case(lambda m, a: m.cumsum(a, 0), (500, 1000)),
    "cumprod": case(lambda m, a: m.cumprod(a, -1), (500, 1000)),
    "cummax": case(lambda m, a: m.cummax(a, -1), (500, 1000)),
    "cummin of columns": case(lambda m, a: m.cummin(a, 0), (500, 1000)),
    "diff": case(lambda m, a: m.diff(a), (500, 1000)),
    "trapezoid": case(lambda m, a: m.trapezoid(a), (500, 1000)),
    "gather": case(
        lambda m, a, i: m.gather(a, 1, i), (1000, 256), places(255, 1000, 256)
    ),
    "gather of columns": case(
        lambda m, a, i: m.gather(a, 0, i), (1000, 256), places(999, 1000, 256)
    ),
    "scatter": case(
        lambda m, a, i, v: m.scatter(a, 1, i, v),
        (1000, 256), places(255, 1000, 256), (1000, 256),
    ),
    "scatter_add": case(
        lambda m, a, i, v: m.scatter_add(a, 1, i, v),
        (1000, 256), places(255, 1000, 256), (1000, 256),
    ),
    "scatter_add of columns": case(
        lambda m, a, i, v: m.scatter_add(a, 0, i, v),
        (1000, 256), places(999, 1000, 256), (1000, 256),
    ),
    "scatter_reduce": case(
        lambda m, a, i, v: m.scatter_reduce(a, 1, i, v, "amax"),
        (1000, 256), places(255, 1000, 256), (1000, 256),
    ),
    "index_select": case(
        lambda m, a, i: m.index_select(a, 0, i), (10_000, 64), places(9999, 5000)
    ),
    "index_select of columns": case(
        lambda m, a, i: m.index_select(a, 1, i), (1000, 1000), places(999, 500)
    ),
    "index_copy": case(
        lambda m, a, i, v: m.index_copy(a, 0, i, v),
        (10_000, 64), places(9999, 5000), (5000, 64),
    ),
    "index_add of columns": case(
        lambda m, a, i, v: m.index_add(a, 1, i, v),
        (1000, 1000), places(999, 500), (1000, 500),
    ),
    "index_put, added": case(
        lambda m, a, i, v: a.index_put((i,), v, accumulate=True),
        (10_000, 32), places(9999, 5000), (5000, 32),
    ),
    "index of pairs": case(
        lambda m, a, i, j: a[i, j], (1000, 1000), places(999, 100_000), places(999, 100_000)
    ),
    "take_along_dim": case(
        lambda m, a, i: m.take_along_dim(a, i, 1), (1000, 256), places(255, 1000, 256)
    ),
    "take": case(lambda m, a, i: m.take(a, i), (100_000,), places(99_999, 100_000)),
    "masked_select": case(lambda m, a: m.masked_select(a, a > 0.5), (300_000,)),
    "masked_fill": case(lambda m, a: m.masked_fill(a, a > 0.5, 2.0), (300_000,)),
    "masked_scatter": case(
        lambda m, a, v: m.masked_scatter(a, a > 0.5, v), (300_000,), (300_000,)
    ),
    "nonzero": case(lambda m, a: m.nonzero(a > 0.5), (1000, 300)),
    "where": case(
        lambda m, a, b: m.where(a > b, a, b), (300_000,), (300_000,)
    ),
    "einsum, batched": case(
        lambda m, a, b: m.einsum("bij,bjk->bik", a, b), (16, 128, 128), (16, 128, 128)
    ),
    "einsum, heads": case(
        lambda m, a, b: m.einsum("bqhd,bkhd->bhqk", a, b),
        (4, 128, 8, 32), (4, 128, 8, 32),
    ),
    "einsum, diagonal": case(lambda m, a: m.einsum("bii->bi", a), (64, 200, 200)),
    "einsum, three": case(
        lambda m, a, b, c: m.einsum("ij,jk,kl->il", a, b, c),
        (256, 256), (256, 256), (256, 64),
    ),
    "einsum, outer": case(lambda m, a, b: m.einsum("i,j->ij", a, b), (600,), (600,)),
    "bmm": case(lambda m, a, b: m.bmm(a, b), (64, 64, 64), (64, 64, 64)),
    "mv": case(lambda m, a, b: m.mv(a, b), (1000, 1000), (1000,)),
    "matmul, float64": case(
        lambda m, a, b: a @ b, (384, 384), (384, 384), kind="float64"
    ),
    "linear, thin": case(
        lambda m, a, w, b: m.nn.functional.linear(a, w, b), (4, 1024), (1024, 1024), (1024,)
    ),
    "bilinear": case(
        lambda m, a, b, w: m.nn.functional.bilinear(a, b, w),
        (256, 32), (256, 32), (32, 32, 32),
    ),
    "tensordot": case(
        lambda m, a, b: m.tensordot(a, b, 2), (64, 32, 32), (32, 32, 64)
    ),
    "kron": case(lambda m, a, b: m.kron(a, b), (20, 20), (30, 30)),
    "copy of columns": case(lambda m, a: a[:, ::2].contiguous(), (1000, 1000)),
    "copy, reversed": case(lambda m, a: m.flip(a, (0, 1)), (1000, 500)),
    "copy, last two swapped": case(
        lambda m, a: a.transpose(1, 2).contiguous(), (64, 64, 100)
    ),
    "copy, heads": case(
        lambda m, a: a.transpose(1, 2).contiguous(), (16, 128, 8, 32)
    ),
    "copy, all permuted": case(
        lambda m, a: a.permute(3, 2, 1, 0).contiguous(), (20, 30, 20, 30)
    ),
    "roll": case(lambda m, a: m.roll(a, (3, 5), (0, 1)), (500, 1000)),
    "rot90": case(lambda m, a: m.rot90(a), (600, 600)),
    "cat of rows": case(lambda m, a, b: m.cat([a, b]), (500, 256), (700, 256)),
    "cat of columns": case(lambda m, a, b: m.cat([a, b], 1), (2000, 100), (2000, 156)),
    "stack": case(lambda m, a, b: m.stack([a, b], -1), (300, 500), (300, 500)),
    "tril": case(lambda m, a: m.tril(a), (700, 700)),
    "repeat": case(lambda m, a: a.repeat(4, 2), (500, 128)),
    "repeat_interleave": case(
        lambda m, a: m.repeat_interleave(a, 3, 1), (500, 256)
    ),
    "tile": case(lambda m, a: m.tile(a, (3, 3)), (200, 200)),
    "meshgrid, copied": case(
        lambda m, a, b: m.meshgrid(a, b, indexing="ij")[1].contiguous(), (500,), (700,)
    ),
    "pixel_shuffle": case(
        lambda m, a: m.nn.functional.pixel_shuffle(a, 2), (4, 64, 32, 32)
    ),
    "channel_shuffle": case(
        lambda m, a: m.nn.functional.channel_shuffle(a, 4), (4, 64, 32, 32)
    ),
    "fold": case(
        lambda m, a: m.nn.functional.fold(a, 64, 3, padding=1), (4, 144, 4096)
    ),
    "add of strided rows": case(
        lambda m, a, b: a[:, ::2] + b[:, ::2], (4000, 48), (4000, 48)
    ),
    "add, one transposed": case(lambda m, a, b: a + b.t(), (700, 700), (700, 700)),
    "add of a column": case(lambda m, a, b: a + b, (2000, 24), (2000, 1)),
    "add of a short row": case(lambda m, a, b: a + b, (40_000, 7), (7,)),
    "multiplied channels": case(
        lambda m, a, b: a * b, (8, 64, 28, 28), (1, 64, 1, 1)
    ),
    "pow": case(lambda m, a, b: m.pow(a, b), (300_000,), (300_000,), low=0.1, high=3),
    "atan2": case(lambda m, a, b: m.atan2(a, b), (300_000,), (300_000,), low=-1),
    "fmod": case(lambda m, a, b: m.fmod(a, b), (300_000,), (300_000,), low=0.1, high=9),
    "remainder": case(
        lambda m, a, b: m.remainder(a, b), (300_000,), (300_000,), low=0.1, high=9
    ),
    "floor_divide": case(
        lambda m, a, b: m.floor_divide(a, b), (300_000,), (300_000,), low=0.1, high=9
    ),
    "division of integers": case(
        lambda m, a, b: a // b, (300_000,), (300_000,), **whole(1, 1000)
    ),
    "hypot": case(lambda m, a, b: m.hypot(a, b), (300_000,), (300_000,)),
    "logaddexp": case(lambda m, a, b: m.logaddexp(a, b), (300_000,), (300_000,)),
    "xlogy": case(lambda m, a, b: m.xlogy(a, b), (300_000,), (300_000,)),
    "nextafter": case(lambda m, a, b: m.nextafter(a, b), (300_000,), (300_000,)),
    "ldexp": case(lambda m, a, b: m.ldexp(a, b), (300_000,), (300_000,), high=9),
    "round": case(lambda m, a: m.round(a, decimals=2), (300_000,)),
    "clamp": case(lambda m, a: m.clamp(a, 0.2, 0.7), (300_000,)),
    "bfloat16 to float32": case(
        lambda m, a: a.view(m.bfloat16).float(), (500_000,), kind="int16"
    ),
    "float32 to bfloat16": case(lambda m, a: a.bfloat16(), (500_000,)),
    "float32 to float16": case(lambda m, a: a.half(), (500_000,)),
    "float32 to int64": case(lambda m, a: a.long(), (500_000,), high=99),
    "int64 to float32": case(lambda m, a: a.float(), (500_000,), **whole(0, 99)),
    "gelu, bfloat16": case(
        lambda m, a: m.nn.functional.gelu(a.bfloat16()), (200_000,), low=-3
    ),
    "layer_norm, bfloat16": case(
        lambda m, a: m.nn.functional.layer_norm(a.bfloat16(), (512,)), (512, 512)
    ),
    "softmax, bfloat16": case(lambda m, a: m.softmax(a.bfloat16(), -1), (2000, 128)),
    "sum of bfloat16": case(lambda m, a: a.bfloat16().sum(1), (1000, 500)),
    "multiplied complex": case(
        lambda m, a, b: a * b, (200_000,), (200_000,), kind="complex64"
    ),
    "exp of complex": case(lambda m, a: m.exp(a), (100_000,), kind="complex64"),
    "abs of complex": case(lambda m, a: m.abs(a), (200_000,), kind="complex64"),
    "angle of complex": case(lambda m, a: m.angle(a), (200_000,), kind="complex64"),
    "matmul, complex": case(
        lambda m, a, b: a @ b, (256, 256), (256, 256), kind="complex64"
    ),
    "max_pool2d": case(
        lambda m, a: m.nn.functional.max_pool2d(a, 2), (8, 32, 56, 56)
    ),
    "max_pool2d, overlapping": case(
        lambda m, a: m.nn.functional.max_pool2d(a, 3, 2, 1), (8, 32, 56, 56)
    ),
    "avg_pool2d": case(
        lambda m, a: m.nn.functional.avg_pool2d(a, 3, 1, 1), (8, 32, 28, 28)
    ),
    "max_pool1d": case(
        lambda m, a: m.nn.functional.max_pool1d(a, 3), (32, 64, 300)
    ),
    "max_pool3d": case(
        lambda m, a: m.nn.functional.max_pool3d(a, 2), (2, 16, 16, 32, 32)
    ),
    "adaptive_avg_pool2d": case(
        lambda m, a: m.nn.functional.adaptive_avg_pool2d(a, 7), (8, 32, 56, 56)
    ),
    "adaptive_max_pool2d": case(
        lambda m, a: m.nn.functional.adaptive_max_pool2d(a, 7), (8, 32, 56, 56)
    ),
    "lp_pool2d": case(
        lambda m, a: m.nn.functional.lp_pool2d(a, 2, 3), (8, 32, 28, 28)
    ),
    "interpolate, area": case(
        lambda m, a: m.nn.functional.interpolate(a, size=28, mode="area"),
        (4, 16, 64, 64),
    ),
    "interpolate, antialiased": case(
        lambda m, a: m.nn.functional.interpolate(
            a, size=28, mode="bilinear", antialias=True
        ),
        (4, 16, 64, 64),
    ),
    "interpolate, linear": case(
        lambda m, a: m.nn.functional.interpolate(a, scale_factor=2, mode="linear"),
        (8, 64, 256),
    ),
    "affine_grid": case(
        lambda m, a: m.nn.functional.affine_grid(a, (16, 3, 64, 64), False), (16, 2, 3)
    ),
    "sum of all": case(lambda m, a: m.sum(a), (1_000_000,)),
    "sum of rows": case(lambda m, a: m.sum(a, 1), (1000, 1000)),
    "sum of columns": case(lambda m, a: m.sum(a, 0), (1000, 1000)),
    "sum of short rows": case(lambda m, a: m.sum(a, 1), (50_000, 7)),
    "sum of channels": case(lambda m, a: m.sum(a, (0, 2, 3)), (8, 64, 28, 28)),
    "prod": case(lambda m, a: m.prod(a, 1), (1000, 500)),
    "var of columns": case(lambda m, a: m.var(a, 0), (1000, 500)),
    "std of all": case(lambda m, a: m.std(a), (500_000,)),
    "argmax": case(lambda m, a: m.argmax(a), (500_000,)),
    "argmax of columns": case(lambda m, a: m.argmax(a, 0), (1000, 500)),
    "max of rows": case(lambda m, a: m.max(a, 1), (1000, 500)),
    "amax of short rows": case(lambda m, a: m.amax(a, 1), (50_000, 7)),
    "all": case(lambda m, a: m.all(a > -1), (500_000,)),
    "count_nonzero": case(lambda m, a: m.count_nonzero(a), (500_000,)),
    "logsumexp": case(lambda m, a: m.logsumexp(a, 1), (2000, 256)),
    "nansum": case(lambda m, a: m.nansum(a, 1), (1000, 500)),
    "norm, p 3": case(lambda m, a: m.linalg.vector_norm(a, 3, 1), (1000, 500)),
    "cosine_similarity": case(
        lambda m, a, b: m.nn.functional.cosine_similarity(a, b), (2000, 128), (2000, 128)
    ),
    "normalize": case(lambda m, a: m.nn.functional.normalize(a), (2000, 128)),
    "mse_loss": case(
        lambda m, a, b: m.nn.functional.mse_loss(a, b), (300_000,), (300_000,)
    ),
    "smooth_l1_loss": case(
        lambda m, a, b: m.nn.functional.smooth_l1_loss(a, b), (300_000,), (300_000,)
    ),
    "binary_cross_entropy": case(
        lambda m, a, b: m.nn.functional.binary_cross_entropy(a, b),
        (300_000,), (300_000,),
    ),
    "binary_cross_entropy_with_logits": case(
        lambda m, a, b: m.nn.functional.binary_cross_entropy_with_logits(a, b),
        (300_000,), (300_000,),
    ),
    "kl_div": case(lambda m, a, b: m.nn.functional.kl_div(a, b), (300_000,), (300_000,)),
    "nll_loss of images": case(
        lambda m, a, t: m.nn.functional.nll_loss(a, t),
        (8, 21, 64, 64), places(20, 8, 64, 64),
    ),
    "randn": lambda library: lambda: library.randn(300_000),
    "rand": lambda library: lambda: library.rand(300_000),
    "randperm": lambda library: lambda: library.randperm(100_000),
    "randint": lambda library: lambda: library.randint(0, 100, (300_000,)),
    "multinomial": case(lambda m, a: m.multinomial(a, 100), (100, 1000)),
    "dropout": case(lambda m, a: m.nn.functional.dropout(a), (300_000,)),
    "exponential": case(lambda m, a: m.empty_like(a).exponential_(), (300_000,)),
    "poisson": case(lambda m, a: m.poisson(a), (100_000,), high=5),
    "linspace": lambda library: lambda: library.linspace(0, 1, 500_000),
    "eye": lambda library: lambda: library.eye(700),
    "cholesky": case(
        lambda m, a: m.linalg.cholesky(a @ a.t() + 256 * m.eye(256)), (256, 256)
    ),
    "inv": case(lambda m, a: m.linalg.inv(a), (200, 200)),
    "solve": case(lambda m, a, b: m.linalg.solve(a, b), (200, 200), (200, 50)),
    "inv of many": case(lambda m, a: m.linalg.inv(a), (1000, 4, 4)),
    "qr": case(lambda m, a: m.linalg.qr(a), (200, 200)),
    "svd": case(lambda m, a: m.linalg.svd(a), (100, 100)),
    "eigh": case(lambda m, a: m.linalg.eigh(a @ a.t()), (128, 128)),
    "matrix_exp": case(lambda m, a: m.matrix_exp(a), (100, 100), high=0.02),
    "fft2": case(lambda m, a: m.fft.fft2(a), (8, 128, 128), kind="complex64"),
    "rfft": case(lambda m, a: m.fft.rfft(a), (64, 4096)),
    "irfft": case(lambda m, a: m.fft.irfft(a), (64, 2049), kind="complex64"),
    "fft of 96": case(lambda m, a: m.fft.fft(a), (1000, 96), kind="complex64"),
    "fft of 512": case(lambda m, a: m.fft.fft(a), (200, 512), kind="complex64"),
    "fft of 1000": case(lambda m, a: m.fft.fft(a), (100, 1000), kind="complex64"),
    "istft": case(
        lambda m, a, w: m.istft(a, 256, window=w), (8, 129, 200, {"kind": "complex64"}), (256,)
    ),
    "bucketize": case(
        lambda m, a, b: m.bucketize(b, a.sort().values), (100,), (200_000,)
    ),
    "histogram": case(lambda m, a: m.histogram(a, 100), (300_000,)),
    "cov": case(lambda m, a: m.cov(a), (100, 2000)),
    **{f"gradient of {name}": make for name, make in GRADIENTS.items()},
}  # fmt: skip
