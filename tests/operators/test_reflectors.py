"""QR factors of matrices that near caches hold, which kernels compute without LAPACK."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.target import named, using
from rushlight.kernels.linalg import reflectors

torch = pytest.importorskip("torch")

SIZES = [(17, 17), (33, 20), (20, 33), (64, 64), (100, 70), (300, 3), (2, 40, 24)]
SCALES = {"float32": (1, 1e-38, 1e37), "float64": (1, 1e-300, 1e306)}


def both(sizes, kind, scale=1):
    values = np.random.default_rng(list(sizes)).standard_normal(sizes) * scale
    return rl.from_numpy(values.astype(kind)), torch.from_numpy(values.astype(kind))


def near(ours, theirs, unit):
    top = np.nanmax(abs(theirs.numpy().astype("longdouble")))
    gap = abs(ours.numpy().astype("longdouble") - theirs.numpy())
    assert (np.isnan(ours.numpy()) == np.isnan(theirs.numpy())).all()
    assert np.nanmax(gap) <= unit * top


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("kind", SCALES)
def test_reflectors_and_their_product_are_pytorchs(sizes, kind):
    unit = 100 * np.finfo(kind).eps
    for scale in SCALES[kind]:
        ours, theirs = both(sizes, kind, scale)
        packed, known = rl.geqrf(ours), torch.geqrf(theirs)
        near(packed[0], known[0], unit)
        near(packed[1], known[1], unit)
        for mode in ("reduced", "complete"):
            for a, b in zip(rl.linalg.qr(ours, mode), torch.linalg.qr(theirs, mode)):
                near(a, b, unit)


@pytest.mark.parametrize("kind", SCALES)
def test_columns_of_zeros_have_no_reflector_and_what_is_no_number_stays(kind):
    ours, _ = both((30, 30), kind)
    packed, factors = rl.geqrf(ours.triu())
    assert factors.eq(0).all() and packed.equal(ours.triu())
    ours[:, 3] = 0
    assert rl.geqrf(ours)[1].eq(0).nonzero().ravel().tolist() == [3, 29]
    ours[2, 4] = float("nan")
    assert rl.linalg.qr(ours).R[:4, :4].isfinite().all()
    assert rl.linalg.qr(ours).R[:, 4].isnan().any()


@pytest.mark.parametrize("itemsize", [4, 8])
def test_kernels_are_for_processors_that_mask_their_elements(itemsize):
    for name, fit in (("x86-64-v2", False), ("x86-64-v3", True), ("x86-64-v4", True)):
        with using(named(name)):
            assert reflectors.fits(64, 64, itemsize) is fit
            assert not reflectors.fits(256, 128, itemsize)


def test_a_matrix_that_near_caches_hold_is_factored_by_kernels(monkeypatch):
    if not reflectors.fits(64, 64, 4):
        pytest.skip("the processor has no masks")
    asked = []
    kernel = reflectors.kernel
    monkeypatch.setattr(
        reflectors, "kernel", lambda *kind: asked.append(kind) or kernel(*kind)
    )
    rl.linalg.qr(rl.rand(64, 64))
    rl.linalg.qr(rl.rand(1000, 64))  # which LAPACK has blocks for
    assert asked == [("float32", False), ("float32", True)]
