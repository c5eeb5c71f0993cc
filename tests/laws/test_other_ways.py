"""An operator that goes another way where there is much gives what PyTorch gives."""

import numpy as np
import pytest

import rushlight
from rushlight.operators.indexing.index_slices import along

torch = pytest.importorskip("torch")

GENERATOR = np.random.default_rng(7)


def both(values):
    return rushlight.from_numpy(values), torch.from_numpy(values.copy())


def agrees(ours, theirs):
    assert ours.numpy().dtype == theirs.numpy().dtype
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def with_odd_numbers(*sizes):
    values = GENERATOR.integers(-9, 9, sizes).astype(np.float32)
    flat = values.reshape(-1)
    flat[::7], flat[::31] = -0.0, np.nan
    flat[::53] = np.inf
    return values


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int8"])
@pytest.mark.parametrize("count", [9, 10, 37, 1000])
def test_elements_are_found_among_many(kind, count):
    x, y = with_odd_numbers(61, 5), with_odd_numbers(count)
    if kind[0] == "i":
        x, y = np.nan_to_num(x, posinf=3), np.nan_to_num(y, posinf=3)
    (x, x2), (y, y2) = both(x.astype(kind)), both(y.astype(kind))
    agrees(rushlight.isin(x, y), torch.isin(x2, y2))
    agrees(rushlight.isin(x.t(), y, invert=True), torch.isin(x2.t(), y2, invert=True))


def test_elements_are_found_among_those_of_another_type():
    x, x2 = both(np.arange(-30, 30))
    y, y2 = both(np.arange(-40, 40, 3).astype(np.float64))
    agrees(rushlight.isin(x, y), torch.isin(x2, y2))
    agrees(rushlight.isin(y, x), torch.isin(y2, x2))


@pytest.mark.parametrize("shape", [(3, 500), (2, 40, 3), (4, 30, 70), (50, 300)])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("kind", ["float32", "int16", "bool"])
def test_extremes_so_far_of_long_rows_and_wide_columns(name, shape, kind):
    values = with_odd_numbers(*shape)
    if kind != "float32":
        values = np.nan_to_num(values, posinf=3).astype(kind)
    x, y = both(values)
    for dim in range(len(shape)):
        for ours, theirs in zip(
            getattr(rushlight, name)(x, dim), getattr(torch, name)(y, dim), strict=True
        ):
            agrees(ours, theirs)


@pytest.mark.parametrize("dims", [(0,), (0, 1), (1, 2), (2, 0), (1, 3), (0, 1, 2, 3)])
def test_neighbouring_dimensions_turn_as_one(dims):
    x, y = both(with_odd_numbers(3, 4, 5, 6))
    agrees(rushlight.flip(x, dims), torch.flip(y, dims))
    agrees(rushlight.flip(x.transpose(0, 2), dims), torch.flip(y.transpose(0, 2), dims))


@pytest.mark.parametrize("draws", [1, 2, 63, 299, 300])
def test_draws_without_replacement_are_pytorchs(draws):
    x, y = both(GENERATOR.random((5, 300)) + 1e-3)
    rushlight.manual_seed(3)
    torch.manual_seed(3)
    agrees(rushlight.multinomial(x, draws), torch.multinomial(y, draws))


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("edges", [1, 7, [0.0, 0.1, 0.15, 0.8], [0.2, 0.2, 0.4]])
def test_points_are_counted_between_even_and_uneven_edges(edges, weighed):
    values = GENERATOR.random(500)
    values[::9] = np.nan
    values[:5] = 0.0, 1.0, 0.15, 0.2, 0.4
    x, y = both(values)
    options, others = {}, {}
    if isinstance(edges, int):
        options = {"range": (0.0, 0.9)}
        others, edges, edges2 = dict(options), edges, edges
    else:
        edges, edges2 = both(np.array(edges))
    if weighed:
        options["weight"], others["weight"] = both(GENERATOR.integers(0, 9, 500) * 1.0)
    ours = rushlight.histogram(x, edges, **options)
    theirs = torch.histogram(y, edges2, **others)
    for mine, other in zip(ours, theirs, strict=True):
        agrees(mine, other)


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 8, 9])
@pytest.mark.parametrize("rows", [7, 64, 3000])
def test_short_rows_are_taken_by_columns(rows, columns):
    a, a2 = both(with_odd_numbers(rows, columns))
    b, b2 = both(with_odd_numbers(rows))
    c, c2 = both(with_odd_numbers(rows, columns + 2))
    agrees(a + b[:, None], a2 + b2[:, None])
    agrees(a * c[:, 1:-1], a2 * c2[:, 1:-1])
    agrees(c[:, 1:-1].sub(2 * b[:, None]), c2[:, 1:-1].sub(2 * b2[:, None]))
    agrees(
        rushlight.repeat_interleave(b, columns), torch.repeat_interleave(b2, columns)
    )
    c[:, 1:-1].copy_(b[:, None].expand(rows, columns))
    c2[:, 1:-1].copy_(b2[:, None].expand(rows, columns))
    agrees(c, c2)


@pytest.mark.parametrize("place", [-1, 12])
def test_a_place_outside_of_a_line_is_refused(place):
    x = rushlight.ones(40, 12)
    with pytest.raises(RuntimeError, match="out of DATA bounds"):
        rushlight.index_select(x, 1, rushlight.tensor([0, 3, place, 2]))
    agrees(x[:, [-12, -1, 3]], torch.ones(40, 3))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("offsets", [None, [0, 0, 5, 9], [0, 3, 12]])
@pytest.mark.parametrize("width", [300, 128])
def test_bags_and_their_gradients(mode, padding, offsets, width):
    table, table2 = both(GENERATOR.random((6, width)))
    names = GENERATOR.integers(0, 6, 12)
    i, i2 = both(names if offsets else names.reshape(3, 4))
    options, others = {"mode": mode, "padding_idx": padding}, {}
    others.update(options)
    if offsets:
        options["offsets"], others["offsets"] = both(np.array(offsets))
    ours = rushlight.nn.functional.embedding_bag(i, table.requires_grad_(), **options)
    theirs = torch.nn.functional.embedding_bag(i2, table2.requires_grad_(), **others)
    torch.testing.assert_close(torch.from_numpy(ours.detach().numpy()), theirs.detach())
    along, along2 = both(GENERATOR.random(tuple(theirs.shape)))
    ours.backward(along)
    theirs.backward(along2)
    torch.testing.assert_close(torch.from_numpy(table.grad.numpy()), table2.grad)


@pytest.mark.parametrize("right", [(3,), (4, 1), (2, 3, 5), (2, 70), (0, 3), ()])
@pytest.mark.parametrize("left", [(2,), (3, 4), (2, 1, 3), (5, 1), ()])
def test_pairs_of_short_rows_are_multiplied_once(left, right):
    (a, a2), (b, b2) = both(GENERATOR.random(left)), both(GENERATOR.random(right))
    ours = rushlight.kron(a.requires_grad_(), b.requires_grad_())
    theirs = torch.kron(a2.requires_grad_(), b2.requires_grad_())
    agrees(ours.detach(), theirs.detach())
    assert ours.stride() == theirs.stride()
    along, along2 = both(GENERATOR.random(tuple(theirs.shape)))
    ours.backward(along)
    theirs.backward(along2)
    for mine, other in ((a, a2), (b, b2)):
        torch.testing.assert_close(torch.from_numpy(mine.grad.numpy()), other.grad)


def test_incomplete_gamma_functions_keep_their_digits_in_float32():
    special = pytest.importorskip("scipy.special")
    a, x = np.exp(GENERATOR.uniform(-20, 7, (2, 4000))).astype(np.float32)
    near = a * GENERATOR.uniform(0.5, 2, 4000).astype(np.float32)
    for at in (x, near):
        for name, true in (("igamma", "gammainc"), ("igammac", "gammaincc")):
            exact = getattr(special, true)(a.astype(float), at.astype(float))
            seen = getattr(rushlight, name)(
                rushlight.from_numpy(a), rushlight.from_numpy(at)
            ).numpy()
            told = np.abs(exact) > 1e-30
            off = np.abs(seen[told] - exact[told]) / np.abs(exact[told])
            assert off.max() < 6.6e-8


REDUCED = [((7,), 0), ((7, 5), 0), ((7, 5), 1), ((3, 7, 17), 1), ((6, 40), 0)]


@pytest.mark.parametrize("own", [True, False], ids=["with-self", "without"])
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_slices_reduced_in_one_sweep_are_those_reduced_element_by_element(
    kind, reduce, own
):
    for dtype in (rushlight.float32, rushlight.float64):
        for shape, dim in REDUCED:
            rushlight.manual_seed(len(shape))
            many = [2 * n + 1 if d == dim else n for d, n in enumerate(shape)]
            x, source = (
                rushlight.randn(shape, dtype=dtype),
                rushlight.randn(many, dtype=dtype),
            )
            if reduce != "prod":
                source.view(-1)[3] = float("nan")
            index = rushlight.randint(
                0, shape[dim] - 1, (many[dim],), dtype=getattr(rushlight, kind)
            )
            swept = x.index_reduce(dim, index, source, reduce, include_self=own)
            places = along(index, dim, source.shape).long()
            wanted = x.scatter_reduce(dim, places, source, reduce, include_self=own)
            assert swept.numpy().tobytes() == wanted.numpy().tobytes(), (shape, dim)


@pytest.mark.parametrize("place", [4, -1])
def test_slices_are_written_nowhere_where_an_index_is_outside(place):
    index, ones = rushlight.tensor([0, place]), rushlight.ones(2, 3)
    for name, more in (("index_reduce_", ("amax",)), ("index_add_", ())):
        x = rushlight.zeros(4, 3)
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            getattr(x, name)(0, index, ones, *more)
        assert not x.any()


BAGS = [
    *[(1, 1), (3, 7), (15, 8), (16, 9), (17, 16), (256, 17), (257, 3), (600, 8)],
    *[(64, 8), (64, 19), (128, 3), (192, 16)],
]


@pytest.mark.parametrize(
    "dtype", [rushlight.float32, rushlight.float64, rushlight.bfloat16], ids=str
)
@pytest.mark.parametrize("width, length", BAGS)
def test_bags_of_any_length_are_added_in_their_order(width, length, dtype):
    rushlight.manual_seed(0)
    table = rushlight.randn(9, width).to(dtype)
    named = rushlight.randint(0, 9, (3, length))
    for padding in (None, 2):
        found = rushlight.nn.functional.embedding_bag(
            named, table, mode="sum", padding_idx=padding
        )
        wide = rushlight.float64 if dtype is rushlight.float64 else rushlight.float32
        total = rushlight.zeros(3, width, dtype=wide)
        for k in range(length):
            kept = named[:, k] != (-1 if padding is None else padding)
            total = rushlight.where(
                kept[:, None], total + table[named[:, k]].to(wide), total
            )
        assert rushlight.equal(found, total.to(dtype))


PLANES = [(2, 6, 3, 5), (2, 6, 4, 4), (1, 6, 40), (5, 4, 7, 9), (3, 4), (2, 4, 0)]


@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
@pytest.mark.parametrize("shape", PLANES, ids=str)
@pytest.mark.parametrize("norm", ["group_norm", "instance_norm", "batch_norm", "kept"])
def test_gradients_of_norms_are_those_of_planes_of_any_size(norm, shape, affine):
    channels = shape[1]
    values = [GENERATOR.random(shape), *GENERATOR.random((2, channels))]
    given, given2 = zip(*map(both, values[: 3 if affine else 1]), strict=True)
    along, along2 = both(GENERATOR.random(shape))

    def gradients(library, tensors, along, layout):
        functions = library.nn.functional
        x, *parameters = (t.clone().requires_grad_() for t in tensors)
        seen = x.contiguous(memory_format=layout) if len(shape) == 4 else x
        weight, bias = parameters or (None, None)
        kept = library.ones(channels, dtype=x.dtype)
        if norm == "group_norm":
            result = functions.group_norm(seen, 2, weight, bias)
        elif norm == "instance_norm":
            result = functions.instance_norm(seen, weight=weight, bias=bias)
        else:
            statistics = (kept, kept + 1) if norm == "kept" else (None, None)
            result = functions.batch_norm(
                seen, *statistics, weight, bias, norm == "batch_norm"
            )
        return library.autograd.grad(result, [x, *parameters], along)

    for layout in ("contiguous_format", "channels_last"):
        try:
            theirs = gradients(torch, given2, along2, getattr(torch, layout))
        except (ValueError, RuntimeError):
            pytest.skip("refused by PyTorch")
        ours = gradients(rushlight, given, along, getattr(rushlight, layout))
        for mine, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(
                torch.from_numpy(mine.numpy()), other, equal_nan=True
            )


@pytest.mark.parametrize("size, step", [(1, 1), (3, 1), (3, 2), (5, 2), (4, 4), (2, 5)])
def test_windows_gradients_are_added_where_they_came_from(size, step):
    x = rushlight.randn(2, 11, 3, dtype=rushlight.float64, requires_grad=True)
    assert rushlight.autograd.gradcheck(lambda x: x.unfold(1, size, step), (x,))


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 4095, 8191, 8192, 8193, 12288, 30_001])
def test_norms_of_very_many_are_the_roots_of_their_squares(count, kind):
    values = GENERATOR.standard_normal((2, count)).astype(kind)
    x, _ = both(values)
    exact = 1e-6 if kind == "float32" else 1e-14
    squares = (values.astype("float64") ** 2).sum(1)
    for found, wanted in (
        (rushlight.linalg.vector_norm(x), squares.sum()),
        (rushlight.linalg.vector_norm(x, keepdim=True), squares.sum()),
        (rushlight.linalg.vector_norm(x[1]), squares[1]),
        (
            rushlight.linalg.vector_norm(x[:, ::2]),
            (values[:, ::2].astype("f8") ** 2).sum(),
        ),
        (rushlight.linalg.vector_norm(x, 2, 1), squares),
    ):
        np.testing.assert_allclose(found.numpy().ravel(), np.sqrt(wanted), exact)
    x[1, 0] = float("nan")
    assert rushlight.linalg.vector_norm(x).isnan()
