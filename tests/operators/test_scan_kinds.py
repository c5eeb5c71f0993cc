"""Running sums are one definition in every form: of lanes, of columns, of a grid's threads."""

import numpy as np
import torch

import rushlight
from rushlight.kernels.scan import scan_kernels
from tests.codegen.test_scans import PLAIN, scanned

INF = float("inf")


def test_every_form_begins_with_what_is_before_the_first_element():
    # Columns began with the first element itself, so that -0 stayed where 0 + -0 is 0.
    for shape, dim in ((5,), 0), ((3, 70), 0), ((2, 3, 64), 1), ((2, 3, 8), 1):
        x = torch.full(shape, -0.0)
        ours = rushlight.tensor(x.tolist())
        for name in ("cumsum", "cumprod", "logcumsumexp"):
            expected = getattr(torch, name)(x, dim)
            found = torch.tensor(getattr(ours, name)(dim).tolist())
            assert torch.equal(found.signbit(), expected.signbit()), (name, shape)


def test_logarithms_of_infinities_are_the_same_in_every_form():
    x = np.float32([-INF, -INF, 0.0, 1.0, -INF, INF, INF])
    expected = torch.logcumsumexp(torch.tensor(x), 0).numpy()
    (found,) = scanned(scan_kernels.log_sums, PLAIN, x.reshape(1, -1, 1), 1)
    np.testing.assert_allclose(found.reshape(-1), expected, rtol=1e-6)
    host = rushlight.tensor(x).logcumsumexp(0).numpy()
    np.testing.assert_allclose(host, expected, rtol=1e-6)
