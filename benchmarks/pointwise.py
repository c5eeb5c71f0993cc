"""Large elementwise calls that return fresh tensors."""

from benchmarks.harness import Case, Group, tensors

CALLS = {
    "add": lambda lib, a, b: lambda: a + b,
    "mul by a number": lambda lib, a, b: lambda: a * 2.0,
    "add a row": lambda lib, a, b: lambda: a + b[0],
    "add transposed": lambda lib, a, b: lambda: a + b.t(),
    "exp": lambda lib, a, b: lambda: a.exp(),
    "log": lambda lib, a, b: lambda: a.log(),
    "tanh": lambda lib, a, b: lambda: a.tanh(),
    "erf": lambda lib, a, b: lambda: a.erf(),
    "sin": lambda lib, a, b: lambda: a.sin(),
    "sqrt": lambda lib, a, b: lambda: a.sqrt(),
    "sigmoid": lambda lib, a, b: lambda: a.sigmoid(),
    "silu": lambda lib, a, b: lambda: lib.nn.functional.silu(a),
    "gelu": lambda lib, a, b: lambda: lib.nn.functional.gelu(a),
    "relu": lambda lib, a, b: lambda: a.relu(),
    "where": lambda lib, a, b: lambda: lib.where(a > b, a, b),
    "less than": lambda lib, a, b: lambda: a < b,
    "pow 1.5": lambda lib, a, b: lambda: a.pow(1.5),
    "clamp": lambda lib, a, b: lambda: a.clamp(0.2, 0.8),
}


def make(name, dtype, side):
    def call(library):
        return CALLS[name](
            library, *tensors(library, (side, side), (side, side), dtype=dtype)
        )

    return call


def groups(quick):
    """The table's row for elementwise calls."""
    side = 2048 if quick else 4096
    cases = [
        Case(f"{name}, {side}x{side}", make(name, "float32", side)) for name in CALLS
    ]
    for dtype in "bfloat16", "float64":
        cases += [
            Case(f"{name} {dtype}, {side}x{side}", make(name, dtype, side))
            for name in ("add", "exp", "gelu")
        ]
    return [Group("pointwise, large tensors, fresh outputs", 0.50, cases)]
