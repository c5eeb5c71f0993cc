"""What may be written while it is read, or is shown at several places."""

import pytest

import rushlight as rl
from rushlight.core.overlap import (
    refuse_internal_overlap,
    refuse_overlap,
    refuse_partial_overlap,
)

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def refused(function, lib):
    base = lib.arange(36.0)
    try:
        function(lib, base, base.view(6, 6))
    except RuntimeError as error:
        assert "unsupported operation" in str(error)
        return True
    return False


def setitem(target, index, value):
    target[index] = value


WRITES = {
    "shifted slice": lambda t, v, x: setitem(v, slice(1, None), v[:-1]),
    "transposed copy_": lambda t, v, x: x.copy_(x.t()),
    "transposed add_": lambda t, v, x: x.add_(x.t()),
    "expanded setitem": lambda t, v, x: setitem(v[:1].expand(3), slice(None), 3),
    "expanded fill_": lambda t, v, x: v[:1].expand(3).fill_(3),
    "expanded zero_": lambda t, v, x: v[:1].expand(3).zero_(),
    "expanded fill_ by a tensor": lambda t, v, x: v[:1].expand(3).fill_(t.ones(())),
    "expanded add_": lambda t, v, x: v[:1].expand(3).add_(1),
    "expanded copy_": lambda t, v, x: v[:1].expand(3).copy_(t.ones(3)),
    "expanded out": lambda t, v, x: t.add(t.ones(3), 1, out=v[:1].expand(3)),
    "expanded to one": lambda t, v, x: v[:1].expand(1).add_(1),
    "expanded and empty": lambda t, v, x: v[:1].expand(3)[:0].add_(1),
    "shifted out": lambda t, v, x: t.add(v[:-1], 1, out=v[1:]),
    "same out": lambda t, v, x: t.add(v, 1, out=v),
    "same window by another name": lambda t, v, x: v.view(36).add_(v),
    "other shape, same bytes": lambda t, v, x: v.view(1, 36).add_(v),
    "interleaved": lambda t, v, x: v[::2].add_(v[1::2]),
    "strided beside dense": lambda t, v, x: v[::2].add_(v[:18]),
    "columns": lambda t, v, x: x[:, 0].mul_(x[:, 1]),
    "windows": lambda t, v, x: x[:, :2].mul_(x[:, 1:3]),
    "a row of itself": lambda t, v, x: x.add_(x[0]),
    "an element of itself": lambda t, v, x: x.sub_(x[0, 0]),
    "a row copied into all": lambda t, v, x: x.copy_(x[0]),
    "a row set into all": lambda t, v, x: setitem(x, slice(None), x[0]),
    "lower rows set to upper": lambda t, v, x: setitem(x, slice(0, 3), x[3:]),
    "where": lambda t, v, x: t.where(x > 0, x, x.t(), out=x),
    "unary out": lambda t, v, x: t.exp(x.t(), out=x),
    "three operands": lambda t, v, x: x.addcmul_(x.t(), x),
    "comparison": lambda t, v, x: v[1:].lt_(v[:-1]),
    "lerp": lambda t, v, x: v[1:].lerp_(v[:-1], 0.5),
    "bytes of another type": lambda t, v, x: v.copy_(v.view(t.int32)),
    "shifted, of another type": lambda t, v, x: v[1:].copy_(v.view(t.int32)[:-1]),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_that_overlap_are_refused_where_the_oracle_refuses(name):
    assert refused(WRITES[name], rl) == refused(WRITES[name], torch)


def test_a_number_read_from_what_is_filled_is_read_once():
    x = rl.arange(5.0)
    x.fill_(x[3])
    assert x.tolist() == [3.0] * 5


def test_windows_on_different_storages_never_overlap():
    refuse_overlap(rl.zeros(3), rl.zeros(3))
    refuse_partial_overlap(rl.zeros(3), rl.zeros(3))


def test_the_same_window_is_partial_to_nobody_but_overlaps():
    x = rl.zeros(3)
    refuse_partial_overlap(x, x[:])
    with pytest.raises(RuntimeError, match="Please clone"):
        refuse_overlap(x, x[:])
    with pytest.raises(RuntimeError, match="Please clone"):
        refuse_partial_overlap(x, x[1:])


def test_an_expanded_window_may_not_be_written():
    refuse_internal_overlap(rl.zeros(1).expand(1))
    with pytest.raises(RuntimeError, match="more than one element"):
        refuse_internal_overlap(rl.zeros(1, 2).expand(3, 2))
