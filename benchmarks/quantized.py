"""Layers of bytes: linear layers, convolutions, dynamic layers, joins of residuals."""

import warnings

from benchmarks.harness import Case, Group, tensors

LINEAR = (1, 768, 768), (16, 768, 3072), (128, 768, 768), (512, 1024, 1024)
QUICK = ((128, 768, 768),)
# channels, outputs, size of the image, kernel, groups
CONVOLUTIONS = (
    (64, 64, 56, 3, 1), (256, 64, 56, 1, 1), (128, 128, 28, 3, 1), (96, 96, 56, 3, 96),
    (3, 64, 112, 7, 1),
)  # fmt: skip
# inputs, size of the state, steps, samples
RECURRENT = (128, 256, 20, 1), (256, 256, 20, 8), (512, 512, 20, 1), (512, 512, 10, 32)


def quantized(library, shape, bits=0):
    """A quantized tensor: a weight, or an input of seven or eight bits.

    Recipes for x86 give inputs seven bits, since sums of products of two bytes are cut off
    at 16 bits where PyTorch's libraries have no VNNI.
    """
    recipes = {
        0: (0.026, 0, "qint8"),
        7: (0.02, 64, "quint8"),
        8: (0.02, 100, "quint8"),
    }
    scale, point, dtype = recipes[bits]
    library.manual_seed(0)
    numbers = library.randn(shape)
    if bits == 7:
        numbers = numbers.clamp(-1.28, 1.26)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library.quantize_per_tensor(
            numbers, scale, point, getattr(library, dtype)
        )


def linear(rows, depth, columns, bits=7):
    """A case: a linear layer of bytes."""

    def make(library):
        op = library.ops.quantized
        x = quantized(library, (rows, depth), bits)
        packed = op.linear_prepack(quantized(library, (columns, depth)), None)
        return lambda: op.linear(x, packed, 0.5, 100)

    return make


def dynamic(rows, depth, columns):
    """A case: a linear layer of numbers with a weight of bytes."""

    def make(library):
        op = library.ops.quantized
        x = tensors(library, (rows, depth))[0]
        packed = op.linear_prepack(quantized(library, (columns, depth)), None)
        return lambda: op.linear_dynamic(x, packed, True)

    return make


def convolution(channels, outputs, size, kernel, groups, bits=7):
    """A case: a convolution of bytes."""

    def make(library):
        op, side = library.ops.quantized, kernel // 2
        x = quantized(library, (1, channels, size, size), bits)
        x = x.contiguous(memory_format=library.channels_last)
        weight = quantized(library, (outputs, channels // groups, kernel, kernel))
        settings = [1, 1], [side, side], [1, 1], groups
        packed = op.conv2d_prepack(weight, None, *settings)
        return lambda: op.conv2d_relu(x, packed, 0.5, 100)

    return make


def recurrent(kind, inputs, size, steps, samples):
    """A case: a recurrent layer of numbers with weights of bytes."""

    def make(library):
        library.manual_seed(0)
        layer = getattr(library.nn, kind)
        model = library.nn.Sequential(layer(inputs, size)).eval()
        model = library.ao.quantization.quantize_dynamic(model, {layer})
        x = tensors(library, (steps, samples, inputs))[0]

        def call():
            with library.no_grad():
                return model(x)

        return call

    return make


def sums(size):
    """A case: the sum of two images of bytes."""

    def make(library):
        a = quantized(library, (1, 64, size, size), 8)
        b = quantized(library, (1, 64, size, size), 8)
        return lambda: library.ops.quantized.add_relu(a, b, 0.05, 3)

    return make


def integers(library, *sizes):
    """Bytes, and a weight of so many outputs with a scale for each.

    Args:
        sizes: of the input, and of the weight.
    """
    library.manual_seed(0)
    x = library.randint(0, 255, sizes[0], dtype=library.uint8)
    weight = library.randint(-127, 127, sizes[1], dtype=library.int8)
    scales = library.full((sizes[1][0],), 0.001)
    return x, weight, (scales, library.zeros(sizes[1][0], dtype=library.int32))


def lowered_block(channels, size):
    """A case: two convolutions and a residual, as lowered graphs call them."""

    def make(library):
        op, end = library.ops.onednn, ([1, 1], [1, 1], [1, 1], 1)
        image, kernel = (1, channels, size, size), (channels, channels, 3, 3)
        x, weight, scales = integers(library, image, kernel)
        x = x.contiguous(memory_format=library.channels_last)
        packed = op.qconv_prepack(weight, scales[0], 0.05, 3, *end, list(image))
        before = x.float()

        def call():
            given = 0.05, 3, packed, *scales
            y = op.qconv_pointwise(
                x, *given, None, *end, 0.05, 3, library.uint8, "relu", [], ""
            )
            rest = 1.0, 0, library.float32, 1.0, 0, "sum", 1.0, "relu", [], ""
            return op.qconv2d_pointwise.binary(
                y, *given, before.clone(), None, *end, *rest
            )

        return call

    return make


def lowered_feed_forward(rows, size):
    """A case: two linear layers, GELU and a residual, as lowered graphs call them."""

    def make(library):
        op, held = library.ops.onednn, []
        for depth, columns in (size, 4 * size), (4 * size, size):
            x, weight, scales = integers(library, (rows, depth), (columns, depth))
            held.append((op.qlinear_prepack(weight, [rows, depth]), *scales))
        x, before = (
            integers(library, (rows, size), (1, 1))[0],
            tensors(library, (rows, size))[0],
        )

        def call():
            end = None, 0.05, 3, library.uint8, "gelu", [], "none"
            y = op.qlinear_pointwise(x, 0.05, 3, *held[0], *end)
            end = 1.0, 0, library.float32, 1.0, 0, "add", 1.0, "none", [], ""
            return op.qlinear_pointwise.binary(y, 0.05, 3, *held[1], before, None, *end)

        return call

    return make


def groups(quick):
    """The table's rows for layers of bytes."""
    sizes = QUICK if quick else LINEAR
    images = CONVOLUTIONS[:1] if quick else CONVOLUTIONS
    named = {f"{m} x {k} by {n}": (m, k, n) for m, k, n in sizes}
    return [
        Group(
            "linear layers of bytes",
            0.8,
            [Case(name, linear(*size)) for name, size in named.items()],
        ),
        Group(
            "linear layers of bytes, inputs of eight bits",
            0.8,
            [Case(name, linear(*size, bits=8)) for name, size in named.items()],
        ),
        Group(
            "dynamic linear layers",
            0.8,
            [Case(name, dynamic(*size)) for name, size in named.items()],
        ),
        Group(
            "convolutions of bytes",
            0.8,
            [
                Case(
                    f"{c} to {o} channels, {s} x {s}, kernel {k}, {g} groups",
                    convolution(c, o, s, k, g),
                )
                for c, o, s, k, g in images
            ],
        ),
        Group(
            "dynamic recurrent layers",
            0.8,
            [
                Case(
                    f"{kind} {i} to {h}, {t} steps of {n}", recurrent(kind, i, h, t, n)
                )
                for kind in ("LSTM", "GRU")
                for i, h, t, n in (RECURRENT[:1] if quick else RECURRENT)
            ],
        ),
        Group(
            "layers of lowered graphs",
            0.8,
            [
                Case("block of 64 channels, 56 x 56", lowered_block(64, 56)),
                Case("block of 256 channels, 14 x 14", lowered_block(256, 14)),
                Case("feed-forward 128 x 384", lowered_feed_forward(128, 384)),
                Case("feed-forward 1024 x 384", lowered_feed_forward(1024, 384)),
            ][: 1 if quick else None],
        ),
        Group("sums of images of bytes", 1.0, [Case("56 x 56", sums(56))]),
    ]
