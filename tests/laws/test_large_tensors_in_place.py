"""Places of large tensors are written where they are: no copy is made, nothing else changes."""

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore:The reduce argument of torch.scatter", "ignore:index_reduce.. is in beta"
)

ROWS, COLUMNS = 600, 128  # 300 kB of float32: from 128 kB on no plan is followed

CALLS = {
    "scatter_": lambda m, x, i, s: x.scatter_(0, i[:, None].expand(-1, COLUMNS), s),
    "scatter_, a number": lambda m, x, i, s: x.scatter_(1, i[:, None] % COLUMNS, 2.5),
    "scatter_, multiplied": lambda m, x, i, s: x.scatter_(
        0, i[:, None], s[:, :1], reduce="multiply"
    ),
    "scatter_add_": lambda m, x, i, s: x.scatter_add_(
        0, i[:, None].expand(-1, COLUMNS), s
    ),
    "scatter_reduce_": lambda m, x, i, s: x.scatter_reduce_(
        0, i[:, None].expand(-1, COLUMNS), s, "amax", include_self=True
    ),
    "scatter_reduce_, without itself": lambda m, x, i, s: x.scatter_reduce_(
        0, i[:, None].expand(-1, COLUMNS), s, "mean", include_self=False
    ),
    "scatter_, a part": lambda m, x, i, s: x.scatter_(
        0, i[:, None].expand(-1, 9), s[:, 3:]
    ),
    "index_add_": lambda m, x, i, s: x.index_add_(0, i, s, alpha=2),
    "index_copy_": lambda m, x, i, s: x.index_copy_(0, i.unique(), s[:12]),
    "index_fill_": lambda m, x, i, s: x.index_fill_(0, i, 7.0),
    "index_reduce_": lambda m, x, i, s: x.index_reduce_(0, i, s, "amax"),
    "index_reduce_, without itself": lambda m, x, i, s: x.index_reduce_(
        0, i, s, "prod", include_self=False
    ),
    "put_": lambda m, x, i, s: x.put_(i, s[:, 0], accumulate=True),
}
DTYPES = ("float32", "float64", "int64", "bfloat16", "complex64")
LAYOUTS = {
    "row by row": lambda m, dtype: base(m, dtype, ROWS, COLUMNS),
    "turned": lambda m, dtype: base(m, dtype, COLUMNS, ROWS).t(),
    "a part": lambda m, dtype: base(m, dtype, ROWS + 3, COLUMNS)[2:-1],
    "with gaps": lambda m, dtype: base(m, dtype, ROWS, 2 * COLUMNS)[:, ::2],
}


def base(m, dtype, *shape):
    numbers = np.random.default_rng(0).integers(-9, 9, shape)
    return m.tensor(numbers).to(getattr(m, dtype))


def operands(m, dtype):
    rng = np.random.default_rng(1)
    index = rng.permutation(ROWS)[:12]
    index = np.concatenate([index, index[:3]])
    source = rng.integers(-9, 9, (15, COLUMNS))
    return m.tensor(index), m.tensor(source).to(getattr(m, dtype))


def wide(tensor):
    kind = "complex128" if tensor.is_complex() else "float64"
    library = rushlight if isinstance(tensor, rushlight.Tensor) else torch
    return tensor.detach().to(getattr(library, kind)).numpy()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_what_is_written_and_counted_is_pytorchs(name, dtype, layout):
    call, answers = CALLS[name], []
    if "_reduce_" in name and dtype == "complex64":
        pytest.skip("complex numbers have no order there")
    for m in (rushlight, torch):
        x = LAYOUTS[layout](m, dtype)
        result = call(m, x, *operands(m, dtype))
        assert result is x
        answers.append((wide(x), x._version, x.stride()))
    np.testing.assert_array_equal(answers[0][0], answers[1][0])
    assert answers[0][1:] == answers[1][1:]


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", CALLS)
def test_no_memory_of_its_size_is_asked_for(name, dtype):
    if "reduce" in name and dtype == "complex64":
        pytest.skip("complex numbers have no order there")
    x = base(rushlight, dtype, 40_000, COLUMNS)
    index, source = operands(rushlight, dtype)
    if name == "scatter_reduce_, without itself":
        pytest.skip("how many meet at each place is counted beside it")
    call, size = CALLS[name], x.numel() * x.element_size()
    call(rushlight, x, index, source)
    rushlight.cpu.reset_peak_memory_stats()
    before = rushlight.cpu.memory_stats()["allocated_bytes.all.current"]
    call(rushlight, x, index, source)
    peak = rushlight.cpu.memory_stats()["allocated_bytes.all.peak"]
    assert peak - before < size / 2


@pytest.mark.parametrize("name", CALLS)
def test_gradients_flow_through_what_is_written(name):
    if "reduce" in name or "multiplied" in name:
        pytest.skip("what is written is needed for the gradient")
    if name.endswith("a part"):
        pytest.skip("the source's gradient is refused elsewhere")
    answers = []
    for m in (rushlight, torch):
        x = base(m, "float32", ROWS, COLUMNS).requires_grad_()
        index, source = operands(m, "float32")
        source.requires_grad_()
        y = x * 2
        CALLS[name](m, y, index, source)
        y.square().sum().backward()
        grads = [x.grad, source.grad]
        answers.append([None if g is None else wide(g) for g in grads])
    for mine, theirs in zip(*answers, strict=True):
        if theirs is not None:
            np.testing.assert_array_equal(mine, theirs)


def test_sources_in_the_same_memory_are_read_before_they_are_written():
    """Rows that interleave with the source's share no element, and the same storage."""
    answers = []
    for m in (rushlight, torch):
        both = base(m, "float32", 2 * ROWS, COLUMNS)
        x, source = both[ROWS:], both[:ROWS]
        x.index_add_(0, m.arange(ROWS - 1, -1, -1), source)
        answers.append(wide(both))
    np.testing.assert_array_equal(*answers)


def test_a_bad_index_is_refused_and_the_next_call_makes_its_own_copy():
    x = base(rushlight, "float32", ROWS, COLUMNS)
    index, source = operands(rushlight, "float32")
    with pytest.raises(IndexError):
        x.index_fill_(0, index + ROWS, 1.0)
    kept = x.clone()
    result = x.index_fill(0, index, 5.0)
    assert result.data_ptr() != x.data_ptr()
    assert x.equal(kept)


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_picked_elements_lie_in_zeros_of_their_own(create_graph):
    answers = []
    for m in (rushlight, torch):
        x = base(m, "float32", ROWS, COLUMNS).requires_grad_()
        index, _ = operands(m, "float32")
        picked = x.gather(0, index[:, None].expand(-1, COLUMNS)).square().sum()
        total = picked + x.max(1).values.square().sum() + x.topk(3, 1).values.sum()
        grads = [
            m.autograd.grad(total, x, retain_graph=True, create_graph=create_graph)[0]
            for _ in range(2)
        ]
        assert grads[0].data_ptr() != grads[1].data_ptr()
        answers.append([wide(grad).sum(1) for grad in grads])
    np.testing.assert_array_equal(answers[0], answers[1])
