"""Attention of eight heads over sequences of many lengths, and its gradients."""

from benchmarks.harness import Case, Group, tensors

LENGTHS = (128, 512, 1024, 4096)
QUICK = 128, 1024


def attention(library, length, options, requires_grad=False):
    """A call, and its operands."""
    dtype = options.get("dtype", "float32")
    heads, size = options.get("heads", 8), options.get("size", 64)
    shape = 1, heads, length, size
    given = tensors(library, *[shape] * 3, dtype=dtype, requires_grad=requires_grad)
    mask = None
    if options.get("mask"):
        mask = tensors(library, (length, length))[0] > 0.1
    attend = library.nn.functional.scaled_dot_product_attention
    causal = bool(options.get("causal"))
    return lambda: attend(*given, attn_mask=mask, is_causal=causal), given


def forwards(length, **options):
    """A case: what comes out."""
    return lambda library: attention(library, length, options)[0]


def backwards(length, **options):
    """A case: what comes out, and all three gradients."""

    def make(library):
        call, given = attention(library, length, options, requires_grad=True)
        grad = library.ones_like(call())
        return lambda: library.autograd.grad(call(), given, grad)

    return make


def groups(quick):
    """The table's rows for attention."""
    rows = []
    kinds = {
        "attention, 128 to 4096 queries and keys": forwards,
        "attention and its gradients, 128 to 4096": backwards,
    }
    others = {
        "masked": {"mask": True},
        "bfloat16": {"dtype": "bfloat16"},
        "float64": {"dtype": "float64"},
        "heads of 32": {"size": 32},
        "heads of 128": {"size": 128},
    }
    for title, make in kinds.items():
        cases = []
        for length in QUICK if quick else LENGTHS:
            cases += [
                Case(f"{length}", make(length)),
                Case(f"{length}, causal", make(length, causal=True)),
            ]
        cases += [
            Case(f"512, {name}", make(512, **options))
            for name, options in others.items()
        ]
        rows.append(Group(title, 1.0, cases))
    return rows
