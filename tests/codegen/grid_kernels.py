"""Kernels of a device's grid that the tests execute, assemble and measure."""

from __future__ import annotations

from dataclasses import replace

from rushlight import te
from rushlight.codegen import language as L
from rushlight.codegen.emit import ptx
from rushlight.codegen.frontend.nest import Nest, arrange
from rushlight.codegen.language import (
    cos,
    element,
    erf,
    exp,
    expm1,
    fma,
    fold,
    largest,
    length,
    log,
    log1p,
    maximum,
    mean,
    pointwise,
    reduction,
    rsqrt,
    select,
    sigmoid,
    sin,
    sqrt,
    tanh,
    total,
)
from rushlight.codegen.lower import lower
from rushlight.codegen.schedule import gpu_lowering
from rushlight.codegen.target import NVIDIA, gpu, using
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Type, Var
from rushlight.ir.rewrite import map_statement
from rushlight.kernels.attention import (
    device_attention,
    device_attention_gradients,
    wgmma_attention,
)
from rushlight.kernels.matmul import device_tiles, mma, wgmma
from rushlight.kernels.scan import device_scan, scan_kernels
from rushlight.kernels.select import device_select
from rushlight.kernels.sort import radix_sort
from rushlight.operators.reduction import reduction as reductions
from rushlight.operators.reduction.reduction import argmax, var_mean
from rushlight.tensor_expressions import cuda as te_cuda
from rushlight.tensor_expressions.lower import (
    lower as lower_schedule,
)

HALVES = ("float16", "bfloat16")
# Attention by its halves, sizes of heads and mask
ATTENTION = (
    ("f16", 32, 32, None),
    ("bf16", 64, 64, None),
    ("f16", 64, 64, "bool"),
    ("f16", 96, 96, "float16"),
    ("bf16", 128, 128, "float32"),
    ("f16", 256, 256, "bool"),
    ("bf16", 32, 256, "bfloat16"),
    ("f32", 32, 32, None),
    ("f32", 64, 64, "float32"),
    ("f32", 128, 128, "float32"),
)
GRADIENTS = tuple(
    (of, *rest)
    for of in device_attention_gradients.KINDS
    for rest in (
        ("f16", 32, 32, None),
        ("bf16", 64, 64, "bool"),
        ("bf16", 96, 96, "float32"),
        ("f16", 128, 128, None),
        ("bf16", 128, 128, "float32"),
        ("bf16", 192, 192, "float32"),
        ("f32", 32, 32, None),
        ("f32", 64, 64, "float32"),
    )
)
# By groups: halves, sizes of heads, mask, and whether there is dropout
ATTENTION_BY_GROUPS = (
    ("f16", 64, 64, None, False),
    ("bf16", 128, 128, None, False),
    ("bf16", 64, 128, "float32", True),
    ("bf16", 128, 64, "bool", True),
    ("f16", 128, 128, "bfloat16", True),
)
# With dropout: what of attention, its halves, sizes of heads and mask
DROPOUT = (
    ("forward", "f16", 32, 32, None),
    ("forward", "bf16", 64, 64, None),
    ("forward", "f16", 128, 128, "bool"),
    ("forward", "bf16", 192, 128, "bfloat16"),
    ("query", "f16", 64, 64, None),
    ("query", "bf16", 128, 32, "float32"),
    ("query", "bf16", 128, 128, "float32"),
    ("key", "f16", 64, 64, None),
    ("key", "bf16", 128, 128, "float32"),
    ("value", "f16", 64, 64, None),
    ("value", "bf16", 32, 128, "float32"),
    ("value", "bf16", 128, 128, "float32"),
    ("forward", "f32", 128, 128, "float32"),
    ("query", "f32", 64, 64, "float32"),
    ("key", "f32", 64, 64, "float32"),
    ("value", "f32", 64, 64, "float32"),
)
# Scans by what they make, and their types
SCANS = (
    ("sum_f32", scan_kernels.sums, ("float32", ("float32",), "float64")),
    ("sum_bf16", scan_kernels.sums, ("bfloat16", ("bfloat16",), "float32")),
    ("sum_i64", scan_kernels.sums, ("int64", ("int64",), "int64")),
    ("sum_c128", scan_kernels.sums, ("complex128", ("complex128",), "complex128")),
    ("log_sum_f32", scan_kernels.log_sums, ("float32", ("float32",), "float64")),
    (
        "log_sum_c128",
        scan_kernels.log_sums_of_complex,
        ("complex128", ("complex128",), "complex128"),
    ),
    (
        "largest_f64",
        scan_kernels.largest_so_far,
        ("float64", ("float64", "int64"), "float64"),
    ),
)
# Reductions of rows that are many blocks'
PARTS = (
    ("sum_bf16", reductions.sum, ("bfloat16", ("bfloat16",), "float32")),
    ("var_f32", reductions.var, ("float32", ("float32",), "float64")),
    ("argmax_f32", reductions.argmax, ("float32", ("int64",), "float32")),
    (
        "min_f64",
        reductions.min_with_index,
        ("float64", ("float64", "int64"), "float64"),
    ),
)
SELECTIONS = (
    ("float32", device_select.FIRST, True),
    ("bfloat16", device_select.FIRST, False),
    ("int64", device_select.RANKED, False),
    ("float64", device_select.MIDDLE, False),
)
# Sorts by digits by their types and the elements of a thread
SORTS = (("float32", 16), ("bfloat16", 16), ("int64", 8))

ELEMENTWISE = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "relu": lambda x: maximum(x, 0.0),
    "leaky_relu": lambda x: select(x > 0, x, x * 0.01),
    "exp": lambda x: exp(x),
    "log": lambda x: log(x),
    "sqrt": lambda x: sqrt(x),
    "sin": lambda x: sin(x),
    "cos": lambda x: cos(x),
    "tanh": lambda x: tanh(x),
    "sigmoid": lambda x: sigmoid(x),
    "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x * 0.5 * (1.0 + erf(x * 0.7071067811865476)),
    "softplus": lambda x: log1p(exp(x)),
    "elu": lambda x: select(x > 0, x, expm1(x)),
    "addcmul": lambda x, y, z: fma(y, z, x),
}


@reduction(
    identity=(-L.inf, 0),
    prepare=lambda x: (x, 1),
    finish=lambda state: state[0] + log(state[1]),
)
def log_mass(left, right):
    """The logarithm of a sum of exponentials, in one pass."""
    (high, mass), (other, more) = left, right
    top = maximum(high, other)
    floor = select(top == -L.inf, 0.0, top)
    return top, mass * exp(high - floor) + more * exp(other - floor)


def row_sum(x, dim):
    return total(x, over=dim)


def row_mean(x, dim):
    return mean(x, over=dim)


def row_amax(x, dim):
    return largest(x, over=dim)


def row_norm(x, dim):
    return sqrt(total(x * x, over=dim))


def softmax(x, dim):
    mass = exp(x - largest(x, over=dim))
    return mass / total(mass, over=dim)


def log_softmax(x, dim):
    shifted = x - largest(x, over=dim)
    return shifted - log(total(exp(shifted), over=dim))


def logsumexp(x, dim):
    return fold(log_mass, x)[0]


def layer_norm(x, weight, bias, dim):
    center = mean(x, over=dim)
    gap = x - center
    rstd = rsqrt(mean(gap * gap, over=dim) + 1e-5)
    return gap * rstd * weight + bias, center, rstd


def rms_norm(x, weight, dim):
    return x * rsqrt(mean(x * x, over=dim) + 1e-5) * weight


def cross_entropy(x, label, dim):
    top = largest(x, over=dim)
    picked = element(x, L.cast(label, "int64"), over=dim)
    return log(total(exp(x - top), over=dim)) - (picked - top)


def moments(x, dim):
    return fold(var_mean, x, scalar=L.cast(length(over=dim), "float64") - 1.0)


def first_largest(x, dim):
    return fold(argmax, x)[0]


# Each kernel's inputs and outputs by how they vary: x for each place, w for each place
# and every row alike, r for each row, i for each row and an integer.
ROWS = {
    row_sum: ("x", "r"),
    row_mean: ("x", "r"),
    row_amax: ("x", "r"),
    row_norm: ("x", "r"),
    softmax: ("x", "x"),
    log_softmax: ("x", "x"),
    logsumexp: ("x", "r"),
    layer_norm: ("xww", "xrr"),
    rms_norm: ("xw", "x"),
    cross_entropy: ("xr", "r"),
    moments: ("x", "rr"),
    first_largest: ("x", "i"),
}


def strides_of(kind, rows, columns, item, beside):
    """Byte strides from row to row and along a row."""
    whole = (item, rows * item) if beside else (columns * item, item)
    return {"x": whole, "w": (0, item), "r": (item, 0), "i": (8, 0)}[kind]


def pointwise_loops(front, in_dtypes, out_dtypes, compute, static=()):
    """An elementwise kernel whose parallel axis is its elements.

    The integers are the element strides of outputs, then inputs: 1, or 0 for a value
    that is the same everywhere.
    """
    results, inputs = front.expressions(tuple(in_dtypes), compute, tuple(static))
    pointers = []
    for position, dtype in enumerate((*out_dtypes, *in_dtypes)):
        element = Type(dtype)
        pointer = Var(f"p{position}", ir.Pointer(element))
        pointers.append(ir.Let(pointer, ir.argument(position, element)))
    b = Builder()
    strides = [b.let(f"stride{n}", ir.integer(n)) for n in range(len(pointers))]
    with b.loop("i", ir.BEGIN, ir.END) as i:
        count = len(out_dtypes)
        for n, var in enumerate(inputs):
            place = ir.load(pointers[count + n].var, i * strides[count + n])
            b.add(ir.Let(var, ir.cast(var.type, place)))
        for n, value in enumerate(results):
            pointer = pointers[n].var
            b.store(pointer, i * strides[n], ir.cast(pointer.type.element, value))
    name = front.kernel_name(
        tuple(in_dtypes), tuple(out_dtypes), compute, tuple(static)
    )
    body = (*(let for let in pointers), *b.statements)
    return ir.Function(name, ir.KERNEL_PARAMETERS, body, distinct=True)


def elementwise(name, dtype="float32"):
    """A kernel of `ELEMENTWISE` for a dtype, as the host's loops."""
    function = ELEMENTWISE[name]
    function.__name__ = f"{name}_{dtype}"
    front = pointwise(function)
    compute = "float32" if dtype in HALVES else dtype
    return pointwise_loops(front, (dtype,) * front.arity, (dtype,), compute)


def over_rows(function, dtype="float32", rows=5, columns=100, beside=False):
    """A kernel of `ROWS` as a function of a grid, and what `arrange` found."""
    before, after = ROWS[function]
    kinds = after + before
    dtypes = ["int64" if kind == "i" else dtype for kind in kinds]
    items = [{"float16": 2, "bfloat16": 2, "float32": 4}.get(d, 8) for d in dtypes]
    strides = [
        strides_of(kind, rows, columns, item, beside)
        for kind, item in zip(kinds, items, strict=True)
    ]
    found = arrange([rows], [columns], strides, items, len(after), ordered=True)
    outputs, inputs = tuple(dtypes[: len(after)]), tuple(dtypes[len(after) :])
    compute = "float32" if dtype in HALVES else dtype
    made = Nest(function).grid(inputs, outputs, compute, found.key)
    return lower(made), found


def matrix_product():
    """A scheduled product of matrices, as the host's loops."""
    a = te.placeholder((64, 32), name="a")
    b = te.placeholder((32, 48), name="b")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((64, 48), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    s = te_cuda.schedule(te.create_schedule(c))
    ((function, _, _),) = lower_schedule(s, [a, b, c], "matmul").functions
    return function


def named():
    """Every kernel by a name of its own."""
    found = {f"{name}": elementwise(name) for name in ELEMENTWISE}
    found |= {f"silu_{d}": elementwise("silu", d) for d in (*HALVES, "float64")}
    for function in ROWS:
        found[function.__name__] = over_rows(function)[0]
    for function in (row_sum, row_mean, row_amax, row_norm, softmax):
        for dtype in ("float64", "bfloat16"):
            found[f"{function.__name__}_{dtype}"] = over_rows(function, dtype)[0]
    for function in (row_sum, softmax, layer_norm):
        found[f"{function.__name__}_beside"] = over_rows(function, beside=True)[0]
    found["matmul"] = matrix_product()
    for kind, sums in (("f32", "f32"), ("bf16", "f32"), ("f64", "f64")):
        for tile in (device_tiles.SMALL, device_tiles.LARGE):
            name = f"product_{kind}_{tile.rows}"
            types = getattr(ir, kind), getattr(ir, sums)
            found[name] = lower(device_tiles.product(name, *types, tile))
    for kind in ("f16", "bf16", "f32"):
        for tile in (mma.TILE, mma.SMALL, mma.LARGE):
            name = f"units_{kind}" + ("" if tile is mma.TILE else f"_{tile.rows}")
            found[name] = lower(mma.product(name, getattr(ir, kind), tile))
    for name, source, kinds in SCANS:
        for way in (device_scan.ALONE, device_scan.TOTALS, device_scan.JOINED):
            key = f"scan_{name}_{way}"
            made = device_scan.function(key, source, *kinds, device_scan.THREADS, way)
            found[key] = lower(made)
    for name, source, kinds in PARTS:
        for way in (gpu_lowering.FINDS, gpu_lowering.JOINS):
            key = f"parts_{name}_{way}"
            with using(NVIDIA):
                made = source.parts(*kinds, way=way, cut=2)
            found[key] = lower(replace(made, name=key))
    for kind, way, descending in SELECTIONS:
        key = f"select_{way}_{kind}"
        found[key] = lower(device_select.function(key, kind, way, descending, 512))
    for kind, each in SORTS:
        given = kind, True, 256
        key = f"sort_row_{kind}"
        found[key] = lower(radix_sort.row(key, *given, each))
        key = f"sort_count_{kind}"
        found[key] = lower(radix_sort.count(key, *given))
        key = f"sort_place_{kind}"
        found[key] = lower(radix_sort.place(key, *given, each, "int32", False, True))
    for kind, depth, width, mask in ATTENTION:
        name = f"attention_{kind}_{depth}_{width}" + (f"_{mask}" if mask else "")
        found[name] = attending("forward", name, kind, depth, width, mask)
    for of, kind, depth, width, mask in GRADIENTS:
        name = f"attention_{of}_{kind}_{depth}_{width}" + (f"_{mask}" if mask else "")
        found[name] = attending(of, name, kind, depth, width, mask)
    for of, kind, depth, width, mask in DROPOUT:
        name = f"attention_{of}_dropout_{kind}_{depth}_{width}"
        name += f"_{mask}" if mask else ""
        found[name] = attending(of, name, kind, depth, width, mask, True)
    return found


def attending(of, name, kind, depth, width, mask, dropout=False):
    """Results of attention, or one of its gradients."""
    element, known = getattr(ir, kind), mask and ir.Type(mask)
    if of == "forward":
        tile = device_attention.tile_for(depth, width, dropout, element.itemsize)
        return lower(device_attention.forward(name, element, tile, known, dropout))
    sizes = of, depth, width, mask is not None
    tile = device_attention_gradients.tile_for(*sizes, dropout, element.itemsize)
    types = name, element, tile, known
    return lower(device_attention_gradients.gradient(of, *types, dropout))


def by_groups():
    """Products by warpgroups' units, by names of their own: one generation has them."""
    found = {}
    for kind, sides in (("f16", (False, False)), ("bf16", (True, True))):
        for tile in wgmma.TILES:
            name = f"groups_{kind}_{tile.rows}_{tile.columns}"
            types = getattr(ir, kind), tile, sides, getattr(ir, kind)
            found[name] = lower(wgmma.product(name, *types))
    for sides in ((False, True), (True, False)):
        name = f"groups_f16_{'_'.join('turned' if s else 'plain' for s in sides)}"
        types = ir.f16, wgmma.TILES[0], sides, ir.f32
        found[name] = lower(wgmma.product(name, *types))
    for kind, depth, width, mask, dropout in ATTENTION_BY_GROUPS:
        name = f"attention_groups_{kind}_{depth}_{width}" + (f"_{mask}" if mask else "")
        tile = wgmma_attention.tile_for(depth, width)
        types = getattr(ir, kind), tile, mask and ir.Type(mask), dropout
        found[name] = lower(wgmma_attention.forward(name, *types))
    return found


def texts(architecture):
    """The PTX of every kernel and what it is for, and the names of entries.

    Those by units are in one text; those by groups' are for one generation alone. On the
    other generations every fifth shows that a target is no more than a target.
    """
    every = 1 if architecture == "sm_90" else 5
    kernels = dict([*named().items()][::every])
    by_units = [
        f for f in kernels.values() if f.name.startswith(("units", "attention"))
    ]
    others = [f for f in kernels.values() if f not in by_units]
    parts = [(others, architecture), (by_units, architecture)]
    if architecture == "sm_90":
        groups = by_groups()
        kernels |= groups
        parts.append((groups.values(), "sm_90a"))
    texts = [(ptx.emit(*part, target=gpu(of)), of) for part, of in parts]
    return texts, {function.name: name for name, function in kernels.items()}


def without(function, kind, number=0):
    """The function with one statement of a kind left out.

    Raises:
        IndexError: it has no more than ``number`` of them.
    """
    count = 0

    def kept(body):
        nonlocal count
        result = []
        for statement in body:
            if isinstance(statement, kind):
                count += 1
                if count - 1 == number:
                    continue
            result.append(map_statement(statement, lambda e: e, kept))
        return tuple(result)

    changed = function.with_body(kept(function.body))
    if count <= number:
        raise IndexError(f"{function.name} has {count}, none with the number {number}")
    return changed
