"""Matrix products: square ones, and the shapes of BERT, ResNet, LSTM and LeNet."""

from benchmarks.harness import Case, Group, tensors

SQUARE = (64, 128, 256, 512, 1024, 2048)
# Name: rows, inner size, columns.
SHAPES = {
    "BERT projection": (128, 768, 768),
    "BERT feed-forward": (128, 768, 3072),
    "BERT feed-forward back": (128, 3072, 768),
    "ResNet classifier": (8, 2048, 1000),
    "LSTM step": (32, 256, 1024),
    "LeNet fc1": (64, 400, 120),
    "LeNet fc3": (64, 84, 10),
}
BATCHES = {
    "BERT scores": ((96, 128, 64), (96, 64, 128)),
    "BERT values": ((96, 128, 128), (96, 128, 64)),
    "small matrices": ((512, 16, 16), (512, 16, 16)),
}
QUICK = 512, 1024


def product(left, right, dtype="float32", turn=()):
    """``left @ right``; operands named in ``turn`` are stored transposed."""

    def make(library):
        a, b = tensors(library, left, right, dtype=dtype)
        if "left" in turn:
            a = a.t().contiguous().t()
        if "right" in turn:
            b = b.t().contiguous().t()
        return lambda: a @ b

    return make


def layer(rows, inner, columns):
    """A linear layer with its bias."""

    def make(library):
        x, w, b = tensors(library, (rows, inner), (columns, inner), (columns,))
        return lambda: library.nn.functional.linear(x, w, b)

    return make


def groups(quick):
    """The table's rows for matrix products."""
    sizes = QUICK if quick else SQUARE
    large = [Case(f"{n} x {n}", product((n, n), (n, n))) for n in sizes if n >= 512]
    cases = [Case(f"{n} x {n}", product((n, n), (n, n))) for n in sizes if n < 512]
    for name in ("left", "right"):
        case = product((512, 512), (512, 512), turn=(name,))
        cases.append(Case(f"512 x 512, {name} transposed", case))
    for n in (256, 1024)[: 1 if quick else 2]:
        cases.append(Case(f"{n} x {n}, float64", product((n, n), (n, n), "float64")))
    cases += [Case(f"linear, {name}", layer(*shape)) for name, shape in SHAPES.items()]
    cases += [Case(f"bmm, {name}", product(*pair)) for name, pair in BATCHES.items()]
    n = 1024 if quick else 4096
    cases += [
        Case("matrix times vector", product((n, n), (n,))),
        Case("vector times matrix", product((n,), (n, n))),
    ]
    return [
        Group("fp32 GEMM, 512 to 2048", 1.00, large),
        Group("other products: small, float64, linear, batched, vectors", 0.95, cases),
    ]
