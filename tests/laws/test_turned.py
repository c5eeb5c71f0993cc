"""Transposing what is no matrix warns as in PyTorch: once for each way to ask."""

import warnings

import pytest

import rushlight

torch = pytest.importorskip("torch")

WAYS = {
    "T": lambda x: x.T, "mT": lambda x: x.mT, "H": lambda x: x.H, "mH": lambda x: x.mH,
    "adjoint": lambda x: x.adjoint(),
}  # fmt: skip


def warned(library, way, sizes):
    """What came of a call, and of how many warnings the second, with all of them on."""
    x = library.ones(sizes, dtype=library.complex64)
    library.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                result = WAYS[way](x)
            except RuntimeError:
                return RuntimeError, [t.category for t in told]
        return (result.shape, result.stride()), [t.category for t in told]
    finally:
        library.set_warn_always(False)


@pytest.mark.parametrize("sizes", [(), (3,), (2, 3), (2, 2, 3), (0, 1, 2, 1)], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_matrix_is_warned_of_as_in_pytorch(way, sizes):
    assert warned(rushlight, way, sizes) == warned(torch, way, sizes)


def test_each_way_warns_once_where_it_was_written(nothing_said_yet):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            for sizes in ((3,), (2, 2, 2), ()):
                WAYS["T"](rushlight.ones(sizes))
            WAYS["mT"](rushlight.ones(()))
    assert len(told) == 3
    assert all(t.category is UserWarning and t.filename == __file__ for t in told)
