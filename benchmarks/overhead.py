"""The cost of a call: forty operators on a few elements, nothing recorded."""

from benchmarks.harness import Case, Group, tensors

# Name -> the call, with the library, two matrices of 2 by 2 and a vector of indices.
CALLS = {
    "add": lambda lib, a, b, i: lambda: a + b,
    "add a number": lambda lib, a, b, i: lambda: a + 2.0,
    "sub": lambda lib, a, b, i: lambda: a - b,
    "mul": lambda lib, a, b, i: lambda: a * b,
    "div": lambda lib, a, b, i: lambda: a / b,
    "add_": lambda lib, a, b, i: lambda: a.add_(b),
    "mul_ by a number": lambda lib, a, b, i: lambda: a.mul_(1.0),
    "add with alpha": lambda lib, a, b, i: lambda: lib.add(a, b, alpha=2),
    "add with out": lambda lib, a, b, i: lambda: lib.add(a, b, out=i[1]),
    "maximum": lambda lib, a, b, i: lambda: lib.maximum(a, b),
    "less than": lambda lib, a, b, i: lambda: a < b,
    "equal to a number": lambda lib, a, b, i: lambda: a == 1.0,
    "where": lambda lib, a, b, i: lambda: lib.where(i[2], a, b),
    "neg": lambda lib, a, b, i: lambda: -a,
    "abs": lambda lib, a, b, i: lambda: a.abs(),
    "exp": lambda lib, a, b, i: lambda: a.exp(),
    "sqrt": lambda lib, a, b, i: lambda: a.sqrt(),
    "tanh": lambda lib, a, b, i: lambda: a.tanh(),
    "sigmoid": lambda lib, a, b, i: lambda: a.sigmoid(),
    "relu": lambda lib, a, b, i: lambda: a.relu(),
    "gelu": lambda lib, a, b, i: lambda: lib.nn.functional.gelu(a),
    "clamp": lambda lib, a, b, i: lambda: a.clamp(0.1, 0.9),
    "pow": lambda lib, a, b, i: lambda: a.pow(2),
    "sum": lambda lib, a, b, i: lambda: a.sum(),
    "sum over a dimension": lambda lib, a, b, i: lambda: a.sum(1),
    "mean": lambda lib, a, b, i: lambda: a.mean(),
    "max": lambda lib, a, b, i: lambda: a.max(),
    "argmax": lambda lib, a, b, i: lambda: a.argmax(1),
    "softmax": lambda lib, a, b, i: lambda: lib.softmax(a, 1),
    "matmul": lambda lib, a, b, i: lambda: a @ b,
    "view": lambda lib, a, b, i: lambda: a.view(4),
    "transpose": lambda lib, a, b, i: lambda: a.t(),
    "select": lambda lib, a, b, i: lambda: a[0],
    "slice": lambda lib, a, b, i: lambda: a[:, 1:],
    "unsqueeze": lambda lib, a, b, i: lambda: a.unsqueeze(0),
    "cat": lambda lib, a, b, i: lambda: lib.cat([a, b]),
    "index_select": lambda lib, a, b, i: lambda: lib.index_select(a, 0, i[0]),
    "to another type": lambda lib, a, b, i: lambda: a.to(lib.float64),
    "empty": lambda lib, a, b, i: lambda: lib.empty(2, 2),
    "zeros": lambda lib, a, b, i: lambda: lib.zeros(2, 2),
}


def make(name):
    def call(library):
        a, b, out = tensors(library, (2, 2), (2, 2), (2, 2))
        rows = library.tensor([1, 0])
        return CALLS[name](library, a, b, (rows, out, a > b))

    return call


def groups(quick):
    """The table's row for calls."""
    cases = [Case(name, make(name)) for name in CALLS]
    return [Group("per-call overhead, 40 operators on tiny tensors", 0.30, cases)]
