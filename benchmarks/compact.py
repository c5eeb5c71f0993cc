"""Fewer bits, fewer elements, uneven elements: half bytes, compressed rows, ragged batches."""

import warnings

from benchmarks.harness import Case, Group, tensors

HALF_BYTES = (1, 1024, 1024), (1, 2048, 2048), (16, 1024, 1024)
ROWS = (0.01, 64), (0.05, 64), (0.01, 256)  # full, and columns of the dense matrix
LENGTHS = tuple(range(20, 260, 16))  # of a batch's samples


def half_bytes(rows, depth, columns):
    """A case: a product of bfloat16 with a weight of half bytes in groups of 32."""

    def make(library):
        x = tensors(library, (rows, depth), dtype="bfloat16")[0]
        weight = library.randint(0, 16, (columns, depth), dtype=library.int32)
        pack = library.ops.aten._convert_weight_to_int4pack_for_cpu
        packed = pack(weight, 1)
        scales = library.rand(depth // 32, columns, 2).to(library.bfloat16)
        multiply = library.ops.aten._weight_int4pack_mm_for_cpu
        return lambda: multiply(x, packed, 32, scales)

    return make


def compressed(full, columns, size=2000):
    """A case: compressed rows by a dense matrix."""

    def make(library):
        dense, other = tensors(library, (size, size), (size, columns))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = (dense * (dense < full)).to_sparse_csr()
        return lambda: rows @ other

    return make


def ragged(library):
    """Attention over samples of many lengths, four heads of 32."""
    attend = library.nn.functional.scaled_dot_product_attention
    parts = tensors(library, *[(length, 128) for length in LENGTHS])
    batch = library.nested.nested_tensor(parts, layout=library.jagged)
    heads = batch.unflatten(-1, [4, 32]).transpose(1, 2)
    return lambda: attend(heads, heads, heads)


def step(library):
    """A step of three residual blocks of convolutions and norms, channels last."""
    nn = library.nn
    library.manual_seed(0)

    def block():
        return nn.Sequential(
            nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64),
        )  # fmt: skip

    last = {"memory_format": library.channels_last}
    blocks = nn.ModuleList([block(), block(), block()]).to(**last)
    x = tensors(library, (4, 64, 28, 28))[0].contiguous(**last)

    def call():
        value = x
        for each in blocks:
            value = library.relu(value + each(value))
        value.sum().backward()

    return call


def groups(quick):
    """The table's rows for few bits, few elements and uneven ones."""
    most = 1 if quick else None
    return [
        Group(
            "weights of half bytes",
            0.6,
            [
                Case(f"{m} x {k} by {n}", half_bytes(m, k, n))
                for m, k, n in HALF_BYTES[:most]
            ],
        ),
        Group(
            "compressed rows by dense matrices",
            0.8,
            [
                Case(f"{100 * full:.0f} % by {n} columns", compressed(full, n))
                for full, n in ROWS[:most]
            ],
        ),
        Group("attention over ragged batches", 0.6, [Case("15 samples", ragged)]),
        Group("residual blocks, channels last", 0.95, [Case("a step", step)]),
    ]
