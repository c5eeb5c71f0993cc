"""Operators that look at elements tell the shapes of their results without any."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def places(m, *sizes):
    return m.empty(*sizes, dtype=m.int64, device="meta")


def mask(m, *sizes):
    return m.empty(*sizes, dtype=m.bool, device="meta")


def bags(mode, **options):
    def run(m, x):
        offsets = places(m, 3) if options else None
        number = places(m, 12) if options else places(m, 3, 4)
        bag = m.nn.functional.embedding_bag
        return bag(number, x(10, 5), offsets, mode=mode, **options)

    return run


CALLS = {
    "a table": lambda m, x: m.nn.functional.embedding(places(m, 3, 4), x(10, 5)),
    "a table with a norm": lambda m, x: m.nn.functional.embedding(
        places(m, 3, 4), x(10, 5), max_norm=1.0
    ),
    "bags of rows": bags("sum"),
    "bags from offsets": bags("mean", include_last_offset=False),
    "bags to the last offset": bags("max", include_last_offset=True),
    "segments": lambda m, x: m.segment_reduce(x(5, 2), "sum", lengths=places(m, 2)),
    "segments from offsets": lambda m, x: m.segment_reduce(
        x(5, 2), "max", offsets=places(m, 3)
    ),
    "scattered by a mask": lambda m, x: x(3, 4).masked_scatter(mask(m, 3, 4), x(12)),
    "filled by a mask": lambda m, x: x(3, 4).masked_fill(mask(m, 4), x(())),
    "filled": lambda m, x: m.fill(x(3), x(())),
    "filled in place": lambda m, x: x(3).fill_(x(())),
    "filled by places": lambda m, x: x(3, 4).index_fill(0, places(m, 2), x(())),
    "written by a mask": lambda m, x: x(3, 4).index_put((mask(m, 3),), x(())),
    "repeated": lambda m, x: x(3).repeat_interleave(places(m, 3), output_size=7),
    "counted": lambda m, x: m.histc(x(3), 4),
    "classes": lambda m, x: m.nn.functional.one_hot(places(m, 3), 5),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_shape_is_pytorchs(name):
    def described(m):
        result = CALLS[name](m, lambda *sizes: m.empty(*sizes, device="meta"))
        dtype = str(result.dtype).split(".")[-1]
        return tuple(result.shape), result.stride(), dtype, result.device.type

    assert described(rl) == described(torch)


def test_a_size_that_only_elements_tell_is_refused():
    with pytest.raises(RuntimeError, match="without output_size"):
        rl.empty(3, device="meta").repeat_interleave(places(rl, 3))
