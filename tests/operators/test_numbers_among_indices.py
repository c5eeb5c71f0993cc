"""Indices and sources without dimensions name one place of a row, in every type."""

import itertools

import pytest

torch = pytest.importorskip("torch", reason="the oracle is not installed")

import rushlight  # noqa: E402

TYPES = ("float32", "int64", "complex64", "complex128", "bfloat16")
SHAPES = ((), (1,), (2,))


def filled(m, sizes, value, dtype):
    kind = getattr(m, dtype)
    return m.full(sizes, value * 1j if kind.is_complex else value, dtype=kind)


def rows(m, own, dtype):
    return filled(m, own, 3, dtype) + 1


WAYS = {
    "gather": lambda m, own, at, source, dtype: m.gather(rows(m, own, dtype), 0, at),
    "scatter": lambda m, own, at, source, dtype: m.scatter(
        rows(m, own, dtype), 0, at, source
    ),
    "scatter a number": lambda m, own, at, source, dtype: m.scatter(
        rows(m, own, dtype), 0, at, 2
    ),
    "scatter a sum": lambda m, own, at, source, dtype: m.scatter(
        rows(m, own, dtype), 0, at, source, reduce="add"
    ),
    "scatter a product": lambda m, own, at, source, dtype: m.scatter(
        rows(m, own, dtype), 0, at, source, reduce="multiply"
    ),
    "scatter_add": lambda m, own, at, source, dtype: m.scatter_add(
        rows(m, own, dtype), 0, at, source
    ),
    "index_add": lambda m, own, at, source, dtype: m.index_add(
        rows(m, own, dtype), 0, at, source
    ),
    "index_copy": lambda m, own, at, source, dtype: m.index_copy(
        rows(m, own, dtype), 0, at, source
    ),
    "put": lambda m, own, at, source, dtype: rows(m, own, dtype).put(at, source, True),
}


def answer(m, way, own, places, given, dtype):
    at = m.zeros(places, dtype=m.int64)
    try:
        found = WAYS[way](m, own, at, filled(m, given, 2, dtype), dtype)
    except (RuntimeError, IndexError):  # PyTorch's kernels refuse by either
        return "refused"
    return str(found.dtype).rpartition(".")[2], tuple(found.shape), found.tolist()


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("way", WAYS)
def test_a_number_is_a_row_of_one(way, dtype):
    for own, places, given in itertools.product(SHAPES, SHAPES, SHAPES):
        ours = answer(rushlight, way, own, places, given, dtype)
        theirs = answer(torch, way, own, places, given, dtype)
        assert ours == theirs, (own, places, given)
