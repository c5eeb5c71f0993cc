"""Products of operands of every layout are the oracle's, with their gradients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

DTYPES = ["float32", "float64", "bfloat16", "float16", "int64", "uint8", "complex64"]
SIZES = st.integers(0, 7) | st.sampled_from([16, 17, 33])
# The shapes of the operands of each operator; what is added comes first.
ADDED = {
    "addmm": lambda b, n, k, m: [(n, m), (n, k), (k, m)],
    "baddbmm": lambda b, n, k, m: [(b, n, m), (b, n, k), (b, k, m)],
    "addbmm": lambda b, n, k, m: [(n, m), (b, n, k), (b, k, m)],
    "addmv": lambda b, n, k, m: [(n,), (n, k), (k,)],
    "addr": lambda b, n, k, m: [(n, m), (n,), (m,)],
}
PLAIN = {
    "mm": lambda b, n, k, m: [(n, k), (k, m)],
    "bmm": lambda b, n, k, m: [(b, n, k), (b, k, m)],
    "mv": lambda b, n, k, m: [(n, k), (k,)],
    "dot": lambda b, n, k, m: [(n,), (n,)],
    "vdot": lambda b, n, k, m: [(n,), (n,)],
    "inner": lambda b, n, k, m: [(n, k), (b, m, k)],
    "outer": lambda b, n, k, m: [(n,), (m,)],
    "matmul": lambda b, n, k, m: [(2, 1, n, k), (b, k, m)],
}


@st.composite
def operands(draw, sizes, dtype):
    """An operand in both libraries: dimensions in any order, with gaps and repeats."""
    order = draw(st.permutations(range(len(sizes))))
    strides, step = [1] * len(sizes), draw(st.sampled_from([1, 1, 2]))
    for dim in order:
        if draw(st.integers(0, 5)) == 0:
            strides[dim] = 0
            continue
        strides[dim] = step
        step *= max(sizes[dim], 1)
        step += draw(st.sampled_from([0, 0, 1]))
    offset = draw(st.sampled_from([0, 0, 3]))
    room = offset + 1 + sum(max(n - 1, 0) * s for n, s in zip(sizes, strides))
    torch.manual_seed(draw(st.integers(0, 99)))
    if dtype in ("int64", "uint8"):
        whole = torch.randint(0, 9, (room,)).to(getattr(torch, dtype))
    else:
        whole = torch.randn(room, dtype=torch.float64).to(getattr(torch, dtype))
        if dtype == "complex64":
            whole = whole * (1 + 2j)
    bytes_ = rl.from_numpy(whole.view(torch.uint8).numpy().copy())
    mine = bytes_.view(getattr(rl, dtype))
    return [t.as_strided(sizes, strides, offset) for t in (mine, whole)]


def assert_close(mine, theirs, what):
    assert tuple(mine.shape) == tuple(theirs.shape), what
    assert str(mine.dtype).split(".")[1] == str(theirs.dtype).split(".")[1], what
    kind = "complex128" if mine.is_complex() else "float64"
    given = torch.from_numpy(mine.detach().to(getattr(rl, kind)).numpy())
    exact = theirs.detach().resolve_conj().to(getattr(torch, kind))
    loose = {"bfloat16": 5e-2, "float16": 1e-2, "float64": 1e-10}
    error = loose.get(str(theirs.dtype).split(".")[1], 1e-4)
    torch.testing.assert_close(given, exact, rtol=error, atol=error * 4, msg=what)


def assert_same(mine, theirs, call, what):
    """The same result and the same gradients of its sum."""
    grads = mine[0].dtype.is_floating_point or mine[0].is_complex()
    if grads:
        mine = [t.detach().requires_grad_() for t in mine]
        theirs = [t.detach().requires_grad_() for t in theirs]
    a, b = call(rl, *mine), call(torch, *theirs)
    assert_close(a, b, what)
    if not grads:
        return
    for lib, result in ((rl, a), (torch, b)):
        weight = lib.arange(float(max(result.numel(), 1)))[: result.numel()]
        # conjugates, so that lazy ones reach the gradients too
        (result.conj() * (weight % 3).reshape(result.shape)).sum().abs().backward()
    for at, (x, y) in enumerate(zip(mine, theirs)):
        assert_close(x.grad, y.grad, f"gradient {at} of {what}")


@pytest.mark.parametrize("name", [*PLAIN, *ADDED])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_products_of_any_strides_are_the_oracles(name, data):
    dtype = data.draw(st.sampled_from(DTYPES))
    b, n, k, m = (data.draw(SIZES) for _ in range(4))
    shapes = (PLAIN.get(name) or ADDED[name])(min(b, 3), n, k, m)
    made = [data.draw(operands(sizes, dtype)) for sizes in shapes]
    if name in ADDED:
        kept = data.draw(st.sampled_from(["all", "all", "row", "column", "one"]))
        made[0] = [narrowed(t, kept) for t in made[0]]
    integer = dtype in ("int64", "uint8")
    scalars = data.draw(
        st.sampled_from([{}, {"beta": 2, "alpha": 3}, {"beta": 0}])
        if integer
        else st.sampled_from([{}, {"beta": 0.5, "alpha": 2}, {"alpha": -1.5}])
    )
    scalars = scalars if name in ADDED else {}
    mine, theirs = ([pair[side] for pair in made] for side in (0, 1))
    what = f"{name} {dtype} {[(t.shape, t.stride()) for t in theirs]} {scalars}"
    assert_same(mine, theirs, lambda m, *ts: getattr(m, name)(*ts, **scalars), what)


def narrowed(t, kept):
    """Part of what is added, which must then expand."""
    if kept == "row" and t.ndim > 1 and t.shape[0]:
        return t[:1] if t.ndim == 3 else t[0]
    if kept == "column" and t.ndim and t.shape[-1]:
        return t[..., :1]
    return t.reshape(-1)[0] if kept == "one" and t.numel() else t


INPUTS = [(4,), (3, 4), (1, 4), (2, 3, 4), (1, 1, 4), (2, 1, 3, 4), (0, 4), (2, 0, 4)]
BIASES = [
    None, (), (1,), (5,), (4,), (1, 5), (3, 5), (3, 1), (6, 5), (6, 1), (1, 1, 5),
    (1, 3, 5), (2, 1, 5), (2, 3, 5), (2, 3, 1), (1, 1, 1), (2, 1, 1), (2, 1, 3, 5),
]  # fmt: skip


def answer(call, *tensors):
    """A result and the gradients of its sum of squares, or the kind of refusal."""
    leaves = [t.detach().requires_grad_() for t in tensors if t is not None]
    parts = iter(leaves)
    try:
        result = call(*(None if t is None else next(parts) for t in tensors))
    except (RuntimeError, IndexError) as error:
        return type(error).__name__
    (result * result).sum().backward()
    return [result.tolist(), *(t.grad.tolist() for t in leaves)]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [(5, 4), (4,)], ids=["matrix", "vector"])
@pytest.mark.parametrize("sizes", INPUTS, ids=str)
def test_linear_takes_the_biases_that_the_oracles_does(sizes, rows, turned):
    for shape in BIASES:
        answers = []
        for lib in (rl, torch):
            x, weight, bias = (
                None if s is None else counted(lib, s) for s in (sizes, rows, shape)
            )
            if turned:
                x = x.transpose(0, -1).contiguous().transpose(0, -1)
            answers.append(answer(lib.nn.functional.linear, x, weight, bias))
        assert answers[0] == answers[1], (sizes, rows, shape)


def counted(lib, sizes):
    """Small whole numbers, whose products are exact."""
    total = 1
    for size in sizes:
        total *= size
    return (lib.arange(float(total)) % 7 - 3).reshape(sizes)


def test_addr_multiplies_in_the_type_of_its_result():
    vectors = [torch.tensor([1.0078125, 3.140625], dtype=torch.bfloat16)] * 2
    for dtype in (torch.float32, torch.complex64):
        expected = torch.addr(torch.zeros((), dtype=dtype), *vectors)
        ours = [rl.tensor(v.tolist(), dtype=rl.bfloat16) for v in vectors]
        found = rl.addr(rl.zeros((), dtype=getattr(rl, str(dtype)[6:])), *ours)
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "sizes", [((5, 6), (40, 6, 3)), ((40, 5, 6), (6, 3)), ((6,), (40, 6, 3))], ids=str
)
def test_gradients_over_many_products_are_rounded_once(sizes):
    torch.manual_seed(0)
    values = [torch.randn(s).bfloat16() for s in sizes]

    def gradients(lib, dtype):
        given = [lib.tensor(v.tolist(), dtype=dtype).requires_grad_() for v in values]
        product = lib.matmul(*given)
        (
            product * (lib.arange(product.numel()) % 7 - 3).reshape(product.shape)
        ).sum().backward()
        return [np.array(t.grad.tolist()) for t in given]

    exact = gradients(torch, torch.float64)
    theirs, ours = gradients(torch, torch.bfloat16), gradients(rl, rl.bfloat16)
    for right, there, here in zip(exact, theirs, ours, strict=True):
        assert abs(here - right).max() <= 1.5 * abs(there - right).max() + 1e-6
