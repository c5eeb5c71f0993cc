"""Reductions, and what else reads and moves memory: norms, losses, indexing, copies."""

from benchmarks.harness import Case, Group, tensors

ROWS, COLUMNS = 4096, 1024


def over_matrix(make):
    def call(library):
        (a,) = tensors(library, (ROWS, COLUMNS))
        return make(library, a)

    return call


def cross_entropy(library):
    (a,) = tensors(library, (ROWS, COLUMNS))
    labels = library.randint(0, COLUMNS, (ROWS,))
    return lambda: library.nn.functional.cross_entropy(a, labels)


def mse(library):
    a, b = tensors(library, (ROWS, COLUMNS), (ROWS, COLUMNS))
    return lambda: library.nn.functional.mse_loss(a, b)


def embedding(library):
    (table,) = tensors(library, (30_000, 256))
    rows = library.randint(0, 30_000, (64, 128))
    return lambda: library.nn.functional.embedding(rows, table)


def layer_norm(library):
    a, w, b = tensors(library, (ROWS, COLUMNS), (COLUMNS,), (COLUMNS,))
    return lambda: library.nn.functional.layer_norm(a, (COLUMNS,), w, b)


def batch_norm(library):
    a, w, b, mean, var = tensors(library, (32, 64, 28, 28), (64,), (64,), (64,), (64,))
    run = library.nn.functional.batch_norm
    return lambda: run(a, mean, var, w, b, training=True)


def by_index(library):
    (a,) = tensors(library, (ROWS, COLUMNS))
    rows = library.randint(0, ROWS, (ROWS,))
    return lambda: a[rows]


def gather(library):
    (a,) = tensors(library, (ROWS, COLUMNS))
    places = library.randint(0, COLUMNS, (ROWS, COLUMNS))
    return lambda: library.gather(a, 1, places)


def max_pool(library):
    (a,) = tensors(library, (32, 32, 28, 28))
    return lambda: library.nn.functional.max_pool2d(a, 2)


def vector(make):
    def call(library):
        (a,) = tensors(library, (1_000_000,))
        return make(library, a)

    return call


CASES = {
    "sum": over_matrix(lambda lib, a: lambda: a.sum()),
    "sum over rows": over_matrix(lambda lib, a: lambda: a.sum(1)),
    "sum over columns": over_matrix(lambda lib, a: lambda: a.sum(0)),
    "mean": over_matrix(lambda lib, a: lambda: a.mean()),
    "var over rows": over_matrix(lambda lib, a: lambda: a.var(1)),
    "max over rows": over_matrix(lambda lib, a: lambda: a.max(1)),
    "argmax over rows": over_matrix(lambda lib, a: lambda: a.argmax(1)),
    "cumsum over rows": over_matrix(lambda lib, a: lambda: a.cumsum(1)),
    "softmax": over_matrix(lambda lib, a: lambda: lib.softmax(a, 1)),
    "log_softmax": over_matrix(lambda lib, a: lambda: lib.log_softmax(a, 1)),
    "layer norm": layer_norm,
    "batch norm, training": batch_norm,
    "cross entropy": cross_entropy,
    "mean squared error": mse,
    "embedding": embedding,
    "rows by index": by_index,
    "gather": gather,
    "max pooling": max_pool,
    "sort, a million": vector(lambda lib, a: lambda: lib.sort(a)),
    "top 100 of a million": vector(lambda lib, a: lambda: lib.topk(a, 100)),
    "copy": over_matrix(lambda lib, a: lambda: a.clone()),
    "copy of the transposed": over_matrix(lambda lib, a: lambda: a.t().contiguous()),
    "cat": over_matrix(lambda lib, a: lambda: lib.cat([a, a])),
    "to bfloat16": over_matrix(lambda lib, a: lambda: a.to(lib.bfloat16)),
}


def groups(quick):
    """The table's row for what is bound by memory."""
    cases = [Case(name, make) for name, make in CASES.items()]
    title = "reductions, softmax, norms, losses, embedding, indexing, sort, copies"
    return [Group(title, 0.80, cases)]
