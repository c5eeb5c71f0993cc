"""A view shares its base's storage: what is written to one is read from the other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight

from .layouts import LAYOUTS, SIZES, laid_out

VIEWS = (
    "transpose", "permute", "narrow", "select", "unsqueeze", "squeeze", "expand",
    "slice", "diagonal", "unfold", "split", "unbind", "detach", "view_as", "flatten",
)  # fmt: skip


def view_of(x, kind, draw):
    """A view of one kind of a tensor with at least one dimension."""
    dim = draw(st.integers(0, x.dim() - 1))
    size = x.shape[dim]
    start = draw(st.integers(0, size - 1))
    return {
        "transpose": lambda: x.transpose(dim, 0),
        "permute": lambda: x.permute(*range(x.dim())[::-1]),
        "narrow": lambda: x.narrow(dim, start, size - start),
        "select": lambda: x.select(dim, start),
        "unsqueeze": lambda: x.unsqueeze(dim),
        "squeeze": lambda: x.squeeze(),
        "expand": lambda: x.expand(2, *x.shape),
        "slice": lambda: x.transpose(0, dim)[start::2],
        "diagonal": lambda: x.unsqueeze(0).diagonal(0, 0, dim + 1),
        "unfold": lambda: x.unfold(dim, size - start, 1),
        "split": lambda: x.split(1, dim)[start],
        "unbind": lambda: x.unbind(dim)[start],
        "detach": lambda: x.detach(),
        "view_as": lambda: x.view_as(x),
        "flatten": lambda: x.flatten() if x.is_contiguous() else x.detach(),
    }[kind]()


@given(SIZES, LAYOUTS, st.sampled_from(VIEWS), st.data())
@settings(max_examples=200, deadline=None)
def test_a_view_shares_its_bases_storage(sizes, layout, kind, data):
    base = laid_out(rushlight, [size + 1 for size in sizes] or [2], layout)
    view = view_of(base, kind, data.draw)
    assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    before = base._version
    element = first_of(view)
    element.fill_(-7)
    assert first_of(view).item() == -7
    assert (base == -7).any()
    assert base._version == view._version == before + 1


def first_of(view):
    """The first element, as a view."""
    for _ in range(view.dim()):
        view = view.select(0, 0)
    return view


@given(SIZES, LAYOUTS, st.sampled_from(VIEWS), st.data())
@settings(max_examples=150, deadline=None)
def test_a_view_is_the_oracles(sizes, layout, kind, data):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    sizes = [size + 1 for size in sizes] or [2]
    choices = []

    def draw(strategy):
        choices.append(data.draw(strategy))
        return choices[-1]

    ours = view_of(laid_out(rushlight, sizes, layout), kind, draw)
    replay = iter(choices)
    theirs = view_of(laid_out(torch, sizes, layout), kind, lambda _: next(replay))
    assert ours.tolist() == theirs.tolist()
    assert tuple(ours.stride()) == tuple(theirs.stride())
    assert ours.storage_offset() == theirs.storage_offset()
