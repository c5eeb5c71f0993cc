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
        Group("sums of images of bytes", 1.0, [Case("56 x 56", sums(56))]),
    ]
