"""What stands behind a product is part of its kernel, and computes what it did before."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.graph import compiled_function, fusion_anchor

FAR = fusion_anchor.FAR
DTYPES = ("float32", "float64", "bfloat16", "float16")


@pytest.fixture(autouse=True)
def small_products_too(monkeypatch):
    monkeypatch.setattr(fusion_anchor, "FAR", 0)


def drawn(*sizes, seed=0, dtype="float32"):
    generator = np.random.default_rng([seed, *sizes])
    return rl.tensor(generator.standard_normal(sizes)).to(getattr(rl, dtype))


def settled(function, *args):
    """What a compiled function gives, and whether a product has something behind it."""
    rl.compiler.reset()
    compiled = rl.compile(function)
    results = [compiled(*args) for _ in range(4)]
    return results, behind() > 0


def behind():
    """How many kernels of the last program are of products with something behind them."""
    graphs = [g for r in compiled_function._runners for g in r.graphs]
    told = [
        str(getattr(s.details, "op", s.details)) for g in graphs[-1:] for s in g.steps
    ]
    return sum("_product_with_epilogue" in one for one in told)


def agree(function, *args, joined=None):
    """Whether a function gives the same bits compiled; asserts how it was compiled."""
    expected = function(*args)
    results, found = settled(function, *args)
    for result in results:
        assert result.dtype is expected.dtype
        assert result.stride() == expected.stride()
        rl.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
    assert joined is None or found == joined


def flat(x):
    return x.reshape(-1, x.shape[-1])


# Of x [3, rows, depth], w [columns, depth] and a bias, to the shape [3, rows, columns].
PRODUCTS = {
    "linear": lambda x, w, b: F.linear(x, w, b),
    "linear without a bias": lambda x, w, b: F.linear(x, w),
    "linear of turned rows": lambda x, w, b: F.linear(x.mT.contiguous().mT, w, b),
    "mm": lambda x, w, b: rl.mm(flat(x), w.t()).view(3, -1, len(w)),
    "addmm": lambda x, w, b: rl.addmm(b, flat(x), w.t()).view(3, -1, len(w)),
    "matmul": lambda x, w, b: x @ w.t(),
    "bmm": lambda x, w, b: rl.bmm(x, w.t().expand(3, -1, -1)),
    "baddbmm": lambda x, w, b: rl.baddbmm(b, x, w.t().expand(3, -1, -1)),
}
# Of the sums y, a full operand, one for each column, and one for each row.
CHAINS = {
    "relu": lambda y, o, c, r: F.relu(y),
    "gelu": lambda y, o, c, r: F.gelu(y + c),
    "silu": lambda y, o, c, r: F.silu(y) * o,
    "residual": lambda y, o, c, r: F.relu(y + o),
    "scaled": lambda y, o, c, r: rl.tanh(y * c - o) + r,
    "rows": lambda y, o, c, r: (y - r) * r.sigmoid(),
    "in place": lambda y, o, c, r: y.add_(o).mul_(c).relu_(),
    "widened": lambda y, o, c, r: (y + o).double(),
    "narrowed": lambda y, o, c, r: (y * r).bfloat16(),
}
SIZES = [(7, 17, 5), (6, 64, 384), (13, 65, 385), (2, 600, 70)]


def operands(rows, columns, depth, dtype="float32"):
    x, w, b = (
        drawn(3, rows, depth),
        drawn(columns, depth, seed=1),
        drawn(columns, seed=2),
    )
    o, r = drawn(3, rows, columns, seed=3), drawn(3, rows, 1, seed=4)
    return [t.to(getattr(rl, dtype)) for t in (x, w, b, o, drawn(columns, seed=5), r)]


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("chain", CHAINS)
def test_a_product_takes_what_is_behind_it_and_gives_the_same_bits(product, chain):
    for number, sizes in enumerate(SIZES):
        # sums of another type wait in memory of their own; turned rows are copied, and
        # may keep more memory where they wait for what is behind
        deep = sizes[2] > 384 and chain in ("widened", "narrowed")
        joined = None if "turned" in product else not deep

        def function(x, w, b, o, c, r):
            return CHAINS[chain](PRODUCTS[product](x, w, b), o, c, r)

        dtype = "float64" if number == 0 and chain != "widened" else "float32"
        with rl.no_grad():
            agree(function, *operands(*sizes, dtype), joined=joined)


UNARY = [F.relu, F.gelu, rl.tanh, rl.neg, lambda y: y * y]
BINARY = [rl.add, rl.sub, rl.mul, rl.maximum]
KINDS = ["full", "turned", "column", "row", "lone", "skipping", "bool"]


def other(kind, rows, columns, dtype):
    """An operand that spreads over the result, laid out in some way."""
    if kind == "turned":
        return drawn(3, columns, rows, seed=6, dtype=dtype).mT
    if kind == "skipping":
        return drawn(3, rows, 2 * columns, seed=7, dtype=dtype)[..., ::2]
    if kind == "bool":
        return drawn(3, rows, columns, seed=8) > 0
    sizes = {"full": (3, rows, columns), "column": (columns,), "row": (rows, 1)}
    return drawn(*sizes.get(kind, (1,)), seed=9, dtype=dtype)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 4), st.integers(0, 3), st.sampled_from(KINDS), st.booleans()
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(PRODUCTS)),
    st.sampled_from([1, 2, 5, 6, 7, 13]),
    st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 130]),
    st.sampled_from([1, 8, 383, 384, 385]),
    st.sampled_from(DTYPES),
    STEPS,
)
@example("mm", 6, 64, 385, "float32", [(0, 1, "row", True), (1, 2, "turned", False)])
@example("bmm", 1, 1, 1, "float32", [(0, 0, "full", True)])
def test_any_chain_behind_any_product_gives_the_same_bits(
    product, rows, columns, depth, dtype, steps
):
    x, w, b, *_ = operands(rows, columns, depth, dtype)
    others = [other(kind, rows, columns, dtype) for _, _, kind, _ in steps]

    def function(x, w, b, *others):
        y = PRODUCTS[product](x, w, b)
        for (unary, binary, _, before), one in zip(steps, others, strict=True):
            y = UNARY[unary](y) if before else y
            y = BINARY[binary](y, one)
        return y

    with rl.no_grad():
        agree(function, x, w, b, *others)


def seen_sums(y, o):
    return rl.stack([y, F.relu(y)])


def read_twice(y, o):
    return F.relu(y) + rl.cumsum(y, -1)


def turned(y, o):
    return y.transpose(1, 2).relu()


def of_a_part(y, o):
    return y[:, 1:].relu()


def beside_columns(y, o):
    return y + o.mT.contiguous().mT


@pytest.mark.parametrize(
    "chain", [seen_sums, read_twice, turned, of_a_part, beside_columns]
)
def test_sums_that_someone_else_reads_or_lie_otherwise_stay(chain):
    x, w, b, o, *_ = operands(7, 17, 5)
    with rl.no_grad():
        agree(lambda x, w, o: chain(F.linear(x, w), o), x, w, o, joined=False)


def test_an_operand_that_is_written_in_between_is_read_before():
    x, w, b, o, *_ = operands(7, 17, 5)
    before = w.clone()

    def function(x, w):
        y = F.linear(x, w)
        w.mul_(2)
        return F.relu(y)

    compiled = rl.compile(function)
    with rl.no_grad():
        for number in range(4):
            w.copy_(before * 2.0**number)
            expected = F.relu(F.linear(x, w))
            assert rl.equal(compiled(x, w), expected)


def test_a_step_that_learns_has_the_same_gradients():
    x, w, b, o, *_ = operands(7, 17, 5)
    v = drawn(4, 17, seed=8)
    for one in (w, b, v):
        one.requires_grad_()

    def step(x):
        y = F.linear(F.relu(F.linear(x, w, b)), v)
        y.square().sum().backward()
        found = [one.grad for one in (w, b, v)]
        w.grad = b.grad = v.grad = None
        return found

    expected = step(x)
    rl.compiler.reset()
    compiled = rl.compile(step)
    for _ in range(4):
        for one, reference in zip(compiled(x), expected, strict=True):
            rl.testing.assert_close(one, reference)
    assert behind() > 0


def test_factors_and_small_products_stay_alone(monkeypatch):
    x, w, b, o, *_ = operands(7, 17, 5)
    with rl.no_grad():
        agree(
            lambda x, w, b: rl.addmm(b, flat(x), w.t(), alpha=2).relu(),
            x,
            w,
            b,
            joined=False,
        )
        monkeypatch.setattr(fusion_anchor, "FAR", FAR)
        agree(lambda x, w: F.linear(x, w).relu(), x, w, joined=False)
        x, w = drawn(1024, 4), drawn(512, 4, seed=1)
        agree(lambda x, w: F.linear(x, w).relu(), x, w, joined=True)


def test_products_of_bfloat16_are_part_of_the_program():
    x, w, *_ = operands(8, 18, 64, "bfloat16")
    rl.compiler.reset()
    compiled = rl.compile(lambda x, w: F.linear(x, w).relu())
    with rl.no_grad():
        for _ in range(3):
            assert rl.equal(compiled(x, w), F.linear(x, w).relu())
    (program,) = [g for r in compiled_function._runners for g in r.graphs]
    assert "linear" in str(program.graph)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1).index_put((rl.tensor([0, 2]),), x[:2]) * 2,
        lambda x: F.pixel_shuffle(x + 1, 2) * 2,
        lambda x: F.channel_shuffle(x + 1, 2) * 2,
    ],
)
def test_operators_that_ask_whether_memory_is_shared_are_part_of_a_program(function):
    x = drawn(4, 8, 3, 3)
    rl.compiler.reset()
    compiled = rl.compile(function)
    with rl.no_grad():
        for _ in range(4):
            assert rl.equal(compiled(x), function(x))
    assert len(compiled._runner.graphs) == 1


@pytest.mark.parametrize("depth", [5, 384, 385, 800])
def test_factors_may_go_to_what_they_are_added_to(depth):
    x, w = drawn(13, depth), drawn(65, depth, seed=1)
    addend = drawn(13, 65, seed=2)
    expected = rl.addmm(addend, x, w.t(), beta=0.5, alpha=2)
    for _ in range(4):
        place = addend.clone()
        assert rl.equal(
            rl.addmm(place, x, w.t(), beta=0.5, alpha=2, out=place), expected
        )
        place = addend.clone()
        assert rl.equal(place.addmm_(x, w.t(), beta=0.5, alpha=2), expected)


def test_a_warm_start_compiles_nothing(monkeypatch):
    from rushlight.codegen import toolchain
    from rushlight.operators.matmul import matmul_epilogue

    x, w, b, o, *_ = operands(7, 17, 5)
    with rl.no_grad():
        settled(lambda x, w, b, o: F.silu(F.linear(x, w, b) - o), x, w, b, o)
        compiled = []
        compile_ir = toolchain.compile_ir
        monkeypatch.setattr(
            toolchain,
            "compile_ir",
            lambda *a, **k: compiled.append(a) or compile_ir(*a, **k),
        )
        matmul_epilogue._named.clear()
        _, found = settled(lambda x, w, b, o: F.silu(F.linear(x, w, b) - o), x, w, b, o)
    assert found and not compiled


def test_the_log_says_what_is_behind_which_product(capfd):
    x, w, *_ = operands(7, 17, 5)
    rl._logging.set_logs(fusion=True)
    try:
        with rl.no_grad():
            settled(lambda x, w: F.linear(x, w).relu(), x, w)
    finally:
        rl._logging.set_logs()
    assert (
        "in the kernel of aten.linear.default, behind it: relu"
        in capfd.readouterr().err
    )
