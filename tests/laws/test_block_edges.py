"""Kernels that work in blocks are right on both sides of every edge, in every dtype."""

import itertools

import numpy as np
import pytest

import rushlight
from rushlight.codegen.schedule.contraction import matrix_tile, unit_tile
from rushlight.codegen.target import current
from rushlight.kernels.conv.conv_geometry import BAND, COLUMNS, SMALL_PLANE
from rushlight.kernels.conv.implicit_gemm import convolution_tile, weight_block
from rushlight.kernels.matmul.gemv import COMBINED_ROWS, DOT_ROWS, DOT_VECTORS

torch = pytest.importorskip("torch", reason="the oracle is not installed")

SUMMED = ("float32", "float64", "int32", "int64")
DTYPES = (*SUMMED, "float16", "bfloat16", "int16", "int8", "uint8")
EPSILON = {"float32": 5e-7, "float64": 1e-15, "float16": 2e-3, "bfloat16": 1.6e-2}


def around(*edges):
    """One below, at and one above each edge.

    >>> around(4, 5)
    [3, 4, 5, 6]
    """
    return sorted({edge + step for edge in edges for step in (-1, 0, 1)} - {0})


def values(sizes, dtype, seed=0):
    """Small numbers; integers in every dtype are few, so that sums stay exact."""
    rng = np.random.default_rng(seed)
    if dtype in ("float16", "bfloat16"):
        array = rng.integers(-2, 3, sizes).astype(np.float32)
        return torch.from_numpy(array).to(getattr(torch, dtype))
    if dtype.startswith("float"):
        return torch.from_numpy(np.asarray(rng.standard_normal(sizes), dtype))
    low = 0 if dtype == "uint8" else -2
    return torch.from_numpy(np.asarray(rng.integers(low, 3, sizes), dtype))


def ours(tensor):
    """The same values as a Rushlight tensor."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    plain = tensor.float() if dtype == "bfloat16" else tensor
    result = rushlight.from_numpy(plain.numpy().copy())
    return result.to(getattr(rushlight, dtype))


def assert_near(result, expected, dtype, depth, what):
    """Within what ``depth`` additions may lose; integers wrap as their dtype does."""
    if dtype not in EPSILON:
        wanted = expected.to(getattr(torch, dtype)).numpy()
        assert (result.numpy() == wanted).all(), what
        return
    found = result.double().numpy()
    wanted = expected.double().numpy()
    assert found.shape == wanted.shape, what
    bound = EPSILON[dtype] * np.maximum(np.abs(wanted), max(4, depth))
    wrong = ~(np.abs(found - wanted) <= bound)
    assert not wrong.any(), (
        f"{what}: {wrong.sum()} wrong, first {np.argwhere(wrong)[0]}"
    )


def exact(tensor):
    """In the type that the oracle computes the truth in."""
    return tensor.double() if tensor.is_floating_point() else tensor.long()


# Matrix products


def tile_of(dtype):
    name = dtype if dtype in SUMMED else "float32" if "float" in dtype else "int32"
    return matrix_tile(name, current())


def matrix_sizes(dtype):
    """Rows, depths and columns at edges, each beside small others."""
    tile = tile_of(dtype)
    rows = around(1, tile.rows, 2 * tile.rows, 24, 48, 192)
    columns = around(1, tile.lanes, tile.width, tile.columns, 512, 1024)
    depths = around(
        1, 2, 16, COMBINED_ROWS, tile.lanes * DOT_VECTORS, tile.depth, 2 * tile.depth
    )
    for m in rows:
        yield m, 5, tile.width + 1
    for n in columns:
        for m in (1, 7, 49):
            yield m, 3, n
    for k in depths:
        for m, n in ((1, 1), (1, tile.width), (tile.rows + 1, 1), (7, tile.lanes + 1)):
            yield m, k, n
    for m in around(DOT_ROWS, 16):
        yield m, 9, 1
    for n in around(4096):
        yield 1, 2, n


def sizes_of_tiles(dtype):
    """Rows, depths and columns at the edges of what a unit of tiles takes."""
    tile, together = unit_tile(), 4 // getattr(rushlight, dtype).itemsize
    deep = tile.depth * together
    for m in around(2, 16, tile.rows, 2 * tile.rows):
        yield m, 129, tile.width + 1
    for n in around(2, 16, tile.width, 2 * tile.width, tile.columns):
        yield tile.rows + 1, 66, n
    for k in around(2, 16 * together, 32 * together, deep, 2 * deep):
        yield 35, k, 47
    yield 513, 3, 1025  # several blocks of rows and of columns


@pytest.mark.parametrize("turned", (*itertools.product((False, True), repeat=2),))
@pytest.mark.parametrize("dtype", ("bfloat16", "int8", "uint8"))
def test_products_at_the_edges_of_tiles(dtype, turned):
    for m, k, n in sizes_of_tiles(dtype):
        a = values((k, m) if turned[0] else (m, k), dtype, 1)
        b = values((n, k) if turned[1] else (k, n), dtype.removeprefix("u"), 2)
        if dtype != "bfloat16":  # all values that there are: sums are exact
            a, b = a * 42 + 3, b * 42 - 3
        x, y, p, q = ours(a), ours(b), exact(a), exact(b)
        x, p = (x.t(), p.t()) if turned[0] else (x, p)
        y, q = (y.t(), q.t()) if turned[1] else (y, q)
        if dtype == "bfloat16":
            assert_near(x @ y, p @ q, dtype, k, f"{m} x {k} x {n}")
        else:
            assert rushlight._int_mm(x, y).tolist() == (p @ q).tolist()


@pytest.mark.parametrize("turned", ("plain", "left", "right", "both", "stepped"))
@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_products_at_the_edges_of_their_blocks(dtype, turned):
    for m, k, n in matrix_sizes(dtype):
        left, right = (m, k), (k, n)
        if turned in ("left", "both"):
            left = left[::-1]
        if turned in ("right", "both"):
            right = right[::-1]
        step = 2 if turned == "stepped" else 1
        a = values((left[0], left[1] * step), dtype, 1)
        b = values((right[0], right[1] * step), dtype, 2)

        x, y = (t[:, ::step] for t in map(ours, (a, b)))
        p, q = (t[:, ::step] for t in map(exact, (a, b)))
        if turned in ("left", "both"):
            x, p = x.t(), p.t()
        if turned in ("right", "both"):
            y, q = y.t(), q.t()
        assert_near(x @ y, p @ q, dtype, k, f"{m} x {k} x {n}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_batched_products_at_the_edges_of_their_blocks(dtype):
    tile = tile_of(dtype)
    sizes = [(m, 5, tile.width) for m in around(tile.rows, 24)]
    sizes += [(7, k, 9) for k in around(16, tile.depth)]
    sizes += [(3, 4, n) for n in around(tile.lanes, tile.width, tile.columns)]
    for m, k, n in sizes:
        for count in (1, 2, 5):
            a = values((count, m, k), dtype, 1)
            b = values((count, k, n), dtype, 2)
            d = values((count, m, n), dtype, 3)
            result = rushlight.baddbmm(ours(d), ours(a), ours(b))
            expected = exact(d) + exact(a) @ exact(b)
            assert_near(result, expected, dtype, k, f"{count}: {m} x {k} x {n}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_with_an_addend_at_the_edges_of_their_blocks(dtype):
    tile = tile_of(dtype)
    for m, k, n in [
        *((m, tile.depth + 1, 3) for m in around(tile.rows)),
        *((4, k, tile.width + 1) for k in around(tile.depth)),
        *((m, 3, 1) for m in around(DOT_ROWS)),
        *((1, 9, n) for n in around(tile.width)),
    ]:
        a, b = values((m, k), dtype, 1), values((k, n), dtype, 2)
        for sizes in ((m, n), (n,), (1, n), (m, 1), ()):
            d = values(sizes, dtype, 3)
            result = rushlight.addmm(ours(d), ours(a), ours(b), beta=2, alpha=3)
            expected = 2 * exact(d) + 3 * (exact(a) @ exact(b))
            assert_near(result, expected, dtype, 9 * k, f"{m} x {k} x {n}, {sizes}")


# Convolutions


def convolution_cases(dtype):
    """Images, channels, sizes, output channels, kernel, stride, padding, groups."""
    name = dtype if dtype in SUMMED else "float32" if "float" in dtype else "int32"
    tile = convolution_tile(name, current())
    rows = around(1, tile.rows, BAND, weight_block(tile), 2 * weight_block(tile))
    for n in rows:
        yield 2, 3, (5, 6), n, (3, 3), (1, 1), (1, 1), 1
    for n in around(weight_block(tile)):
        yield 2, 3, (4, 4), n, (1, 1), (1, 1), (0, 0), 1
        yield 1, 4, (4, 5), 2 * n, (2, 2), (2, 2), (1, 1), 2
    for c in around(tile.depth // 9, 2 * tile.depth // 9, BAND // 9):
        yield 1, c, (4, 5), 7, (3, 3), (1, 1), (1, 1), 1
    for c in around(tile.depth, BAND):
        yield 2, c, (3, 3), 25, (1, 1), (1, 1), (0, 0), 1
        yield 1, c, (4, 3), 3, (2, 1), (1, 1), (0, 0), 1
    for size in around(tile.lanes, tile.width, SMALL_PLANE, COLUMNS, 2 * COLUMNS):
        yield 2, 2, (1, size), 3, (1, 3), (1, 1), (0, 1), 1
        yield 2, 3, (2, size), 20, (1, 3), (1, 2), (0, 1), 1
        yield 2, 2, (1, size), 9, (1, 2), (1, 3), (0, 1), 1
    for images in around(COLUMNS // 16, 8):
        yield images, 3, (4, 4), 13, (3, 3), (1, 1), (1, 1), 1
        yield images, 1, (4, 4), 2, (3, 3), (1, 1), (1, 1), 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_convolutions_at_the_edges_of_their_blocks(dtype):
    for case in convolution_cases(dtype):
        images, channels, sizes, rows, kernel, stride, padding, groups = case
        x = values((images, channels, *sizes), dtype, 1)
        w = values((rows, channels // groups, *kernel), dtype, 2)
        bias = values((rows,), dtype, 3)
        settings = stride, padding, 1, groups
        result = rushlight.conv2d(*map(ours, (x, w, bias)), *settings)
        expected = torch.conv2d(*(t.double() for t in (x, w, bias)), *settings)
        depth = w[0].numel()
        assert_near(result, exact_back(expected, dtype), dtype, depth, f"{case}")


def exact_back(tensor, dtype):
    """Results of exact sums as the type they stand for: integers wrap from int64."""
    return tensor if "float" in dtype else tensor.long()


def gradients(function, operands, *args, **settings):
    """The gradients of half the squares of what a function returns."""
    leaves = [t.detach().clone().requires_grad_() for t in operands]
    result = function(*leaves, *args, **settings)
    (result * result.detach()).sum().backward()
    return [leaf.grad for leaf in leaves]


@pytest.mark.parametrize("transposed", (False, True))
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_gradients_of_convolutions_at_the_edges_of_their_blocks(dtype, transposed):
    name = "conv_transpose2d" if transposed else "conv2d"
    for case in convolution_cases(dtype):
        images, channels, sizes, rows, kernel, stride, padding, groups = case
        shape = (rows, channels // groups, *kernel)
        if transposed:
            channels, rows = rows, channels
        x = values((images, channels, *sizes), dtype, 1)
        w, bias = values(shape, dtype, 2), values((rows,), dtype, 3)

        settings = {"stride": stride, "padding": padding, "groups": groups}
        operands = (x, w, bias)
        found = gradients(getattr(rushlight, name), map(ours, operands), **settings)
        truth = [t.double() for t in operands]
        wanted = gradients(getattr(torch, name), truth, **settings)
        for which, one, other in zip("xwb", found, wanted, strict=True):
            scale = max(1.0, other.abs().max().item())
            assert_near(
                one / scale, other / scale, dtype, 1000, f"{case}: gradient of {which}"
            )


# Pooling


@pytest.mark.parametrize("kind", ("max_pool2d", "avg_pool2d"))
@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "bfloat16"))
def test_pooling_at_the_edges_of_its_blocks(dtype, kind):
    for size in around(8, 16, 32, 64):
        for channels in (1, 3):
            for stride in (1, 2, 3):
                x = values((2, channels, 5, size), dtype)
                pool = getattr(rushlight.nn.functional, kind)
                oracle = getattr(torch.nn.functional, kind)
                window = 3, stride, 1
                what = f"{size}, {channels}, {stride}"
                expected = oracle(x.double(), *window)
                assert_near(pool(ours(x), *window), expected, dtype, 9, what)
                (found,) = gradients(pool, [ours(x)], *window)
                (wanted,) = gradients(oracle, [x], *window)
                assert_near(found, wanted, dtype, 81, f"gradient of {what}")
